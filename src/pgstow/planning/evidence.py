"""How much a profile supports: what was counted, and how far it can carry a plan."""

import math
from collections.abc import Iterator

from pgstow.model import Profile, Warning
from pgstow.units import format_duration

_FEW_EVENTS = 1000  # a count of so many is known to about 3 %
_SHORT_S = 300.0  # the default checkpoint_timeout: shorter, and no checkpoint's rhythm was seen
_FAR = 10.0  # times the observed throughput
_IDLE_IOPS, _IDLE_TPS = 10.0, 1.0
_OLD_S = 30 * 86400.0


def evidence(profile: Profile, *, target_tps: float | None = None) -> tuple[Warning, ...]:
    """Warnings about how little a profile supports."""
    return tuple(_warnings(profile, target_tps))


def age_evidence(age_s: float) -> tuple[Warning, ...]:
    """A warning where a profile was observed long ago."""
    if age_s <= _OLD_S:
        return ()
    days = f"{age_s / 86400:,.0f}"
    return (
        Warning(
            "old-profile", f"the profile is {days} days old", "observe again with pgstow observe"
        ),
    )


def _warnings(profile: Profile, target_tps: float | None) -> Iterator[Warning]:
    tps = profile.activity.transactions.mean
    span = format_duration(profile.seconds)
    transactions = tps * profile.seconds
    iops = sum(_iops(profile))
    if tps < _IDLE_TPS or iops < _IDLE_IOPS:
        asked = sum(1 for demand in profile.demands if demand.random_reads.mean > 0)
        yield Warning(
            "idle-profile",
            f"the server was nearly idle: {transactions:,.0f} transactions and {iops:,.1f} device "
            f"operations a second in {span}; {asked} of {len(profile.server.relations)} relations "
            "were read from disk, and of the others' load nothing is known",
            "observe during the busiest hour",
        )
    elif transactions < _FEW_EVENTS:
        error = 1.96 / math.sqrt(max(transactions, 1.0))
        yield Warning(
            "few-transactions",
            f"the profile counted {transactions:,.0f} transactions: what one of them asks is known "
            f"to about ±{error:.0%} at best",
            "observe for longer",
        )
    checkpoints = profile.background.checkpoints_timed + profile.background.checkpoints_requested
    if profile.seconds < _SHORT_S and checkpoints == 0 and profile.wal.bytes.mean > 0:
        yield Warning(
            "no-checkpoint",
            f"no checkpoint came within the {span} observed, so what it writes was not seen",
            "observe for longer than checkpoint_timeout",
        )
    if target_tps is not None and tps > 0 and target_tps > _FAR * tps:
        yield Warning(
            "far-from-observed",
            f"{target_tps:,.0f} TPS are {target_tps / tps:,.0f} times what was observed: caches "
            "and locks will not behave as they did",
            "observe nearer to the load you plan for",
        )


def _iops(profile: Profile) -> Iterator[float]:
    """Device operations a second where the host was seen, else what PostgreSQL asked for."""
    if profile.host is not None:
        for device in profile.host.devices:
            yield device.reads.mean + device.writes.mean
        return
    for demand in profile.demands:
        yield demand.random_reads.mean + demand.block_writes.mean
