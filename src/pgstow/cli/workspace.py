"""The workspace as commands use it."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pgstow.model import Profile
    from pgstow.planning import Growth
    from pgstow.workspace import Workspace


def open_workspace(path: Path) -> "Workspace":
    """Open the project file, made where it is missing."""
    from pgstow.workspace import Workspace

    return Workspace.open(path)


def latest_profile(store: "Workspace") -> "Profile":
    """The newest profile; without one there is nothing to work from."""
    from pgstow.model import Profile

    profile = store.latest("profile", Profile)
    if profile is None:
        raise UserError("the workspace holds no profile", "run pgstow observe first")
    return profile


def seen_growth(store: "Workspace", profile: "Profile") -> "Growth | None":
    """How fast relations grow, from all the workspace's profiles of this server."""
    from pgstow import planning
    from pgstow.model import Profile

    entries = store.list("profile")[:-1]
    earlier = [store.get("profile", one.id, Profile) for one in entries]
    return planning.growth(profile, tuple(one for one in earlier if one is not None))


def profile_age_s(profile: "Profile") -> float:
    """How long ago a profile was observed."""
    from datetime import UTC, datetime

    started = datetime.fromisoformat(profile.started_at)
    return (datetime.now(UTC) - started).total_seconds()
