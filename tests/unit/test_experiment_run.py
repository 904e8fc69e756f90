"""Running a matrix: the order of things, resuming it, refusals, and what is reported to whom."""

from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import get_context

import experiment_fakes as fakes
import pytest
from experiment_samples import BUILD, experiment, trial
from hypothesis import given
from hypothesis import strategies as st

from pgstow.experiment import builds, design, steal_time
from pgstow.experiment.builds import Builds
from pgstow.experiment.run import plan, run
from pgstow.experiment.run_context import RunContext
from pgstow.experiment.timetable import PlannedTrial, Timetable, scheduled_s
from pgstow.experiment.workloads import generator
from pgstow.model import (
    CpuUse,
    Experiment,
    Instruments,
    Schedule,
    ServerChoice,
    ServerError,
    Trial,
    UserError,
)


@pytest.fixture(autouse=True)
def _no_events() -> None:
    fakes.EVENTS.clear()
    fakes.STOLEN_CORES.clear()


def quick(*levels: str, warm_up_s: float = 0.0, **changes: object) -> Experiment:
    """An experiment of a second a trial; a level's workload has the level's name."""
    made = experiment(*levels, **{"blocks": 1} | changes)  # type: ignore[arg-type]
    treatments = tuple(
        replace(
            one,
            workload=replace(one.workload, name=one.level("wal")),
            schedule=Schedule(1.0, warm_up_s),
        )
        for one in made.treatments
    )
    return replace(made, treatments=treatments)


def run_all(wanted: Experiment, done: tuple[Trial, ...] = (), **options: object) -> list[Trial]:
    found: list[Trial] = []
    target = options.pop("target", fakes.FakeTarget())
    run(wanted, target, fakes.TOOLS, on_trial=found.append, done=done, **options)  # type: ignore[arg-type]
    return found


def test_a_trial_goes_from_the_known_state_to_the_measured_part() -> None:
    (found,) = run_all(quick("one", warm_up_s=0.2))
    assert fakes.EVENTS == [
        "checked",
        "prepared",
        "one: checked",
        "one: server up",
        "one: checkpoint, limits on",
        "one: load started with seed 7",
        "one: clients noted",
        "one: recording",
        "one: recorded",
        "one: load stopped",
        "one: outcome of the part",
        "one: load gone",
        "one: server gone",
    ]
    assert (found.block, found.position, found.usd_month) == (0, 0, 8.0)
    assert found.levels == (("wal", "one"),)
    assert [warning.code for warning in found.warnings] == ["recorded"]
    assert found.build == builds.build("18.4", "fake 1")
    assert found.host


def test_a_trial_keeps_the_settings_and_what_the_volumes_say() -> None:
    (found,) = run_all(quick("one", warm_up_s=0.2), target=fakes.FakeTarget(late=True))
    assert found.settings == (("shared_buffers", "128MB"),)
    assert [warning.code for warning in found.warnings] == ["recorded", "limited-by-emulator"]


@pytest.mark.parametrize(
    ("stolen_cores", "repeats", "attempts", "stands"),
    [
        ((0.3, 0.02, 0.0), 4, 2, 2),  # a fiftieth of what was wanted is not worth another
        ((0.3, 0.1, 0.2), 2, 3, 2),  # what least was taken from
        ((0.3, 0.0), 0, 1, 1),
    ],
)
def test_a_trial_with_processors_stolen_is_measured_again(
    stolen_cores: tuple[float, ...], repeats: int, attempts: int, stands: int
) -> None:
    fakes.STOLEN_CORES.extend(stolen_cores)
    (found,) = run_all(quick("one"), repeats=repeats)
    assert found.instruments.cpu is not None
    assert found.instruments.cpu.stolen_cores == stolen_cores[stands - 1]
    assert found.attempts == attempts
    assert fakes.EVENTS.count("one: server up") == attempts


