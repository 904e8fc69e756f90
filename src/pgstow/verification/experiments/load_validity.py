"""The load's validity: client or processors at their limit, too few or lost transactions."""

from collections.abc import Callable

from pgstow.model import CpuUse, Outcome
from pgstow.verification.experiments.case import Case, Finding

_NEAR = 0.85  # of a limit
_FULL = 0.95
_FEWEST_FOR_P99 = 1000  # so that ten are slower


def client_bound(case: Case) -> Finding | None:
    """A load generator as busy as its threads, or its machine's processors, let it be."""
    threads = case.treatment.workload.threads
    busiest = _largest(case, lambda cpu: cpu.client_cores)
    if busiest is None or busiest.client_cores is None:
        return None
    limit = min(threads, busiest.cores)
    if busiest.client_cores < _NEAR * limit:
        return None
    what = f"{threads} threads" if threads <= busiest.cores else f"{busiest.cores} processors"
    return Finding(
        busiest.client_cores / limit,
        f"the load generator keeps {busiest.client_cores:.1f} processors busy, with {what} for it: "
        "it may be the limit",
    )


def processors_full(case: Case) -> Finding | None:
    """A machine with no processor to spare: differences of the storage are hidden behind it."""
    busiest = _largest(case, lambda cpu: cpu.busy_cores)
    if busiest is None or busiest.busy_cores < _FULL * busiest.cores:
        return None
    return Finding(
        busiest.busy_cores / busiest.cores,
        f"{busiest.busy_cores:.1f} of {busiest.cores} processors are busy: they are the limit, "
        "not the storage",
    )


def _largest(case: Case, read: Callable[[CpuUse], float | None]) -> CpuUse | None:
    known = [trial.instruments.cpu for trial in case.trials if trial.instruments.cpu is not None]
    return max(known, key=lambda cpu: read(cpu) or 0.0, default=None)


def few_transactions(case: Case) -> Finding | None:
    """Too few transactions for the 99th percentile that is given."""
    counts = [
        trial.outcome.transactions for trial in case.trials if trial.outcome.p99_ms is not None
    ]
    if not counts or min(counts) >= _FEWEST_FOR_P99:
        return None
    fewest = min(counts)
    return Finding(
        -fewest,
        f"{fewest} transactions in a trial: the 99th percentile is of the slowest {fewest // 100}, "
        f"and needs {_FEWEST_FOR_P99:,} transactions or more",
    )


def skipped(case: Case) -> Finding | None:
    """Transactions that a rate-limited schedule was too late for."""
    share = _share(case, lambda outcome: outcome.skipped)
    return (
        None if share == 0 else Finding(share, f"{share * 100:.2f} % of the schedule was skipped")
    )


def failed(case: Case) -> Finding | None:
    """Transactions that ended in an error."""
    share = _share(case, lambda outcome: outcome.failed)
    return None if share == 0 else Finding(share, f"{share * 100:.2f} % of the transactions failed")


def _share(case: Case, read: Callable[[Outcome], int]) -> float:
    outcomes = [trial.outcome for trial in case.trials]
    due = sum(one.transactions + one.failed + one.skipped for one in outcomes)
    return sum(read(one) for one in outcomes) / due if due else 0.0
