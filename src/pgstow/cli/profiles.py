"""Which of the workspace's profiles a command is about."""

from typing import TYPE_CHECKING

from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgstow.model import Profile
    from pgstow.workspace import Entry
    from pgstow.workspace import Workspace as Store

_SEE = "see pgstow observe --list"


def chosen_entry(store: "Store", text: str | None) -> "Entry":
    """The profile of a number or a name; without one the latest."""
    entries = store.list("profile")
    if not entries:
        raise UserError("the workspace holds no profile", "run pgstow observe first")
    if text is None:
        return entries[-1]
    same = [e for e in entries if text in (e.name, str(e.id))]
    if not same:
        raise UserError(f"the workspace has no profile {text}", _SEE)
    return same[-1]


def chosen_profile(store: "Store", text: str | None = None) -> "Profile":
    """The contents of a profile of that number or name; without one of the latest."""
    return profile_of(store, chosen_entry(store, text))


def profile_of(store: "Store", entry: "Entry") -> "Profile":
    """The contents of a profile that the workspace lists."""
    from pgstow.model import Profile

    found = store.get("profile", entry.id, Profile)
    assert found is not None, entry
    return found


def free_name(store: "Store", name: str | None) -> str | None:
    """A name for a profile that no other has, and that is no number."""
    if name is None:
        return None
    if not name.strip() or name.isdigit() or "," in name or not name.isprintable():
        raise UserError(
            f"--name {name!r}: not a profile's name", "use a word that is no number, as before-move"
        )
    taken = next((e for e in store.list("profile") if e.name == name), None)
    if taken is not None:
        raise UserError(f"profile {taken.id} is called {name} already", "choose another name")
    return name


def merge(store: "Store", texts: "Sequence[str]") -> "Profile":
    """The profiles of some numbers and names as one."""
    from pgstow import observe

    entries = [chosen_entry(store, text.strip()) for text in texts if text.strip()]
    unique = {entry.id: entry for entry in entries}
    return observe.merged([profile_of(store, entry) for entry in unique.values()])
