"""Validity checks: known pitfalls of storage experiments, each with a warning."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from pgstow.model import Device, Experiment, HostCap, HostSpec, Levels, Trial, Volume, Warning
from pgstow.verification.experiments import drift, load_validity, storage_validity
from pgstow.verification.experiments.case import Case, Finding

_FEW_BLOCKS = 6  # below, Student's quantile for 99 % is over 4.5 standard errors
_DRIFT = 0.03  # over a run; what is less is of no account

_Rule = tuple[str, str, Callable[[Case], Finding | None]]  # code, remedy, what finds it


def validity_checks(
    experiment: Experiment,
    trials: Iterable[Trial],
    *,
    burst_s: Mapping[Volume, float | None] | None = None,
    instance_burst_s: Mapping[HostSpec, float | None] | None = None,
    devices: Mapping[Volume, Device] | None = None,
    caps: Mapping[HostSpec, HostCap] | None = None,
    memory_bytes: int | None = None,
) -> tuple[Warning, ...]:
    """Warnings of the checks that an experiment fails: one a check, with the worst treatment.

    What trials do not carry is handed in: ``burst_s``, how long full credits of a volume last at
    the burst rate (the catalog's ``burst_seconds``); ``instance_burst_s``, how long a machine may
    exceed its baseline; ``devices`` and ``caps``, what volumes and machines sustain;
    ``memory_bytes``, the machine's memory, for servers with no limit of their own.
    """
    by_treatment: dict[Levels, list[Trial]] = {one.levels: [] for one in experiment.treatments}
    for trial in trials:
        if trial.levels in by_treatment:
            by_treatment[trial.levels].append(trial)
    cases = [
        Case(experiment, one, tuple(by_treatment[one.levels]))
        for one in experiment.treatments
        if by_treatment[one.levels]
    ]
    known = devices or {}
    credits = partial(_credits, burst_s=burst_s or {}, instance_burst_s=instance_burst_s or {})
    rules = (
        *_burst_rules(burst_s or {}, instance_burst_s or {}, known, caps or {}),
        *_rules(memory_bytes, credits),
    )
    found = [trial for case in cases for trial in case.trials]
    return tuple(
        warning
        for warning in (
            *(_worst(rule, cases) for rule in rules),
            _run_drift(found, any(credits(case) for case in cases)),
            _few_blocks(cases),
            _scattered_blocks(experiment, found),
        )
        if warning is not None
    )


def _burst_rules(
    burst_s: Mapping[Volume, float | None],
    instance_burst_s: Mapping[HostSpec, float | None],
    devices: Mapping[Volume, Device],
    caps: Mapping[HostSpec, HostCap],
) -> tuple[_Rule, ...]:
    return (
        (
            "burst-credits",
            "give the volume burst_credits = 0 to see what it sustains, or measure for longer",
            partial(storage_validity.volume_burst, burst_s=burst_s, devices=devices),
        ),
        (
            "instance-burst",
            "give the host burst_credits = 0 to see what it sustains, or measure for longer",
            partial(
                storage_validity.instance_burst,
                burst_s=instance_burst_s,
                devices=devices,
                caps=caps,
            ),
        ),
    )


def _credits(
    case: Case,
    *,
    burst_s: Mapping[Volume, float | None],
    instance_burst_s: Mapping[HostSpec, float | None],
) -> str | None:
    """What in a treatment has burst credits, as text; None: nothing is known to have any."""
    layout = case.treatment.layout
    if layout is None:
        return None
    for volume in layout.volumes:
        if burst_s.get(volume) is not None:
            return f"volume {volume.name} ({volume.type})"
    return "the instance" if instance_burst_s.get(layout.host) is not None else None


def _rules(memory_bytes: int | None, credits: Callable[[Case], str | None]) -> tuple[_Rule, ...]:
    return (
        (
            "lazy-loading",
            "read the volume once before measuring, or give it fast_snapshot_restore = true",
            storage_validity.lazy_loading,
        ),
        (
            "no-checkpoint",
            "measure for longer than checkpoint_timeout, or lower it or max_wal_size",
            storage_validity.no_checkpoint,
        ),
        (
            "dataset-in-memory",
            "raise the scale, or limit the server's memory",
            partial(storage_validity.in_memory, memory_bytes=memory_bytes),
        ),
        (
            "client-bound",
            "give the workload more threads, or run the client on a machine of its own",
            load_validity.client_bound,
        ),
        (
            "processors-full",
            "give the machine more processors, or take a workload that asks more of the storage",
            load_validity.processors_full,
        ),
        (
            "few-transactions",
            "measure for longer, or look at p95 or the mean",
            load_validity.few_transactions,
        ),
        (
            "skipped-transactions",
            "lower the rate: latencies leave out what was skipped",
            load_validity.skipped,
        ),
        (
            "failed-transactions",
            "look in the load generator's and the server's log for the error",
            load_validity.failed,
        ),
        (
            "drift-within-trials",
            "lengthen warm_up, so that the measured time is all alike",
            partial(drift.within_case, credits=credits),
        ),
    )


def _worst(rule: _Rule, cases: Sequence[Case]) -> Warning | None:
    """The rule's warning, in the words of the treatment where it is worst."""
    code, remedy, find = rule
    found = [(finding, case) for case in cases for finding in (find(case),) if finding is not None]
    if not found:
        return None
    worst, case = max(found, key=lambda one: one[0].severity)
    others = len(found) - 1
    more = "" if not others else f" (and {others} more treatment{'s' if others > 1 else ''})"
    return Warning(code, f"{case.treatment.name}{more}: {worst.text}", remedy)


def _run_drift(trials: Sequence[Trial], has_credits: bool) -> Warning | None:
    found = drift.over_the_run(trials)
    if found is None or not found.is_shown or abs(found.ratio - 1) < _DRIFT:
        return None
    return Warning(
        "drift",
        f"throughput {found} from the first trial to the last, beside what treatments differ in",
        "comparisons are free of it, means are not: look for "
        f"{'credits, ' if has_credits else ''}a filling volume, neighbours",
    )


def _few_blocks(cases: Sequence[Case]) -> Warning | None:
    fewest = min((len(case.trials) for case in cases), default=_FEW_BLOCKS)
    if fewest >= _FEW_BLOCKS:
        return None
    return Warning(
        "few-blocks",
        f"{fewest} block{'s' if fewest > 1 else ''} of trials: only large differences can be shown",
        f"run {_FEW_BLOCKS} blocks or more",
    )


def _scattered_blocks(experiment: Experiment, trials: Sequence[Trial]) -> Warning | None:
    hosts: dict[int, set[str]] = {}
    for trial in trials:
        hosts.setdefault(trial.block, set()).add(trial.host)
    scattered = [block for block, names in hosts.items() if len(names) > 1]
    if experiment.side_by_side or not scattered:
        return None
    return Warning(
        "block-across-machines",
        f"trials of {len(scattered)} of {len(hosts)} blocks ran on different machines: their "
        "differences hold the machines' as well",
        "give every machine whole blocks",
    )
