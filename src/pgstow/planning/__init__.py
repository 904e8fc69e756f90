"""Planning: the cheapest layout for a goal, its bound, and its reasons."""

from pgstow.planning.backup import backup_warnings
from pgstow.planning.baselines import RULES
from pgstow.planning.changes import Changes, Move, changes
from pgstow.planning.comparison import Compared, baseline, compare
from pgstow.planning.contents import Contents, Share, contents
from pgstow.planning.economics import Margins
from pgstow.planning.evidence import age_evidence, evidence
from pgstow.planning.frontier import Frontier, FrontierPoint, frontier
from pgstow.planning.growth import (
    Growth,
    full_warnings,
    grown,
    growth,
    growth_needed,
    growth_warnings,
)
from pgstow.planning.headroom import Bottleneck, bottleneck
from pgstow.planning.memory import cache_of, unknown_warnings
from pgstow.planning.planner import plan
from pgstow.planning.selection import select, select_one, select_together
from pgstow.planning.why import TypeChoice, VolumeChoice, Why, why, why_wal

__all__ = [
    "RULES",
    "Bottleneck",
    "Changes",
    "Compared",
    "Contents",
    "Frontier",
    "FrontierPoint",
    "Growth",
    "Margins",
    "Move",
    "Share",
    "TypeChoice",
    "VolumeChoice",
    "Why",
    "age_evidence",
    "backup_warnings",
    "baseline",
    "bottleneck",
    "cache_of",
    "changes",
    "compare",
    "contents",
    "evidence",
    "frontier",
    "full_warnings",
    "grown",
    "growth",
    "growth_needed",
    "growth_warnings",
    "plan",
    "select",
    "select_one",
    "select_together",
    "unknown_warnings",
    "why",
    "why_wal",
]
