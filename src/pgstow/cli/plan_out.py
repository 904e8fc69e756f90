"""The file that ``pgstow plan`` writes: never over what a person has written or edited."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.model.errors import PgstowError, UserError

if TYPE_CHECKING:
    from pgstow.workspace import Workspace


def check_out(path: Path, store: "Workspace") -> None:
    """Refuse a file that is there and is not, as it was written, a plan of this workspace."""
    from pgstow.layout_file import format_layout
    from pgstow.model import Plan

    try:
        present = path.read_text(encoding="utf-8") if path.is_file() else ""
    except UnicodeDecodeError:
        present = "what is no text is nobody's plan"
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", "name another file with --out"
        ) from error
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent} for {path.name}", "make it first")
    if path.is_dir():
        raise UserError(f"{path} is a directory", "name a file with --out")
    if not present:
        return
    for entry in reversed(store.list("plan")):
        with contextlib.suppress(PgstowError):  # of a plan of another version
            plan = store.get("plan", entry.id, Plan)
            if plan is not None and format_layout(plan.layout) == present:
                return
    raise UserError(
        f"{path} is there and is not a plan of this workspace as pgstow wrote it",
        "name another file with --out, or overwrite it with --force",
    )


def write_layout(path: Path, text: str) -> None:
    """Write a layout file; a path that cannot be written is the user's mistake."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}", "name another file with --out"
        ) from error