@pytest.mark.parametrize(
    ("ends", "raised"),
    [(ServerError("ended"), None), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_what_ends_a_repeat_costs_no_attempt_that_ended_well(
    ends: BaseException, raised: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.STOLEN_CORES.extend((0.3, 0.3))
    kept: list[Trial] = []
    outcome = fakes.FakeRunning.outcome

    def once(running: fakes.FakeRunning, *at: float) -> object:
        if fakes.EVENTS.count("one: recorded") > 1:
            raise ends
        return outcome(running, *at)

    monkeypatch.setattr(fakes.FakeRunning, "outcome", once)
    with nullcontext() if raised is None else pytest.raises(raised):
        run(quick("one"), fakes.FakeTarget(), fakes.TOOLS, on_trial=kept.append, repeats=3)
    assert [one.attempts for one in kept] == [1]


def test_a_server_that_was_there_before_is_loaded_once() -> None:
    fakes.STOLEN_CORES.append(0.3)
    (found,) = run_all(replace(quick("one"), target="server"), repeats=3)
    assert found.attempts == 1


def test_what_is_stolen_is_of_the_time_that_was_wanted() -> None:
    busy, idle = (
        replace(
            trial(0, 0, 1.0, wal="a"), instruments=Instruments(cpu=CpuUse(2, cores, None, 0.01))
        )
        for cores in (1.9, 0.05)
    )
    assert steal_time.share(busy) == pytest.approx(0.01 / 1.91)
    assert steal_time.share(idle) == pytest.approx(0.01 / 0.1)


def fixed(duration_s: float) -> Experiment:
    """A load of 200 s at most; a fake client takes that long."""
    made = quick("one")
    (one,) = made.treatments
    workload = replace(one.workload, transactions=500)
    return replace(
        made, treatments=(replace(one, workload=workload, schedule=Schedule(duration_s)),)
    )


def test_a_fixed_number_of_transactions_ends_by_itself() -> None:
    (found,) = run_all(fixed(60.0))  # the fake ends after 20 ms
    assert found.outcome.transactions > 0
    assert "one: outcome of the whole" in fakes.EVENTS


def test_a_fixed_number_of_transactions_that_takes_too_long_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fakes.FakeRunning, "wait", lambda *_: False)
    with pytest.raises(ServerError, match="has not ended after 1 s"):
        run_all(fixed(1.0))


def test_a_workload_that_is_not_known_is_refused_before_anything_is_made() -> None:
    wanted = quick("one", "two")
    tools = replace(fakes.TOOLS, make_generator=generator)
    with pytest.raises(UserError, match="wal one: there is no workload one"):
        run(wanted, fakes.FakeTarget(), tools, on_trial=lambda _: None)
    assert fakes.EVENTS == []


def test_without_a_warm_up_all_of_the_load_counts() -> None:
    run_all(quick("one"))
    assert "one: outcome of the whole" in fakes.EVENTS
    assert "one: load stopped" not in fakes.EVENTS


def test_trials_run_in_the_order_of_the_design_and_blocks_draw_numbers_of_their_own() -> None:
    wanted = quick("a", "b", "c", blocks=2)
    found = run_all(wanted)
    order = [one.levels for block in design.order(wanted) for one in block]
    assert [one.levels for one in found] == order
    assert [(one.block, one.position) for one in found] == [
        (b, p) for b in (0, 1) for p in range(3)
    ]
    seeds = [event.rsplit(" ", 1)[1] for event in fakes.EVENTS if "with seed" in event]
    assert seeds == ["7"] * 3 + ["8"] * 3


def test_what_is_done_is_not_run_again() -> None:
    wanted = quick("a", "b", blocks=2)
    first = run_all(wanted)
    rest = run_all(wanted, done=tuple(first[:3]))
    assert [(one.block, one.levels) for one in rest] == [(first[3].block, first[3].levels)]
    assert run_all(wanted, done=tuple(first)) == []


def test_a_trial_that_fails_is_not_told_of_and_is_cleared_up() -> None:
    found: list[Trial] = []
    with pytest.raises(ServerError, match="the load failed"):
        run(quick("fails"), fakes.FakeTarget(), fakes.TOOLS, on_trial=found.append)
    assert found == []
    assert fakes.EVENTS[-2:] == ["fails: load gone", "fails: server gone"]


def test_an_interrupted_trial_is_cleared_up_and_dropped() -> None:
    found: list[Trial] = []
    with pytest.raises(KeyboardInterrupt):
        run(quick("interrupted"), fakes.FakeTarget(), fakes.TOOLS, on_trial=found.append)
    assert found == []
    assert fakes.EVENTS[-1] == "interrupted: server gone"


def test_another_build_is_refused_before_its_load_begins() -> None:
    wanted = quick("a", "b")
    (first,) = [one for one in run_all(wanted) if one.position == 0]
    fakes.EVENTS.clear()
    other = fakes.FakeTarget((("a", "18.5"), ("b", "18.5")))
    with pytest.raises(UserError, match=r"PostgreSQL was 18\.4 .* is 18\.5 now"):
        run_all(wanted, done=(first,), target=other)
    assert not any("load started" in event for event in fakes.EVENTS)


@pytest.mark.parametrize("part", ["pgstow", "kernel", "machine", "workload"])
def test_every_part_of_a_build_counts(part: str) -> None:
    wanted = experiment()
    known = Builds(wanted, [trial(0, 0, 100.0, wal="shared")])
    known.hold(wanted.treatments[1], BUILD)
    with pytest.raises(UserError, match="different builds in one comparison"):
        known.hold(wanted.treatments[0], replace(BUILD, **{part: "another"}))


def test_servers_of_versions_that_the_experiment_compares_may_differ() -> None:
    wanted = quick("old", "new")
    old, new = wanted.treatments
    wanted = replace(wanted, treatments=(replace(old, server=ServerChoice(15)), new))
    target = fakes.FakeTarget((("old", "15.9"), ("new", "18.4")))
    found = run_all(wanted, target=target)
    assert {one.build.postgres for one in found} == {"15.9", "18.4"}


def test_side_by_side_all_are_measured_from_the_same_moment() -> None:
    wanted = quick("a", "b", "c", side_by_side=True)
    found = run_all(wanted)
    begun = [event for event in fakes.EVENTS if event.endswith("limits on")]
    started = [n for n, event in enumerate(fakes.EVENTS) if "load started" in event]
    assert len(begun) == 3
    assert min(started) > max(fakes.EVENTS.index(event) for event in begun)
    assert {one.levels for one in found} == {one.levels for one in wanted.treatments}


def test_side_by_side_one_failure_ends_all_and_is_the_one_told() -> None:
    wanted = quick("a", "fails", side_by_side=True)
    long = tuple(replace(one, schedule=Schedule(600.0)) for one in wanted.treatments)
    with pytest.raises(ServerError, match="the load failed"):
        run_all(replace(wanted, treatments=long))
    assert {"a: server gone", "fails: server gone"} <= set(fakes.EVENTS)


def test_side_by_side_a_block_counts_only_whole() -> None:
    wanted = quick("a", "b", side_by_side=True)
    first = run_all(wanted)
    assert len(run_all(wanted, done=tuple(first[:1]))) == 2
    assert run_all(wanted, done=tuple(first)) == []


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_blocks_run_in_any_executor(kind: str) -> None:
    wanted = quick("a", "b", blocks=2)
    executor: Executor = ThreadPoolExecutor(2)
    if kind == "processes":
        executor = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with executor:
        found = run_all(wanted, executor=executor)
    expected = {(block, one.levels) for block in (0, 1) for one in wanted.treatments}
    assert {(one.block, one.levels) for one in found} == expected
    assert (kind == "processes") == ("a: server up" not in fakes.EVENTS)


def test_of_a_block_that_fails_elsewhere_the_whole_trials_are_kept() -> None:
    levels = ("fails", "a", "b", "c")
    wanted = quick(*levels)
    place = [one.level("wal") for one in design.order(wanted)[0]].index("fails")
    found: list[Trial] = []
    with ThreadPoolExecutor(1) as executor, pytest.raises(ServerError, match="the load failed"):
        run(wanted, fakes.FakeTarget(), fakes.TOOLS, on_trial=found.append, executor=executor)
    assert len(found) == place


def test_a_plan_says_what_is_to_come() -> None:
    wanted = quick("a", "b", blocks=2)
    planned = plan(wanted, run_all(replace(wanted, blocks=1)))
    assert [one.is_done for one in planned] == [True, True, False, False]
    assert all(one.seconds == 1.0 + design.SET_UP_S for one in planned)


def _planned(seconds: list[float]) -> list[PlannedTrial]:
    base = experiment().treatments[0]
    return [
        PlannedTrial(n, 0, replace(base, schedule=Schedule(s)), s + design.SET_UP_S)
        for n, s in enumerate(seconds)
    ]


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=8), st.floats(0, 60))
def test_time_left_is_from_the_schedule_first_and_from_the_trials_later(
    seconds: list[float], set_up_s: float
) -> None:
    now = [0.0]
    planned = _planned(seconds)
    table = Timetable(planned, None, clock=lambda: now[0])
    assert table.left_s() == pytest.approx(sum(one.seconds for one in planned))
    for number, one in enumerate(planned):
        table.begin(one.block, one.levels)
        now[0] += scheduled_s(one.treatment) + set_up_s
        assert table.left_s() >= 0
        table.end(one.block, one.levels)
        rest = seconds[number + 1 :]
        assert table.left_s() == pytest.approx(sum(rest) + set_up_s * len(rest))


