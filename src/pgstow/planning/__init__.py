"""Planning: the cheapest layout for a goal, its bound, and its reasons."""

from pgstow.planning.planner import plan

__all__ = ["plan"]
