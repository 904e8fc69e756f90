"""The page's tables, as rows of text with what sorts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstow.model import (
    Layout,
    Prediction,
    Profile,
    Provenance,
    Reason,
    Relation,
    RelationId,
    Step,
    VolumeLoad,
)
from pgstow.model.statistics import PERFORMANCE_METRICS, Comparison
from pgstow.report import formatting as f
from pgstow.report.contents import volume_of
from pgstow.report.diagram import type_and_size
from pgstow.report.document import ReportDocument, StepOutcome, VolumePrice
from pgstow.report.experiments.view import provenances
from pgstow.report.heat import Scale, density
from pgstow.units import BLOCK_BYTES

MOST_RELATIONS = 2000  # rows; a page of more would take a browser minutes to lay out
_MISSED = 0.25  # of a step's estimate; an error beyond is marked
_NO_MISS_S = 1.0  # a difference that nobody waits for
_LIMITING = 0.8  # of a limit: what is used more is told


@dataclass(frozen=True, slots=True)
class RelationRow:
    """One relation, with what its columns are sorted by."""

    name: str
    kind: str
    size_bytes: int
    reads: float | None
    writes: float | None
    hits: float | None
    density: float
    heat: int | None
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One metric, predicted beside measured."""

    name: str
    predicted: str
    interval: str
    measured: str
    error: str
    is_missed: bool
    within: str


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One line of a volume's price; the volume is named on its first."""

    volume: str
    what: str
    line: str
    usd: str
    total: str
    provenance: Provenance | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step with its outcome."""

    number: int
    kind: str
    subject: str
    missed: str  # how far the estimate was off; empty: it held
    action: str
    undo: str
    lock: str
    size: str
    wal: str
    estimate: str
    took: str
    status: str
    note: str


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """One choice of a plan."""

    subject: str
    choice: str
    because: str
    next_best: str
    cost: str
    is_free: bool  # the next best costs no more


def relation_rows(
    profile: Profile, before: Layout | None, after: Layout | None, scale: Scale
) -> tuple[RelationRow, ...]:
    """Every relation, the busiest first; TOAST is with its table, partitions with their parent."""
    demands = {demand.relation: demand for demand in profile.demands}
    names = profile.server.shown_as()
    grouped: dict[tuple[RelationId, str], list[Relation]] = {}
    for relation in profile.server.relations:
        grouped.setdefault(names[relation.id], []).append(relation)
    rows = []
    for (name, kind), members in grouped.items():
        known = [demands[one.id] for one in members if one.id in demands]
        asked = sum(demand.blocks for demand in known)
        size = sum(one.size_bytes for one in members)
        dense = density(asked, size)
        parts = len({one.owner for one in members})
        row = RelationRow(
            name=str(name),
            kind=f"{kind}, {f.counted(parts, 'partition')}" if name != members[0].owner else kind,
            size_bytes=size,
            reads=sum(
                d.random_reads.mean + d.sequential_read_bytes.mean / BLOCK_BYTES for d in known
            ),
            writes=sum(d.block_writes.mean for d in known),
            hits=sum(d.buffer_hits.mean for d in known),
            density=dense,
            heat=scale.heat(dense),
            before=_volumes(before, members),
            after=_volumes(after, members),
        )
        rows.append((asked, row))
    ordered = sorted(rows, key=lambda pair: (-pair[0], -pair[1].size_bytes, pair[1].name))
    return tuple(row for _, row in ordered)


def _volumes(layout: Layout | None, members: Sequence[Relation]) -> str:
    if layout is None:
        return ""
    return ", ".join(dict.fromkeys(volume_of(layout, one) for one in members))


def comparison_rows(comparisons: Sequence[Comparison]) -> tuple[ComparisonRow, ...]:
    """Prediction against measurement."""
    return tuple(_comparison_row(one) for one in comparisons)


def _comparison_row(one: Comparison) -> ComparisonRow:
    unit = "" if one.unit == "per second" else one.unit
    interval = ""
    if one.interval is not None:
        interval = f"{f.number(one.interval[0])} to {f.number(one.interval[1])}"
    error = one.error_pct
    within = {True: "inside", False: "outside", None: ""}[one.within_interval]
    return ComparisonRow(
        name=PERFORMANCE_METRICS[one.metric].title,
        predicted=f.quantity(one.predicted, unit).strip(),
        interval=interval,
        measured=f.quantity(one.measured, unit).strip(),
        error=f.signed_percent(error),
        is_missed=one.is_missed,
        within=within,
    )


def price_rows(layout: Layout | None, prices: Sequence[VolumePrice]) -> tuple[PriceRow, ...]:
    """A layout's price, volume by volume and line by line."""
    rows = []
    for one in prices:
        volume = None
        if layout is not None:
            volume = next((v for v in layout.volumes if v.name == one.volume), None)
        what = type_and_size(volume) if volume else ""
        lines: tuple[tuple[str, float | None], ...] = one.price.lines
        for index, (line, usd) in enumerate(lines or (("price not known", None),)):
            first = index == 0
            rows.append(
                PriceRow(
                    volume=one.volume if first else "",
                    what=what if first else "",
                    line=line,
                    usd=f.usd(usd),
                    total=f.usd(one.price.usd_month) if first else "",
                    provenance=one.provenance if first else None,
                )
            )
    return tuple(rows)


def price_total(prices: Sequence[VolumePrice]) -> str:
    """The sum; unknown as soon as one is."""
    known = [one.price.usd_month for one in prices]
    return f.usd(None if None in known else sum(usd or 0.0 for usd in known))


