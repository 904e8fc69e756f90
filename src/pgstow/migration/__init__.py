"""Steps from the actual to the target layout; every state between is legal. Pure."""

from pgstow.migration.ordering import drop_is_safe, inverse, remarks, steps
from pgstow.migration.pressure import Pressure, VolumeLimits
from pgstow.migration.settings import RESTART_SETTINGS, SETTINGS, check_setting, same_value
from pgstow.migration.simulation import after

__all__ = [
    "RESTART_SETTINGS",
    "SETTINGS",
    "Pressure",
    "VolumeLimits",
    "after",
    "check_setting",
    "drop_is_safe",
    "inverse",
    "remarks",
    "same_value",
    "steps",
]
