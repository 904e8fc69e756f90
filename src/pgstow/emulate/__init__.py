"""Make a layout's volumes out of memory, as mounted filesystems that behave like the cloud's."""

from pgstow.emulate.bring_up import plan_up, up
from pgstow.emulate.reconcile import Action, describe_cap, describe_limits
from pgstow.emulate.requirements import check_requirements
from pgstow.emulate.state import DEFAULT_STATE_DIRECTORY
from pgstow.emulate.status import (
    EmulatedVolume,
    EmulatorStatus,
    VolumeStatus,
    emulated_volumes,
    read_status,
    set_limits,
)
from pgstow.emulate.status import read_status as status
from pgstow.emulate.take_down import Cleanup, down

__all__ = [
    "DEFAULT_STATE_DIRECTORY",
    "Action",
    "Cleanup",
    "EmulatedVolume",
    "EmulatorStatus",
    "VolumeStatus",
    "check_requirements",
    "describe_cap",
    "describe_limits",
    "down",
    "emulated_volumes",
    "plan_up",
    "read_status",
    "set_limits",
    "status",
    "up",
]
