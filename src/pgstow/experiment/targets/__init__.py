"""Where an experiment's trials run: on volumes that are made for each, or on servers there are."""

from pgstow.experiment.targets.made import DirectoryTarget, EmulatedTarget
from pgstow.experiment.targets.server import Load, ServerTarget
from pgstow.experiment.targets.target import Ready, Target, Volumes

__all__ = [
    "DirectoryTarget",
    "EmulatedTarget",
    "Load",
    "Ready",
    "ServerTarget",
    "Target",
    "Volumes",
]
