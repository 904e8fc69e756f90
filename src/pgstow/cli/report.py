"""``pgstow report``: one self-contained HTML file of what the workspace holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Workspace
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping


@app.command()
def report(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the page is written.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="The profile before, by number or name."),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="The profile after, likewise.")
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Also write every chart there as a picture."),
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Write one HTML file of all that was observed, planned, applied, measured and compared.

    Before is the profile that preceded the last apply in time, after the last one begun when that
    had ended; pgstow observe --list shows them. The file loads nothing from a network. With --json
    the same content is printed instead. With --png every chart is also written as a picture.

    Examples: pgstow report --out report.html --png charts;
    pgstow report --before morning --after 7
    """
    from pgstow import catalog
    from pgstow.cli.output import console, print_json
    from pgstow.cli.report_document import document_of
    from pgstow.report import render, render_pngs
    from pgstow.workspace import Workspace as Store

    with Store.open(workspace, create=False) as store:
        document = document_of(store, catalog.load(), title=title, before=before, after=after)
    if png is not None:
        write_pictures(png, render_pngs(document))
    if json:
        print_json(document)
        return
    write_page(out, render(document))
    console().print(f"Written to {out}", markup=False, soft_wrap=True)


def write_page(path: Path, page: str) -> None:
    """Write a page so that the file is whole or not there."""
    import os
    import tempfile

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(page)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}", "name another file with --out"
        ) from error


def write_pictures(directory: Path, pictures: "Mapping[str, bytes]") -> None:
    """Write each picture under its name; the directory is made if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (directory / f"{name}.png").write_bytes(picture)
    except OSError as error:
        raise UserError(
            f"pictures cannot be written to {directory}: {error.strerror}",
            "name another directory with --png",
        ) from error
