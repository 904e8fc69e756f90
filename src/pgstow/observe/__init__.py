"""Observe: from a live server and its host to a profile."""

from pgstow.observe.aggregate import Machine, Observation, aggregate
from pgstow.observe.intervals import Sample
from pgstow.observe.layout import PresentLayout, present_layout
from pgstow.observe.merging import merged
from pgstow.observe.run import filesystems_of, observe

__all__ = [
    "Machine",
    "Observation",
    "PresentLayout",
    "Sample",
    "aggregate",
    "filesystems_of",
    "merged",
    "observe",
    "present_layout",
]
