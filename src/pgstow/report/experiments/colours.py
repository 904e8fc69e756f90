"""Colours of levels and of wait events, light and dark, told apart by the colour-blind too.

Chosen so that any two of a set are at least 14 apart in CIELAB, also as people without one kind of
cones see them (Machado, Oliveira and Fernandes, 2009). The page's style sheet has both sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEVELS = ("k0", "k1", "k2", "k3", "k4", "k5", "k6")  # k0 is the baseline's
LEVELS_LIGHT = {
    "k0": "#7c8794",
    "k1": "#1272d6",
    "k2": "#c77a1e",
    "k3": "#0a8f63",
    "k4": "#7b2f9e",
    "k5": "#8c1d18",
    "k6": "#1f2f6b",
}
# Of a wait event's class, the shades in the order in which events take them.
WAITS = {
    "CPU": ("w-cpu",),
    "IO": ("w-io0", "w-io1", "w-io2"),
    "LWLock": ("w-lwlock0", "w-lwlock1", "w-lwlock2"),
    "Lock": ("w-lock0", "w-lock1"),
    "IPC": ("w-ipc0", "w-ipc1"),
}
_IDLE = ("w-idle0", "w-idle1")  # of all other classes: Client, Timeout, Activity, …
WAITS_LIGHT = {
    "w-cpu": "#93db71",
    "w-io0": "#0036a1",
    "w-io1": "#387ff3",
    "w-io2": "#6fd2fc",
    "w-lwlock0": "#6a3e00",
    "w-lwlock1": "#bf741e",
    "w-lwlock2": "#f6be2d",
    "w-lock0": "#800035",
    "w-lock1": "#d74f58",
    "w-ipc0": "#462863",
    "w-ipc1": "#a963b0",
    "w-idle0": "#949ca4",
    "w-idle1": "#5b6570",
    "w-other": "#d9dde2",
}
# The usual events of a storage-bound server keep their shade on every page.
_KNOWN = {
    "IO:WalSync": "w-io0",
    "IO:WALSync": "w-io0",
    "IO:DataFileRead": "w-io1",
    "IO:AioIoCompletion": "w-io1",
    "IO:WalWrite": "w-io2",
    "IO:WALWrite": "w-io2",
    "LWLock:WALWrite": "w-lwlock1",
    "LWLock:WALInsert": "w-lwlock0",
    "LWLock:BufferContent": "w-lwlock2",
    "Lock:transactionid": "w-lock1",
    "Lock:tuple": "w-lock0",
}
_DASHES: tuple[tuple[int, ...], ...] = ((), (5, 3), (1, 2), (8, 2, 2, 2))


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How a level is drawn: the name of its colour and its dashes."""

    colour: str
    dashes: tuple[int, ...]


def level_styles(levels: Sequence[str], baseline: str) -> dict[str, LineStyle]:
    """A style for each level: grey for the baseline, then six colours in every kind of dashes."""
    hues = LEVELS[1:]
    others = [level for level in levels if level != baseline]
    found = {
        level: LineStyle(hues[index % len(hues)], _DASHES[index // len(hues) % len(_DASHES)])
        for index, level in enumerate(others)
    }
    return {level: found.get(level, LineStyle("k0", ())) for level in levels}


def wait_colours(events: Sequence[str]) -> Mapping[str, str]:
    """The name of each event's colour: its class gives the hue, what it is the shade.

    A shade is shared only where a class has more events than shades.
    """
    found: dict[str, str] = {}
    usual = [event for event in _KNOWN if event in events]
    for event in (*usual, *(event for event in events if event not in _KNOWN)):
        shades = WAITS.get(event.partition(":")[0], _IDLE)
        free = [shade for shade in shades if shade not in found.values()] or list(shades)
        wanted = _KNOWN.get(event)
        found[event] = wanted if wanted in free else free[0]
    if "other" in found:
        found["other"] = "w-other"
    return {event: found[event] for event in events}
