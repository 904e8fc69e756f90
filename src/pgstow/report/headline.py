"""The page's first words: what changed, by how much, and what it costs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgstow.model import Goal, Performance, Provenance
from pgstow.model.statistics import PERFORMANCE_METRICS
from pgstow.report import formatting as f
from pgstow.report.document import ReportDocument
from pgstow.report.experiments import view as experiments


@dataclass(frozen=True, slots=True)
class Card:
    """One figure before and after, with the change in words and where both are from.

    ``predicted`` is what was expected of a measured figure, ``goal`` what the goal asks of it.
    """

    label: str
    before: str
    after: str | None
    change: str
    is_better: bool | None  # None: there is nothing to judge
    provenance: tuple[Provenance, ...]
    predicted: str = ""
    is_missed: bool = False
    goal: str = ""
    is_met: bool | None = None  # None: there is no goal, or it is not known


@dataclass(frozen=True, slots=True)
class _Metric:
    key: str  # as comparisons call it
    written: Callable[[float | None], str]
    more_is_better: bool = False
    goal: Callable[[Goal], float | None] = lambda _: None
    title: str = ""  # where it is not the usual one
    is_price: bool = False
    is_shown: bool = True  # where there is no goal

    @property
    def label(self) -> str:
        return self.title or PERFORMANCE_METRICS[self.key].title

    def value(self, performance: Performance) -> float | None:
        return PERFORMANCE_METRICS[self.key].read(performance)


_METRICS = (
    _Metric("tps", f.number, True, lambda g: g.tps),
    _Metric("latency_ms.mean", f.milliseconds),
    _Metric("commit_ms.p99", f.milliseconds, goal=lambda g: g.commit_p99_ms),
    _Metric("read_ms.p99", f.milliseconds, goal=lambda g: g.read_p99_ms, is_shown=False),
    _Metric(
        "dollars_month",
        f.usd,
        goal=lambda g: g.budget_usd_month,
        title="Storage price per month",
        is_price=True,
    ),
    _Metric("dollars_per_1000_tps", f.usd, is_price=True),
)
_WORSE = 1.05  # a latency that rose by more is said with a "but"


def before(document: ReportDocument) -> Performance | None:
    """Speed and price of the present layout: as measured, else as the plan has it."""
    if document.before is not None:
        return document.before.performance
    return document.plan.present.performance if document.plan else None


def after(document: ReportDocument) -> Performance | None:
    """Speed and price of the other layout: as measured, else as predicted for what is planned."""
    if document.after is not None:
        return document.after.performance
    return document.promised.performance if document.promised else None


def cards(document: ReportDocument) -> tuple[Card, ...]:
    """One card a figure that is known of either layout, or that has a goal."""
    one, other = before(document), after(document)
    found = (_card(metric, one, other, document) for metric in _METRICS)
    return tuple(card for card in found if card is not None)


def _card(
    metric: _Metric, one: Performance | None, other: Performance | None, document: ReportDocument
) -> Card | None:
    value = metric.value(one) if one else None
    changed = metric.value(other) if other else None
    goal_value = _goal_value(metric, document)
    if goal_value is None and ((value is None and changed is None) or not metric.is_shown):
        return None
    change, better = "", None
    if value and changed:
        change, better = _change(changed / value, metric)
        if metric.key == "tps" and _is_undecided(document):
            change, better = "no difference demonstrated", None
        elif metric.key == "tps":
            change += _interval(document)
    predicted, is_missed = _predicted(metric, document)
    goal, is_met = _goal(metric, goal_value, changed, document)
    return Card(
        label=metric.label,
        before=metric.written(value),
        after=None if other is None else metric.written(changed),
        change=change,
        is_better=better,
        provenance=_origins(metric, (one, value), (other, changed), document),
        predicted=predicted,
        is_missed=is_missed,
        goal=goal,
        is_met=is_met,
    )


def _goal_value(metric: _Metric, document: ReportDocument) -> float | None:
    """What the plan was asked for; of throughput, where it says nothing, what it is for."""
    if document.plan is None:
        return None
    goal = document.plan.goal
    if metric.key == "tps" and goal.tps is None and goal.budget_usd_month is None:
        bound, profile = document.plan.bound, document.profile
        if bound is not None and bound.acceptance is not None:
            return bound.acceptance.tps
        return profile.activity.transactions.mean if profile is not None else None
    return metric.goal(goal)


def _predicted(metric: _Metric, document: ReportDocument) -> tuple[str, bool]:
    """What was predicted of a figure that was measured, with its error; whether it missed."""
    expected = document.expected
    if expected is None:
        return "", False
    found = next((c for c in document.comparisons if c.metric == metric.key), None)
    if found is None or found.predicted is None or found.measured is None:
        if metric.key == "tps" and document.after is None and document.promised is not None:
            low, high = (f.number(end) for end in expected.tps_interval)
            return f"predicted {low} to {high}", False
        return "", False
    error = f.signed_percent(found.error_pct)
    missed = "missed: " if found.is_missed else ""
    return f"{missed}predicted {metric.written(found.predicted)} ({error})", found.is_missed


def _goal(
    metric: _Metric, goal_value: float | None, value: float | None, document: ReportDocument
) -> tuple[str, bool | None]:
    """What the goal asks of a figure, and whether it is met.

    A predicted throughput meets its goal where the plan that has it does: within its tolerance.
    """
    if goal_value is None:
        return "", None
    least = "at least" if metric.more_is_better else "at most"
    text = f"goal {least} {metric.written(goal_value)}"
    if value is None:
        return f"{text}: not measured", None
    is_measured = document.after is not None
    accepted = document.plan.bound.acceptance if document.plan and document.plan.bound else None
    slack = accepted.tolerance if accepted is not None and not is_measured else 0.0
    is_met = value >= goal_value * (1 - slack) if metric.more_is_better else value <= goal_value
    word = ("met" if is_met else "not met") if is_measured else "expected" if is_met else "missed"
    return f"{text}: {word}", is_met


def _origins(
    metric: _Metric,
    one: tuple[Performance | None, float | None],
    other: tuple[Performance | None, float | None],
    document: ReportDocument,
) -> tuple[Provenance, ...]:
    known = [p for p, v in (one, other) if p is not None and v is not None]
    origins = [p.provenance for p in known]
    if metric.is_price:
        prices = (*document.prices_before, *document.prices_after)
        documented = [price.provenance for price in prices if price.provenance is not None]
        per_tps = metric.key == "dollars_per_1000_tps"
        origins = [*documented, *origins] if per_tps or not documented else documented
    return _by_origin(origins)


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
    """The result in one sentence: throughput and latency, whichever way they went, and price."""
    one, other = before(document), after(document)
    if one is None and other is None:
        return _observed(document)
    if one is None or other is None:
        known = one or other
        assert known is not None
        return f"{f.number(known.tps)} transactions per second{_slow(known)}{_at_price(known)}."
    would = "" if document.after is not None else "predicted: "
    if _is_undecided(document):
        text = f"no difference in throughput is demonstrated ({f.times(other.tps / one.tps)})"
    elif one.tps > 0 and other.tps > 0:
        text = f"{f.times(other.tps / one.tps)} the transactions per second"
    else:
        text = f"{f.number(one.tps)} → {f.number(other.tps)} transactions per second"
    text = would + text + _latencies(one, other)
    if one.usd_month is not None and other.usd_month is not None:
        text += f", {f.usd(one.usd_month)} → {f.usd(other.usd_month)} per month"
    return text[:1].upper() + text[1:] + "."


def _latencies(one: Performance, other: Performance) -> str:
    """What became of the latencies that are known; a "but" where one rose while TPS did."""
    parts, is_worse = [], False
    for name, was, now in (
        ("mean latency", one.latency_ms.mean, other.latency_ms.mean),
        ("p99 commit", one.commit_ms.p99, other.commit_ms.p99),
    ):
        if not was or not now:
            continue
        is_worse |= now > was * _WORSE
        change = f.signed_percent((now / was - 1) * 100)
        parts.append(f"{name} {f.milliseconds(was)} → {f.milliseconds(now)} ({change})")
    if not parts:
        return ", latency not known"
    return (", but " if is_worse and other.tps > one.tps else ", ") + ", ".join(parts)


def _slow(known: Performance) -> str:
    mean = known.latency_ms.mean
    return "" if mean is None else f", mean latency {f.milliseconds(mean)}"


def _at_price(known: Performance) -> str:
    return "" if known.usd_month is None else f", {f.usd(known.usd_month)} per month"


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
