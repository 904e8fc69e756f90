"""The columns of a trial in exported tables: their names stay the same from version to version."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pgstow.model import DeviceUse, Experiment, Trial

Value = str | int | float | None
SqlType = Literal["text", "integer", "bigint", "double precision", "timestamp with time zone"]
_LONGEST_NAME = 40  # PostgreSQL cuts names at 63 bytes


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name with the unit last, its type in SQL, and how it is read."""

    name: str
    type: SqlType
    read: Callable[[Trial], Value]


def columns(experiment: Experiment, trials: Sequence[Trial]) -> tuple[Column, ...]:
    """A trial's columns: one a factor, and some a volume, beside those that all trials have."""
    return (*_PLACE, *_factors(experiment), *_FIGURES, *_volumes(trials), *_ORIGIN)


def volume_columns(trials: Iterable[Trial]) -> dict[str, str]:
    """The columns' prefix of each volume; a device that belongs to none is there by its own."""
    found = {
        name_of(device): None for trial in trials for device in trial.instruments.devices or ()
    }
    return identifiers("volume_", sorted(found))


def name_of(device: DeviceUse) -> str:
    """The volume that a device belongs to, else the device."""
    return device.volume or device.device


def identifiers(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """A plain name for each: small letters, digits and underscores, and no two alike.

    >>> identifiers("factor_", ["chunk", "mkfs options", "Chunk"])
    {'chunk': 'factor_chunk', 'mkfs options': 'factor_mkfs_options', 'Chunk': 'factor_chunk_2'}
    """
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:_LONGEST_NAME]
        made, number = f"{prefix}{plain}", 1
        while made in found.values() or made == prefix:
            number += 1
            made = f"{prefix}{plain}_{number}" if plain else f"{prefix}{number}"
        found[name] = made
    return found


def _factors(experiment: Experiment) -> tuple[Column, ...]:
    def level(factor: str) -> Callable[[Trial], Value]:
        return lambda trial: dict(trial.levels).get(factor)

    made = identifiers("factor_", experiment.factors)
    return tuple(Column(name, "text", level(factor)) for factor, name in made.items())


def _volumes(trials: Sequence[Trial]) -> tuple[Column, ...]:
    def read(
        volume: str, figure: Callable[[Sequence[DeviceUse]], Value]
    ) -> Callable[[Trial], Value]:
        def value(trial: Trial) -> Value:
            devices = [one for one in trial.instruments.devices or () if name_of(one) == volume]
            return figure(devices) if devices else None

        return value

    return tuple(
        Column(f"{prefix}_{figure}", "double precision", read(volume, of))
        for volume, prefix in volume_columns(trials).items()
        for figure, of in _DEVICE_FIGURES
    )


def _mean_await(
    awaited: Callable[[DeviceUse], float | None], rate: Callable[[DeviceUse], float]
) -> Callable[[Sequence[DeviceUse]], Value]:
    """The mean over requests, of whichever device."""

    def value(devices: Sequence[DeviceUse]) -> Value:
        known = [(found, rate(one)) for one in devices if (found := awaited(one)) is not None]
        requests = sum(weight for _, weight in known)
        return sum(ms * weight for ms, weight in known) / requests if requests > 0 else None

    return value


def _flushes(devices: Sequence[DeviceUse]) -> Value:
    known = [one.flushes_per_s for one in devices if one.flushes_per_s is not None]
    return sum(known) if len(known) == len(devices) else None


def _largest(values: Sequence[float | None]) -> Value:
    return max((value for value in values if value is not None), default=None)


_DEVICE_FIGURES: tuple[tuple[str, Callable[[Sequence[DeviceUse]], Value]], ...] = (
    ("reads_per_s", lambda some: sum(one.reads_per_s for one in some)),
    ("writes_per_s", lambda some: sum(one.writes_per_s for one in some)),
    ("read_bytes_per_s", lambda some: sum(one.read_bytes_per_s for one in some)),
    ("write_bytes_per_s", lambda some: sum(one.write_bytes_per_s for one in some)),
    ("read_await_ms", _mean_await(lambda one: one.read_await_ms, lambda one: one.reads_per_s)),
    ("write_await_ms", _mean_await(lambda one: one.write_await_ms, lambda one: one.writes_per_s)),
    ("flushes_per_s", _flushes),
    ("queue", lambda some: sum(one.queue for one in some)),
    ("await_ms_worst_second", lambda some: _largest([one.await_ms_worst_second for one in some])),
)


