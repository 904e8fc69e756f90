"""Make a layout's volumes out of memory, as mounted filesystems that behave like the cloud's."""

from typing import TYPE_CHECKING

from pgstow.lazy_import import reader

if TYPE_CHECKING:
    from pgstow.emulate.backing import Backing, Choice, default_directory
    from pgstow.emulate.bring_up import plan_up, up
    from pgstow.emulate.control import Lost, ServerFault
    from pgstow.emulate.injection import (
        Planned,
        clear_faults,
        describe_fault,
        fault_types,
        inject,
        parse_fault,
        read_schedule,
        set_volatile,
    )
    from pgstow.emulate.modify import modify_volume, running_layout
    from pgstow.emulate.reconcile import Action, describe_cap, describe_limits
    from pgstow.emulate.requirements import check_requirements
    from pgstow.emulate.state import DEFAULT_STATE_DIRECTORY
    from pgstow.emulate.status import (
        EmulatedVolume,
        EmulatorStatus,
        VolumeStatus,
        check_credits,
        emulated_volumes,
        read_status,
        reset_credits,
        set_credits,
        set_limits,
    )
    from pgstow.emulate.take_down import Cleanup, down, plan_down

__all__ = [
    "DEFAULT_STATE_DIRECTORY",
    "Action",
    "Backing",
    "Choice",
    "Cleanup",
    "EmulatedVolume",
    "EmulatorStatus",
    "Lost",
    "Planned",
    "ServerFault",
    "VolumeStatus",
    "check_credits",
    "check_requirements",
    "clear_faults",
    "default_directory",
    "describe_cap",
    "describe_fault",
    "describe_limits",
    "down",
    "emulated_volumes",
    "fault_types",
    "inject",
    "modify_volume",
    "parse_fault",
    "plan_down",
    "plan_up",
    "read_schedule",
    "read_status",
    "reset_credits",
    "running_layout",
    "set_credits",
    "set_limits",
    "set_volatile",
    "up",
]

if not TYPE_CHECKING:
    _PARTS = {
        "backing": (
            "Backing",
            "Choice",
            "default_directory",
        ),
        "bring_up": (
            "plan_up",
            "up",
        ),
        "control": (
            "Lost",
            "ServerFault",
        ),
        "injection": (
            "Planned",
            "clear_faults",
            "describe_fault",
            "fault_types",
            "inject",
            "parse_fault",
            "read_schedule",
            "set_volatile",
        ),
        "modify": (
            "modify_volume",
            "running_layout",
        ),
        "reconcile": (
            "Action",
            "describe_cap",
            "describe_limits",
        ),
        "requirements": ("check_requirements",),
        "state": ("DEFAULT_STATE_DIRECTORY",),
        "status": (
            "EmulatedVolume",
            "EmulatorStatus",
            "VolumeStatus",
            "check_credits",
            "emulated_volumes",
            "read_status",
            "reset_credits",
            "set_credits",
            "set_limits",
        ),
        "take_down": (
            "Cleanup",
            "down",
            "plan_down",
        ),
    }
    __getattr__ = reader(__name__, _PARTS)
