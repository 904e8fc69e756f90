"""The content platform of "Storage Selection for Database Workloads", scaled down, with its load.

Articles and their indexes are read-hot, analytics_events write-hot, analytics_daily warm,
subscriptions and old_articles cold.
"""

from pgstow.experiment.workloads.content_platform.load import (
    DATABASE,
    LOAD_SETTINGS,
    Loaded,
    create_database,
    load,
)
from pgstow.experiment.workloads.content_platform.mix import PARTS, workload
from pgstow.experiment.workloads.content_platform.tables import (
    DEFAULT_SCALE,
    DOCUMENTED,
    DocumentedRelation,
    Extent,
    extent,
    total_bytes,
)

__all__ = [
    "DATABASE",
    "DEFAULT_SCALE",
    "DOCUMENTED",
    "LOAD_SETTINGS",
    "PARTS",
    "DocumentedRelation",
    "Extent",
    "Loaded",
    "create_database",
    "extent",
    "load",
    "total_bytes",
    "workload",
]
