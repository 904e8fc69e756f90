"""The workspace as commands use it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgstow.model import Profile
    from pgstow.planning import Growth
    from pgstow.workspace import Workspace


def open_workspace(path: Path, *, create: bool = False) -> "Workspace":
    """Open the project file; only with ``create`` it is made where it is missing."""
    from pgstow.cli.output import print_warnings
    from pgstow.model import Warning
    from pgstow.workspace import Workspace

    store = Workspace.open(path, create)
    if not store.is_private:
        message = f"others may read workspace {path}, which names databases and relations"
        print_warnings([Warning("workspace-mode", message, f"chmod 600 {path}")])
    return store


def look_into(path: Path) -> "Workspace":
    """Open the project file for who can do without it: where it is missing, one without a file."""
    from pgstow.workspace import Workspace

    try:
        is_there = path.exists()
    except OSError:
        is_there = True  # opening it says what is wrong
    return open_workspace(path) if is_there else Workspace.empty()


def seen_growth(store: "Workspace", profile: "Profile") -> "Growth | None":
    """How fast relations grow, from all the workspace's profiles of this server."""
    from pgstow import planning
    from pgstow.model import Profile

    entries = store.list("profile")
    earlier = [store.get("profile", one.id, Profile) for one in entries]
    return planning.growth(profile, tuple(one for one in earlier if one is not None))


def profile_age_s(profile: "Profile") -> float:
    """How long ago a profile was observed."""
    from datetime import UTC, datetime

    started = datetime.fromisoformat(profile.started_at)
    return (datetime.now(UTC) - started).total_seconds()
