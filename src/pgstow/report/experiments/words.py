"""An experiment in words: what it is, and what it showed."""

from collections.abc import Iterable, Sequence
from math import prod

from pgstow.model import Levels
from pgstow.model.statistics import Interval, LevelComparison
from pgstow.report import formatting as f
from pgstow.report.experiments.section import ExperimentSection

_TARGETS = {
    "emulated": "emulated volumes",
    "directories": "mounted directories",
    "server": "servers of their own",
}
_MOST_NAMED = 4


def design(section: ExperimentSection) -> str:
    """Treatments, blocks, seed and target in one line."""
    one = section.experiment
    factors = [(factor, len(one.levels_of(factor))) for factor in varied(section)]
    count = len(one.treatments)
    crossed = " × ".join(f"{levels} {factor}" for factor, levels in factors)
    made = f" ({crossed})" if len(factors) > 1 and prod(n for _, n in factors) == count else ""
    parts = [
        f"{f.counted(count, 'treatment')}{made} × {f.counted(one.blocks, 'block')} in random order",
        f"seed {one.seed}",
        _TARGETS[one.target],
    ]
    if one.side_by_side:
        parts.append("measured side by side")
    if one.profile:
        parts.append(f"profile {one.profile}")
    fixed = tuple((factor, one.levels_of(factor)[0]) for factor in one.factors)
    fixed = tuple(pair for pair in fixed if pair[0] not in varied(section))
    if fixed:
        parts.append(f"all with {named(fixed)}")
    return ", ".join(parts)


def progress(section: ExperimentSection) -> str:
    """How many of the trials there are, and of when."""
    done, planned = len(section.trials), section.planned
    count = f.counted(done, "trial") if done >= planned else f"{done} of {planned} trials"
    if section.began_at is None:
        return count
    last = max(trial.began_at for trial in section.trials)
    seconds = sum(trial.outcome.seconds for trial in section.trials)
    since = f"{count} since {f.moment(section.began_at)}"
    if f.moment(last) != f.moment(section.began_at):
        since += f", the last {f.moment(last)}"
    return f"{since}; {f.duration(seconds)} measured"


def builds(section: ExperimentSection) -> tuple[str, ...]:
    """What it was measured with, each once."""
    every = [trial.build for trial in section.trials]
    return tuple(
        dict.fromkeys(
            text
            for build in every
            for text in (
                f"PostgreSQL {build.postgres}",
                build.workload,
                f"pgstow {build.pgstow}",
                build.machine,
                build.kernel,
            )
            if text
        )
    )


def varied(section: ExperimentSection) -> tuple[str, ...]:
    """The factors that have several levels in this run, and the compared one."""
    one = section.experiment
    return tuple(
        factor for factor in one.factors if factor == one.compare or len(one.levels_of(factor)) > 1
    )


def stratum_name(section: ExperimentSection, stratum: Levels) -> str:
    """A stratum by the factors that tell it from others; empty where there is only one."""
    return named(tuple(pair for pair in stratum if pair[0] in varied(section)))


def named(levels: Levels) -> str:
    """Levels as people say them."""
    return ", ".join(f"{factor} {level}" for factor, level in levels)


def ratio(value: float | None) -> str:
    """A ratio, finer where it is nearly 1.

    >>> ratio(1.3649), ratio(0.9812), ratio(38.21), ratio(0.0213), ratio(None)
    ('1.36 ×', '0.981 ×', '38.2 ×', '0.021 ×', '–')
    """
    return f.UNKNOWN if value is None else f"{_plain(value)} ×"


def _plain(value: float) -> str:
    if value >= 1e6:
        return "> 1,000,000"
    if value >= 10:
        return f.number(value)
    if abs(value - 1) < 0.0995:
        return f"{value:.3f}"
    return f"{value:.2f}" if value >= 0.0995 else f"{value:.2g}"


def span(interval: Interval | None) -> str:
    """The ends of a ratio's interval; nothing where there is none."""
    return "" if interval is None else f"{_plain(interval.low)} to {_plain(interval.high)}"


def verdict(section: ExperimentSection) -> str:
    """What the experiment shows of throughput, in a sentence or three."""
    found = [one for one in section.comparisons if one.metric == "tps" and one.ratio is not None]
    if not section.trials:
        return "No trial has ended yet."
    if not found:
        return "Nothing can be compared yet: no block has a level and its baseline."
    if len(found) == 1:
        return _one(section, found[0])
    decided = [one for one in found if one.verdict in ("higher", "lower")]
    few = [one for one in found if one.verdict == "too few blocks"]
    if len(few) == len(found):
        best = max(found, key=lambda one: one.ratio or 0.0)
        return f"Too few blocks for a verdict; the largest ratio is {_with_place(section, best)}."
    baseline = f"{section.experiment.compare} {section.experiment.baseline}"
    if not decided:
        return (
            f"No difference in throughput from {baseline} is demonstrated in any of "
            f"{len(found)} comparisons."
        )
    best = max(decided, key=lambda one: one.ratio or 0.0)
    worst = min(decided, key=lambda one: one.ratio or 0.0)
    show = "shows" if len(decided) == 1 else "show"
    text = (
        f"{len(decided)} of {len(found)} comparisons {show} a difference in throughput from "
        f"{baseline}: "
    )
    if worst is best:
        text += _with_place(section, best)
    else:
        text += f"highest {_with_place(section, best)}; lowest {_with_place(section, worst)}"
    return f"{text}.{_undecided(section, found)}"


def _one(section: ExperimentSection, found: LevelComparison) -> str:
    compare, baseline = section.experiment.compare, section.experiment.baseline
    pair = f"{compare} {found.level}", f"{compare} {baseline}"
    within = _interval(found)
    if found.verdict == "too few blocks":
        return (
            f"Too few blocks for a verdict: {pair[0]} had {ratio(found.ratio)} the throughput "
            f"of {pair[1]} in {f.counted(len(found.blocks), 'block')}."
        )
    if found.verdict == "no difference demonstrated":
        return (
            f"No difference in throughput is demonstrated between {pair[0]} and {pair[1]}: "
            f"{ratio(found.ratio)}{within}."
        )
    return f"With {pair[0]}, throughput is {ratio(found.ratio)} that with {pair[1]}{within}."


def _with_place(section: ExperimentSection, found: LevelComparison) -> str:
    name = stratum_name(section, found.stratum)
    where = f" ({name})" if name else ""
    level = f"{section.experiment.compare} {found.level}"
    return f"with {level}{where} {ratio(found.ratio)}{_interval(found)}"


def _interval(found: LevelComparison) -> str:
    if found.ratio_interval is None:
        return ""
    percent = f"{found.ratio_interval.confidence * 100:.0f} %"
    return f" ({percent} interval {span(found.ratio_interval)})"


def _undecided(section: ExperimentSection, found: Sequence[LevelComparison]) -> str:
    open_ones = [one for one in found if one.verdict == "no difference demonstrated"]
    if not open_ones:
        return ""
    return f" No difference is demonstrated with {_listed(section, open_ones)}."


def _listed(section: ExperimentSection, some: Iterable[LevelComparison]) -> str:
    compare = section.experiment.compare
    strata = [(one.level, stratum_name(section, one.stratum)) for one in some]
    names = [f"{compare} {level}" + (f" ({where})" if where else "") for level, where in strata]
    if len(names) > _MOST_NAMED:
        return ", ".join(names[: _MOST_NAMED - 1]) + f" and {len(names) - _MOST_NAMED + 1} more"
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
