"""The page's first words: what changed, by how much, and what it costs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgstow.model import Performance, Provenance
from pgstow.report import formatting as f
from pgstow.report.document import ReportDocument
from pgstow.report.experiments import view as experiments


@dataclass(frozen=True, slots=True)
class Card:
    """One figure before and after, with the change in words and where both are from."""

    label: str
    before: str
    after: str | None
    change: str
    is_better: bool | None  # None: there is nothing to judge
    provenance: tuple[Provenance, ...]


@dataclass(frozen=True, slots=True)
class _Metric:
    label: str
    value: Callable[[Performance], float | None]
    written: Callable[[float | None], str]
    more_is_better: bool
    is_price: bool = False


_METRICS = (
    _Metric("Transactions per second", lambda p: p.tps, f.number, True),
    _Metric("Commit latency, p99", lambda p: p.commit_ms.p99, f.milliseconds, False),
    _Metric("Transaction latency, mean", lambda p: p.latency_ms.mean, f.milliseconds, False),
    _Metric("Storage price per month", lambda p: p.usd_month, f.usd, False, True),
    _Metric("Price per 1,000 TPS", lambda p: p.usd_per_1000_tps, f.usd, False, True),
)


def before(document: ReportDocument) -> Performance | None:
    """Speed and price of the present layout: as measured, else as the plan has it."""
    if document.before is not None:
        return document.before.performance
    return document.plan.present.performance if document.plan else None


def after(document: ReportDocument) -> Performance | None:
    """Speed and price of the other layout: as measured, else as predicted."""
    if document.after is not None:
        return document.after.performance
    return document.expected.performance if document.expected else None


def cards(document: ReportDocument) -> tuple[Card, ...]:
    """One card a figure that is known of either layout."""
    one, other = before(document), after(document)
    found = (_card(metric, one, other, document) for metric in _METRICS)
    return tuple(card for card in found if card is not None)


def _card(
    metric: _Metric, one: Performance | None, other: Performance | None, document: ReportDocument
) -> Card | None:
    value = metric.value(one) if one else None
    changed = metric.value(other) if other else None
    if value is None and changed is None:
        return None
    known = [p for p, v in ((one, value), (other, changed)) if p is not None and v is not None]
    origins = [p.provenance for p in known]
    if metric.is_price:
        prices = (*document.prices_before, *document.prices_after)
        documented = [price.provenance for price in prices if price.provenance is not None]
        per_tps = metric is _METRICS[-1]
        origins = [*documented, *origins] if per_tps or not documented else documented
    written = None if other is None else metric.written(changed)
    change, better = "", None
    if value and changed:
        change, better = _change(changed / value, metric)
        if metric.label == _METRICS[0].label and _is_undecided(document):
            change, better = "no difference shown", None
        elif metric.label == _METRICS[0].label:
            change += _interval(document)
    return Card(metric.label, metric.written(value), written, change, better, _by_origin(origins))


def _by_origin(every: Iterable[Provenance]) -> tuple[Provenance, ...]:
    """One of each origin: the tag says no more than that."""
    return tuple({one.origin: one for one in every}.values())


def _is_undecided(document: ReportDocument) -> bool:
    shown = document.effect
    return document.after is not None and shown is not None and "no diff" in shown.verdict


def _interval(document: ReportDocument) -> str:
    shown = document.effect
    if document.after is None or shown is None or shown.low is None or shown.high is None:
        return ""
    low, high = f.number(shown.low), f.number(shown.high)
    return f" ({f.percent(shown.confidence)} interval {low} to {high})"


def _change(ratio: float, metric: _Metric) -> tuple[str, bool | None]:
    if abs(ratio - 1) < 0.005:
        return "as before", None
    is_multiple = metric.more_is_better and ratio > 1.2
    text = f.times(ratio) if is_multiple else f.signed_percent((ratio - 1) * 100)
    return text, (ratio > 1) == metric.more_is_better


def sentence(document: ReportDocument) -> str:
    """The result in one sentence."""
    one, other = before(document), after(document)
    if one is None and other is None:
        return _observed(document)
    if one is None or other is None:
        known = one or other
        assert known is not None
        return f"{f.number(known.tps)} transactions per second{_at_price(known)}."
    would = "" if document.after is not None else "predicted: "
    if _is_undecided(document):
        text = f"no difference in throughput is shown ({f.times(other.tps / one.tps)})"
    elif one.tps > 0 and other.tps > 0:
        text = f"{f.times(other.tps / one.tps)} the transactions per second"
    else:
        text = f"{f.number(one.tps)} → {f.number(other.tps)} transactions per second"
    parts = [would + text]
    if one.commit_ms.p99 is not None and other.commit_ms.p99 is not None:
        pair = (f.milliseconds(one.commit_ms.p99), f.milliseconds(other.commit_ms.p99))
        parts.append(f"p99 commit {pair[0]} → {pair[1]}")
    if one.usd_month is not None and other.usd_month is not None:
        parts.append(f"{f.usd(one.usd_month)} → {f.usd(other.usd_month)} per month")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:] + "."


def _at_price(known: Performance) -> str:
    return "" if known.usd_month is None else f" at {f.usd(known.usd_month)} per month"


def _observed(document: ReportDocument) -> str:
    profile = document.profile
    if profile is None and document.experiments:
        return experiments.sentence(document.experiments)
    if profile is None:
        return "Nothing has been observed yet."
    return (
        f"{f.number(profile.activity.transactions.mean)} transactions per second, observed over "
        f"{f.duration(profile.seconds)}."
    )
