"""How much WAL is kept: the max_wal_size with which checkpoints come by checkpoint_timeout."""

import math

from pgstow.units import GIB

CHECKPOINT_TARGET = 0.9  # checkpoint_completion_target's default since PostgreSQL 14
_SPARE = 1.1


def required_wal_bytes(wal_bytes_per_s: float, checkpoint_timeout_s: float) -> float:
    """max_wal_size so that checkpoints come by checkpoint_timeout; whole GiB.

    The server starts one when max_wal_size / (1 + checkpoint_completion_target) has been written
    since the last (CalculateCheckpointSegments, xlog.c): so much again is written while it runs.

    >>> required_wal_bytes(10 * 1024**2, 300) / GIB
    7.0
    """
    between = wal_bytes_per_s * checkpoint_timeout_s * (1 + CHECKPOINT_TARGET) * _SPARE
    return math.ceil(between / GIB) * GIB