def test_progress_adds_what_has_passed_to_what_is_left() -> None:
    passed_on: list[tuple[float, float, str]] = []
    now = [0.0]
    planned = _planned([10.0, 20.0])
    table = Timetable(planned, lambda *one: passed_on.append(one), clock=lambda: now[0])
    table.begin(0, planned[0].levels)
    now[0] = 4.0
    table.report("measuring")
    assert passed_on == [(4.0, 30.0 + 2 * design.SET_UP_S, "measuring")]


def test_treatments_side_by_side_take_the_time_of_the_longest() -> None:
    base = experiment("a", "b").treatments
    planned = [
        PlannedTrial(0, n, replace(one, schedule=Schedule(10.0 * (n + 1))), 0.0)
        for n, one in enumerate(base)
    ]
    table = Timetable(planned, None, side_by_side=True)
    assert table.left_s() == pytest.approx(20.0 + design.SET_UP_S)


def test_progress_is_told_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("pgstow.experiment.run_context.time.monotonic", lambda: now[0])
    reports: list[str] = []
    hear = RunContext(reports.append).progress("loading pgbench")
    now[0] = 130.0
    for done, total in ((0, 400), (100, 400), (400, 400), (5, 0)):
        hear(done, total)
    assert reports == [
        "loading pgbench",
        "loading pgbench (25%, 1 min 30 s left)",
        "loading pgbench",
        "loading pgbench",
    ]
