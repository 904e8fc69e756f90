"""Planning: the cheapest layout for a goal, its bound, and its reasons."""

from pgstow.planning.contents import Contents, Share, contents
from pgstow.planning.economics import Margins
from pgstow.planning.planner import plan
from pgstow.planning.selection import select, select_one
from pgstow.planning.why import TypeChoice, VolumeChoice, Why, why

__all__ = [
    "Contents",
    "Margins",
    "Share",
    "TypeChoice",
    "VolumeChoice",
    "Why",
    "contents",
    "plan",
    "select",
    "select_one",
    "why",
]
