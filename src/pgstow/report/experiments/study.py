"""A published study's own table with what was measured beside it, and what became of its claims."""

from collections import Counter
from dataclasses import dataclass

from pgstow.model.statistics import ClaimOutcome, Spread, StudyOutcome
from pgstow.report import formatting as f
from pgstow.report.experiments import words

_NOT_MEASURED = "not measured"
_VERDICTS = ("holds", "does not hold", "not demonstrated", _NOT_MEASURED)
_METRICS = {
    "tps": "TPS",
    "mean_ms": "mean latency",
    "p50_ms": "median latency",
    "p95_ms": "p95 latency",
    "p99_ms": "p99 latency",
    "max_ms": "largest latency",
    "wal_sync_ms": "time of a WAL flush",
    "wal_write_ms": "time of a WAL write",
    "wal_bytes": "WAL of a transaction",
    "wal_sync_us": "time of WAL flushes per transaction",
    "wal_write_us": "time of WAL writes per transaction",
    "wal_write_max_ms": "time of a WAL write in the worst second",
    "wal_writes": "WAL writes per transaction",
    "wal_write_kib": "size of a WAL write",
    "await_max_ms": "device wait in the worst second",
    "device_writes": "device writes per transaction",
    "device_write_kib": "size of a device write",
    "commit_mean_ms": "mean commit",
    "commit_p99_ms": "p99 commit",
    "commit_max_ms": "longest commit",
    "connection_ms": "initial connection time",
    "stddev_ms": "standard deviation of latency",
    "seconds": "run time",
    "usd_month": "price",
    "usd_per_1000_tps": "price per 1,000 TPS",
}


@dataclass(frozen=True, slots=True)
class StudyColumn:
    """A column of the published table; ``is_measured``: a measured one stands beside it."""

    title: str
    is_measured: bool


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A row of the published table: for each column what was published, and what was measured."""

    label: str
    levels: str
    cells: tuple[tuple[str, str | None], ...]  # None: the column has no measured one


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim: its ratio as published and as measured."""

    text: str
    metric: str
    note: str
    published: str
    measured: str
    interval: str
    thirds: str
    blocks: int
    verdict: str
    strict: str  # whether the interval holds the published ratio
    is_met: bool | None


def study_columns(outcome: StudyOutcome) -> tuple[StudyColumn, ...]:
    """The table's columns, as the study has them."""
    return tuple(
        StudyColumn(
            f"{column.title}, {column.unit}" if column.unit else column.title,
            any(row[index] is not None for row in outcome.measured),
        )
        for index, column in enumerate(outcome.study.columns)
    )


def study_rows(outcome: StudyOutcome) -> tuple[StudyRow, ...]:
    """The table's rows, as the study has them."""
    shown = study_columns(outcome)
    return tuple(
        StudyRow(
            label=row.label,
            levels=words.named(row.levels),
            cells=tuple(
                (
                    f.number(row.value(column.name)),
                    _mean(found) if shown[index].is_measured else None,
                )
                for index, (column, found) in enumerate(
                    zip(outcome.study.columns, measured, strict=True)
                )
            ),
        )
        for row, measured in zip(outcome.study.rows, outcome.measured, strict=True)
    )


def claim_rows(outcome: StudyOutcome) -> tuple[ClaimRow, ...]:
    """The study's claims, in its order."""
    return tuple(
        ClaimRow(
            text=one.claim.text,
            metric=metric_name(one.claim.metric),
            note=one.claim.note,
            published=published(one),
            measured=words.ratio(one.ratio),
            interval=words.span(one.ratio_interval),
            thirds=thirds(one.thirds),
            blocks=one.blocks,
            verdict=_verdict(one) + (" (limited by the emulator)" if one.is_limited else ""),
            strict={True: "yes", False: "no", None: f.UNKNOWN}[one.is_published_inside],
            is_met={"holds": True, "does not hold": False}.get(one.verdict),
        )
        for one in outcome.claims
    )


def published(one: ClaimOutcome) -> str:
    """The published ratio, or which side is said to be higher."""
    return words.ratio(one.claim.ratio) if one.claim.ratio is not None else one.claim.direction


def thirds(found: tuple[float, float, float] | None) -> str:
    """A figure in the first, second and last third of the trials.

    >>> thirds((11.04, 18.13, 18.09)), thirds(None)
    ('11.0, 18.1, 18.1', '')
    """
    return "" if found is None else ", ".join(f"{value:#.3g}" for value in found)


def sentence(outcome: StudyOutcome) -> str:
    """How many of the claims hold."""
    counts = Counter(_verdict(one) for one in outcome.claims)
    found = [(verdict, counts[verdict]) for verdict in _VERDICTS if counts[verdict]]
    parts = [f"{count} {_verdict_text(verdict, count)}" for verdict, count in found]
    total = sum(counts.values())
    inside = sum(one.is_published_inside is True for one in outcome.claims)
    strict = f" The published ratio is inside the interval of {inside}." if total else ""
    return f"Of {f.counted(total, 'claim')}: {', '.join(parts)}.{strict}"


def metric_name(metric: str) -> str:
    """A metric as people say it.

    >>> metric_name("p99_ms"), metric_name("waits.IO:WalSync"), metric_name("scripts.read.mean_ms")
    ('p99 latency', 'sessions in IO:WalSync', 'mean latency of read')
    """
    kind, _, rest = metric.partition(".")
    if kind == "waits":
        return f"sessions in {rest}"
    if kind == "scripts":
        script, _, figure = rest.rpartition(".")
        return f"{_METRICS.get(figure, figure)} of {script}"
    return _METRICS.get(metric, metric)


def _verdict(one: ClaimOutcome) -> str:
    return _NOT_MEASURED if one.ratio is None else one.verdict


def _verdict_text(verdict: str, count: int) -> str:
    many = {"holds": "hold", "does not hold": "do not hold"}.get(verdict, verdict)
    return verdict if count == 1 else many


def _mean(found: Spread | None) -> str:
    return f.number(found.mean if found else None)