def step_rows(steps: Sequence[StepOutcome]) -> tuple[StepRow, ...]:
    """Steps in the order they were planned."""
    return tuple(
        StepRow(
            number=index,
            kind=outcome.step.kind,
            subject=outcome.step.subject,
            missed=_missed_step(outcome),
            action=outcome.step.action,
            undo=outcome.step.undo,
            lock=outcome.step.lock,
            size=f.size(outcome.step.bytes if outcome.bytes is None else outcome.bytes),
            wal=f.size(outcome.step.wal_bytes),
            estimate=_estimate(outcome.step),
            took=f.duration(outcome.seconds),
            status=outcome.status,
            note=outcome.note or "",
        )
        for index, outcome in enumerate(steps, start=1)
    )


def _estimated_s(step: Step) -> tuple[float, float]:
    """How long a step was said to take: on idle volumes, and beside the load where one is known."""
    ends = (step.seconds, step.seconds if step.seconds_loaded is None else step.seconds_loaded)
    return min(ends), max(ends)


def _estimate(step: Step) -> str:
    low, high = map(f.duration, _estimated_s(step))
    return low if low == high else f"{low} to {high}"


def _missed_step(outcome: StepOutcome) -> str:
    """How a step's time compares with its estimate, where that missed."""
    took, (low, high) = outcome.seconds, _estimated_s(outcome.step)
    if took is None or outcome.status not in ("done", "undone"):
        return ""
    estimate = min(max(took, low), high)  # the nearest that was expected
    if abs(took - estimate) <= max(_NO_MISS_S, _MISSED * took):
        return ""
    return f"{f.times(took / estimate)} the estimate" if estimate > 0 else "not estimated"


def reason_rows(reasons: Sequence[Reason]) -> tuple[ReasonRow, ...]:
    """Why a plan is as it is."""
    return tuple(
        ReasonRow(
            subject=reason.subject,
            choice=reason.choice,
            because=reason.because,
            next_best=reason.next_best,
            cost=_more(reason.next_best_usd_month),
            is_free=_is_free(reason.next_best_usd_month),
        )
        for reason in reasons
    )


def _is_free(usd: float | None) -> bool:
    return usd is not None and abs(usd) < 0.005


def _more(usd: float | None) -> str:
    if usd is None:
        return f.UNKNOWN
    return "no more" if _is_free(usd) else f"+ {f.usd(usd)}"


def limits_text(prediction: Prediction) -> str:
    """What holds a layout back, and every other limit that is nearly reached."""
    used = [(v.utilisation, f"volume {v.volume}", _of_what(v.binding)) for v in prediction.volumes]
    used.append((prediction.cpu_utilisation or 0.0, "the CPU", ""))
    used.append((prediction.host_utilisation or 0.0, "the instance's storage cap", ""))
    near = sorted((one for one in used if one[0] >= _LIMITING), reverse=True)
    told = [f"{what} at {f.percent(share)}{of}" for share, what, of in near]
    names = {"cpu": "the CPU", "host cap": "the instance's storage cap", "clients": "the clients"}
    first = names.get(prediction.bottleneck, prediction.bottleneck)
    return f"{first} ({', '.join(told)})" if told else first


def _of_what(binding: str) -> str:
    return {"iops": " of its IOPS", "throughput": " of its throughput"}.get(binding, "")


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """One figure of a volume, predicted beside measured."""

    volume: str
    what: str
    predicted: str
    measured: str
    error: str
    is_missed: bool


def volume_rows(
    predicted: Sequence[VolumeLoad], measured: Sequence[VolumeLoad]
) -> tuple[VolumeRow, ...]:
    """The volumes' loads that were both predicted and measured."""
    seen = {load.volume: load for load in measured}
    rows = []
    for load in predicted:
        other = seen.get(load.volume)
        if other is None:
            continue
        for what, one, two, written in (
            ("IOPS", load.reads + load.writes, other.reads + other.writes, f.number),
            ("throughput", load.bytes_per_second, other.bytes_per_second, f.rate),
        ):
            error = (one - two) / two if two else None
            rows.append(
                VolumeRow(
                    volume=load.volume,
                    what=what,
                    predicted=written(one),
                    measured=written(two),
                    error=f.signed_percent(None if error is None else error * 100),
                    is_missed=error is not None and abs(error) > _MISSED,
                )
            )
    return tuple(rows)


def origins(document: ReportDocument) -> tuple[tuple[str, Provenance], ...]:
    """Where the page's figures are from: what they are, and their provenance."""
    found: list[tuple[str, Provenance]] = []
    if document.profile is not None:
        date = document.profile.started_at[:10]
        observed = Provenance("observed", "PostgreSQL's statistics and the host's counters", date)
        found.append(("Relations, sizes, demands and settings", observed))
    if document.before is not None:
        found.append(("Speed before", document.before.performance.provenance))
    elif document.plan is not None:
        found.append(("Speed of the present layout", document.plan.present.performance.provenance))
    if document.after is not None:
        found.append(("Speed after", document.after.performance.provenance))
    if document.expected is not None:
        found.append(("Predicted speed", document.expected.performance.provenance))
    layouts = {"before": document.prices_before, "after": document.prices_after}
    found += _price_origins(document, layouts)
    found += provenances(document.experiments)
    return tuple(dict.fromkeys(found))


def _price_origins(
    document: ReportDocument, prices: Mapping[str, Sequence[VolumePrice]]
) -> list[tuple[str, Provenance]]:
    layouts = {"before": document.layout_before, "after": document.layout_after}
    found = []
    for when, listed in prices.items():
        layout = layouts[when]
        types = {v.name: v.type for v in layout.volumes} if layout else {}
        for one in listed:
            if one.provenance is not None:
                found.append((f"Price of {types.get(one.volume, one.volume)}", one.provenance))
    return found