def _wal(name: str, type: SqlType) -> Column:
    return Column(f"wal_{name}", type, lambda trial: getattr(trial.instruments.wal, name, None))


def _commits(name: str) -> Column:
    return Column(
        f"commit_{name}",
        "double precision",
        lambda trial: getattr(trial.instruments.commits, name, None),
    )


def _checkpoints(name: str, type: SqlType) -> Column:
    return Column(
        f"checkpoint_{name}",
        type,
        lambda trial: getattr(trial.instruments.checkpoints, name, None),
    )


def _cpu(name: str, type: SqlType) -> Column:
    return Column(f"cpu_{name}", type, lambda trial: getattr(trial.instruments.cpu, name, None))


def _usd_per_1000_tps(trial: Trial) -> Value:
    if trial.usd_month is None or trial.outcome.tps <= 0:
        return None
    return trial.usd_month / trial.outcome.tps * 1000


_PLACE = (
    Column("block", "integer", lambda trial: trial.block),
    Column("position", "integer", lambda trial: trial.position),
    Column("began_at", "timestamp with time zone", lambda trial: trial.began_at),
    Column("host", "text", lambda trial: trial.host),
)
_FIGURES = (
    Column("seconds", "double precision", lambda trial: trial.outcome.seconds),
    Column("transactions", "bigint", lambda trial: trial.outcome.transactions),
    Column("failed", "bigint", lambda trial: trial.outcome.failed),
    Column("skipped", "bigint", lambda trial: trial.outcome.skipped),
    Column("tps", "double precision", lambda trial: trial.outcome.tps),
    Column("latency_mean_ms", "double precision", lambda trial: trial.outcome.mean_ms),
    Column("latency_p50_ms", "double precision", lambda trial: trial.outcome.p50_ms),
    Column("latency_p95_ms", "double precision", lambda trial: trial.outcome.p95_ms),
    Column("latency_p99_ms", "double precision", lambda trial: trial.outcome.p99_ms),
    Column("latency_max_ms", "double precision", lambda trial: trial.outcome.max_ms),
    _wal("bytes", "double precision"),
    _wal("records", "bigint"),
    _wal("full_page_images", "bigint"),
    _wal("writes", "bigint"),
    _wal("syncs", "bigint"),
    _wal("write_ms", "double precision"),
    _wal("sync_ms", "double precision"),
    _checkpoints("timed", "integer"),
    _checkpoints("requested", "integer"),
    _checkpoints("buffers_written", "bigint"),
    _checkpoints("write_ms", "double precision"),
    _checkpoints("sync_ms", "double precision"),
    _cpu("cores", "integer"),
    _cpu("busy_cores", "double precision"),
    _cpu("client_cores", "double precision"),
    Column("database_bytes", "bigint", lambda trial: trial.instruments.database_bytes),
    Column("usd_month", "double precision", lambda trial: trial.usd_month),
    Column("usd_per_1000_tps", "double precision", _usd_per_1000_tps),
    Column("latency_stddev_ms", "double precision", lambda trial: trial.outcome.stddev_ms),
    Column("connection_ms", "double precision", lambda trial: trial.outcome.connection_ms),
    _commits("mean_ms"),
    _commits("p99_ms"),
    _commits("max_ms"),
    _wal("write_ms_worst_second", "double precision"),
    _cpu("stolen_cores", "double precision"),
    Column("attempts", "integer", lambda trial: trial.attempts),
)
_ORIGIN = (
    Column("pgstow", "text", lambda trial: trial.build.pgstow),
    Column("postgres", "text", lambda trial: trial.build.postgres),
    Column("workload", "text", lambda trial: trial.build.workload),
    Column("kernel", "text", lambda trial: trial.build.kernel),
    Column("machine", "text", lambda trial: trial.build.machine),
    Column("warnings", "text", lambda trial: " ".join(one.code for one in trial.warnings)),
)
