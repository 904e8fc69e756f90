"""Which candidates may hold what: latency, durability, and what the user pinned."""

from collections.abc import Callable

from pgstow.model import Goal, InfeasibleError, Profile, UserError
from pgstow.planning.candidate_volume import CandidateVolume
from pgstow.planning.pins import Pins, Target
from pgstow.planning.problem import Allowed

Keys = frozenset[str]


def allowed(
    profile: Profile, goal: Goal, candidates: tuple[CandidateVolume, ...], pins: Pins
) -> Allowed:
    """The candidates of each part of a server.

    Only temporary files may be on a disk that is lost when the instance stops, unless the
    user says that a standby holds the data; the WAL and the data directory never do.
    """
    _check_standby(profile, goal)
    data = profile.layout.postgres.data
    safe = tuple(candidate for candidate in candidates if _is_safe(candidate, goal))

    def keys(holds: Callable[[CandidateVolume], bool]) -> Keys:
        return frozenset(candidate.key for candidate in safe if holds(candidate))

    durable = keys(lambda candidate: not candidate.is_ephemeral)
    anything = keys(lambda candidate: not candidate.is_for_wal)
    storing = anything & keys(
        lambda candidate: goal.data_on_ephemeral or not candidate.is_ephemeral
    )
    read_us, commit_us = (
        None if limit is None else limit * 1e3 for limit in (goal.read_p99_ms, goal.commit_p99_ms)
    )
    quick = storing & keys(lambda candidate: read_us is None or candidate.read_us_p99 <= read_us)
    committing = durable & keys(
        lambda candidate: commit_us is None or candidate.write_us_p99 <= commit_us
    )
    # AWS advises against st1 and sc1 for small synchronous writes; a commit is one
    wal = committing & keys(lambda candidate: not candidate.is_hdd)
    if pins.wal is not None:
        wal = _pinned("wal", pins.wal, safe, committing, goal)
    # No data directory moves to hard disks: it has what every transaction touches
    keeping = durable & keys(
        lambda s: (
            s.existing is not None
            and s.existing.name == data
            and (not s.is_hdd or s.type == s.existing.type)
        )
    )
    if not keeping:
        raise _no_way_to_keep(data, candidates, goal)
    return Allowed(
        rest=keeping,
        wal=wal,
        temp=anything if pins.temp is None else _pinned("temp", pins.temp, safe, anything, goal),
        read=quick,
        unread=storing,
        relations={
            relation: _pinned(str(relation), target, safe, quick, goal)
            for relation, target in pins.relations.items()
        },
    )


def _is_safe(candidate: CandidateVolume, goal: Goal) -> bool:
    """Whether its rate of failure is within the goal's; a rate that is not known is not."""
    if goal.max_failure_rate is None or candidate.is_ephemeral:
        return True
    rate = candidate.annual_failure_rate
    return rate is not None and rate <= goal.max_failure_rate


def _check_standby(profile: Profile, goal: Goal) -> None:
    if goal.data_on_ephemeral and profile.server.standbys == 0:
        raise UserError(
            "the profile saw no standby that holds what is lost with an instance store",
            "attach one and observe again, or drop --data-on-instance-store",
        )


def _pinned(
    what: str, target: Target, candidates: tuple[CandidateVolume, ...], usable: Keys, goal: Goal
) -> Keys:
    """The candidates a pin leaves; a pin that contradicts the rest of the goal is refused."""
    pin = f"--pin {what}={target.name}"
    fitting = [candidate for candidate in candidates if target.fits(candidate)]
    found = frozenset(candidate.key for candidate in fitting) & usable
    if found:
        return found
    if not fitting:
        raise UserError(
            f"{pin}: the goal and the instance leave no volume of {target.name} to choose",
            "drop the pin, allow the type and its rate of failure, or name an instance that has it",
        )
    if all(candidate.is_ephemeral for candidate in fitting):
        raise UserError(
            f"{pin}: what is on {target.name} is lost when the instance stops",
            "pin only temp there; with a standby, --data-on-instance-store lets relations be there",
        )
    quickest = min(fitting, key=lambda candidate: candidate.read_us_p99)
    p99_ms = (quickest.write_us_p99 if what == "wal" else quickest.read_us_p99) / 1e3
    option, limit = (
        ("--commit-p99", goal.commit_p99_ms) if what == "wal" else ("--read-p99", goal.read_p99_ms)
    )
    raise InfeasibleError(
        f"{pin}: {target.name} takes {p99_ms:.2f} ms (p99), over {option} {limit:g}ms",
        f"drop the pin, or ask for {option} {p99_ms * 1.2:.2g}ms",
    )


def _no_way_to_keep(
    data: str, candidates: tuple[CandidateVolume, ...], goal: Goal
) -> InfeasibleError:
    ways = [
        candidate
        for candidate in candidates
        if candidate.existing and candidate.existing.name == data
    ]
    if all(candidate.is_ephemeral for candidate in ways):
        return InfeasibleError(
            f"volume {data}, where the data directory is, is one of the instance's own disks: it "
            "is lost when the instance stops, and cannot become another type",
            "move the data directory to a network volume, which needs a stop, and observe again",
        )
    limit = (
        "" if goal.max_failure_rate is None else f" within {100 * goal.max_failure_rate:g}% a year"
    )
    return InfeasibleError(
        f"volume {data}, where the data directory is, cannot be kept{limit}",
        "allow a type it can change to in place, or raise --max-failure-rate",
    )
