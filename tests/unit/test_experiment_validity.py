"""Each known trap is found where it is, and not where it is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from experiment_samples import experiment, trial

from pgstow.catalog import load
from pgstow.model import (
    CheckpointUse,
    CpuUse,
    DeviceUse,
    Experiment,
    HostCap,
    HostSpec,
    Instruments,
    Layout,
    Placement,
    Trial,
    Volume,
    WalUse,
)
from pgstow.units import GIB, MIB, Bytes
from pgstow.verification.experiments import validity_checks
from pgstow.verification.experiments.drift import over_the_run, within_trials

WRITES = WalUse(1e6, 90_000, 0, 10, 10, None, None)
DATA = Volume("data", "gp2", Bytes(100 * GIB), "/mnt/data")
BURSTING = HostSpec("ec2", "us-east-1", "m6i.large", burst_credits=1.0)
LAYOUT = Layout(HostSpec(), (DATA,), Placement("data", "data"))


def codes(designed: Experiment, made: tuple[Trial, ...], **known: Any) -> set[str]:
    return {warning.code for warning in validity_checks(designed, made, **known)}


def design(**changes: Any) -> Experiment:
    """An experiment of 30 s trials, with treatments changed."""
    given = experiment(blocks=6)
    return replace(given, treatments=tuple(replace(t, **changes) for t in given.treatments))


def run(**outcome: Any) -> tuple[Trial, ...]:
    """Six blocks in which nothing is wrong, with outcomes changed."""
    made = [
        trial(block, (place + block) % 2, tps * (1 + 0.001 * (-1) ** block), wal=level)
        for block in range(6)
        for place, (level, tps) in enumerate([("shared", 100.0), ("apart", 130.0)])
    ]
    return tuple(replace(one, outcome=replace(one.outcome, **outcome)) for one in made)


def measured(**instruments: Any) -> tuple[Trial, ...]:
    return tuple(replace(one, instruments=Instruments(**instruments)) for one in run())


def lasting(duration_s: float, **changes: Any) -> Experiment:
    schedule = replace(design().treatments[0].schedule, duration_s=duration_s, **changes)
    return design(schedule=schedule)


def test_a_sound_experiment_has_no_warning() -> None:
    assert validity_checks(design(), run()) == ()
    assert validity_checks(design(), ()) == ()


@pytest.mark.parametrize(
    ("volume", "burst_s", "warm_up_s", "is_flagged"),
    [
        (DATA, 1800.0, 0.0, True),  # pays for all of it
        (DATA, 10.0, 0.0, True),  # ends within it
        (DATA, None, 0.0, False),  # no burst
        (replace(DATA, burst_credits=0.0), 1800.0, 0.0, False),
        (replace(DATA, burst_credits=0.01), 1800.0, 20.0, False),  # 18 s, spent in the warm-up
        (DATA, 1800.0, 20.0, True),
    ],
)
def test_burst_credits(
    volume: Volume, burst_s: float | None, warm_up_s: float, is_flagged: bool
) -> None:
    schedule = replace(design().treatments[0].schedule, warm_up_s=warm_up_s)
    designed = design(layout=replace(LAYOUT, volumes=(volume,)), schedule=schedule)
    found = codes(designed, run(), burst_s={volume: burst_s})
    assert ("burst-credits" in found) == is_flagged


def test_burst_credits_say_whether_they_pay_for_all() -> None:
    designed = design(layout=LAYOUT)
    (whole,) = validity_checks(designed, run(), burst_s={DATA: 1800.0})
    (part,) = validity_checks(designed, run(), burst_s={DATA: 10.0})
    assert "volume data (gp2) lasts at least 30 min" in whole.message
    assert "the burst alone" in whole.message and "can end within" in part.message
    assert "and 1 more treatment" in whole.message and "burst_credits = 0" in whole.remedy


GP2 = load().device(DATA, HostSpec())  # 300 operations a second, and a burst of 3,000


def asked(iops: float, mib_per_s: float = 1.0) -> tuple[Trial, ...]:
    rate = mib_per_s * MIB
    return measured(
        devices=(DeviceUse("loop0", "data", iops / 2, iops / 2, rate, 0, 1.0, 1.0, 0.0, 1.0),)
    )


@pytest.mark.parametrize(
    ("credits", "iops", "is_flagged"),
    [
        (0.0, 367.0, True),  # a layout without credits, and faster than the volume sustains
        (0.0, 302.0, False),
        (1.0, 302.0, False),  # credits that nobody used
        (1.0, 3000.0, True),
    ],
)
def test_burst_credits_by_what_was_measured(credits: float, iops: float, is_flagged: bool) -> None:
    volume = replace(DATA, burst_credits=credits)
    designed = design(layout=replace(LAYOUT, volumes=(volume,)))
    found = validity_checks(designed, asked(iops), burst_s={volume: 1800.0}, devices={volume: GP2})
    assert {one.code for one in found} == ({"burst-credits"} if is_flagged else set())
    assert not is_flagged or f"did {iops:,.0f} operations/s and sustains 300" in found[0].message


def test_a_hard_disk_counts_each_operation_as_a_unit() -> None:
    disk = Volume("data", "st1", Bytes(2048 * GIB), "/mnt/data")  # 80 MiB/s
    designed = design(layout=replace(LAYOUT, volumes=(disk,)))
    known: dict[str, Any] = {
        "burst_s": {disk: 5000.0},
        "devices": {disk: load().device(disk, LAYOUT.host)},
    }
    assert "burst-credits" in codes(designed, asked(110.0), **known)
    assert "burst-credits" not in codes(designed, asked(60.0), **known)


def test_instance_burst_by_what_was_measured() -> None:
    designed = design(layout=replace(LAYOUT, host=BURSTING))
    known: dict[str, Any] = {"instance_burst_s": {BURSTING: 1800.0}, "devices": {DATA: GP2}}
    known["caps"] = {BURSTING: HostCap(iops=3600, bytes_per_second=None)}
    assert "instance-burst" in codes(designed, asked(5000.0), **known)
    assert "instance-burst" not in codes(designed, asked(3600.0), **known)


@pytest.mark.parametrize(
    ("host", "target", "is_flagged"),
    [
        (BURSTING, "emulated", True),
        (replace(BURSTING, burst_credits=None), "emulated", False),  # it never bursts
        (replace(BURSTING, burst_credits=None), "directories", True),  # a real one does
        (replace(BURSTING, burst_credits=0.0), "directories", False),
    ],
)
def test_instance_burst(host: HostSpec, target: Any, is_flagged: bool) -> None:
    designed = replace(design(layout=replace(LAYOUT, host=host)), target=target)
    assert (
        "instance-burst" in codes(designed, run(), instance_burst_s={host: 1800.0})
    ) == is_flagged


@pytest.mark.parametrize(
    ("changes", "is_flagged"),
    [
        ({"from_snapshot": True}, True),
        ({"from_snapshot": True, "fast_snapshot_restore": True}, False),
        ({}, False),
    ],
)
def test_lazy_loading(changes: dict[str, bool], is_flagged: bool) -> None:
    designed = design(layout=replace(LAYOUT, volumes=(replace(DATA, **changes),)))
    assert ("lazy-loading" in codes(designed, run())) == is_flagged


def test_too_short_for_a_checkpoint() -> None:
    seen, none = CheckpointUse(1, 0, 100, 1.0, 1.0), CheckpointUse(0, 0, 0, 0.0, 0.0)
    for use in (none, None):
        assert "no-checkpoint" in codes(design(), measured(wal=WRITES, checkpoints=use))
    assert "no-checkpoint" not in codes(design(), measured(wal=WRITES, checkpoints=seen))
    reads = replace(WRITES, records=40)
    assert "no-checkpoint" not in codes(design(), measured(wal=reads, checkpoints=none))
    assert "no-checkpoint" not in codes(lasting(300.0), measured(wal=WRITES, checkpoints=none))
    assert "no-checkpoint" in codes(lasting(299.0), measured(wal=WRITES, checkpoints=none))


@pytest.mark.parametrize(
    ("setting", "is_flagged"),
    [("20s", False), ("30", False), ("31", True), ("5min", True), ("soon", False)],
)
def test_the_servers_own_checkpoint_timeout_counts(setting: str, is_flagged: bool) -> None:
    server = replace(design().treatments[0].server, settings=(("checkpoint_timeout", setting),))
    found = codes(design(server=server), measured(wal=WRITES))
    assert ("no-checkpoint" in found) == is_flagged
    placement = replace(LAYOUT.postgres, settings=(("checkpoint_timeout", setting),))
    found = codes(design(layout=replace(LAYOUT, postgres=placement)), measured(wal=WRITES))
    assert ("no-checkpoint" in found) == is_flagged


@pytest.mark.parametrize(
    ("server", "machine", "is_flagged"),
    [(4, None, True), (1, None, False), (None, 4, True), (1, 4, False), (None, None, False)],
)
def test_dataset_smaller_than_memory(
    server: int | None, machine: int | None, is_flagged: bool
) -> None:
    limit = None if server is None else Bytes(server * GIB)
    choice = replace(design().treatments[0].server, memory_bytes=limit)
    made = measured(database_bytes=Bytes(2 * GIB))
    known = {} if machine is None else {"memory_bytes": machine * GIB}
    assert ("dataset-in-memory" in codes(design(server=choice), made, **known)) == is_flagged


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (CpuUse(16, 4.0, 1.9), {"client-bound"}),  # two threads, nearly always busy
        (CpuUse(1, 0.9, 0.88), {"client-bound"}),  # one processor, for all
        (CpuUse(16, 4.0, 1.0), set()),
        (CpuUse(16, 15.6, 1.0), {"processors-full"}),
        (CpuUse(16, 4.0, None), set()),
        (None, set()),
    ],
)
def test_client_and_processors(cpu: CpuUse | None, expected: set[str]) -> None:
    assert codes(design(), measured(cpu=cpu)) == expected


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ({"transactions": 999}, "few-transactions"),
        ({"skipped": 3}, "skipped-transactions"),
        ({"failed": 3}, "failed-transactions"),
    ],
)
def test_what_became_of_the_transactions(outcome: dict[str, int], code: str) -> None:
    assert codes(design(), run(**outcome)) == {code}
    assert code not in codes(design(), run(transactions=1000))


def test_a_percentile_that_is_not_given_needs_no_transactions() -> None:
    assert codes(design(), run(transactions=99, p99_ms=None)) == set()


def test_a_warning_speaks_of_the_worst_treatment() -> None:
    made = tuple(
        replace(one, outcome=replace(one.outcome, failed=90 if place % 2 else 1))
        for place, one in enumerate(run())
    )
    (warning,) = validity_checks(design(), made)
    assert warning.message.startswith("wal apart (and 1 more treatment): 2.")


def test_few_blocks() -> None:
    made = tuple(one for one in run() if one.block < 5)
    assert codes(design(), made) == {"few-blocks"}


def test_a_block_across_machines() -> None:
    def on(name: Callable[[Trial], str]) -> tuple[Trial, ...]:
        return tuple(replace(one, host=name(one)) for one in run())

    scattered = on(lambda one: f"machine-{one.position}")
    assert codes(design(), scattered) == {"block-across-machines"}
    assert codes(replace(design(), side_by_side=True), scattered) == set()
    assert codes(design(), on(lambda one: f"machine-{one.block}")) == set()


def slowed(part: float) -> tuple[Trial, ...]:
    """Every block slower by a part of the first one's speed."""
    return tuple(
        replace(one, outcome=replace(one.outcome, tps=one.outcome.tps * (1 - part * one.block)))
        for one in run()
    )


def test_drift_over_the_run() -> None:
    assert codes(design(), slowed(0.03)) == {"drift"}
    assert codes(design(), slowed(-0.03)) == {"drift"}
    assert codes(design(), slowed(0.002)) == set()  # shown, and of no account
    (warning,) = validity_checks(design(), slowed(0.03))
    assert "fell by 15." in warning.message or "fell by 14." in warning.message


def test_noise_is_no_drift() -> None:
    noisy = tuple(
        replace(one, outcome=replace(one.outcome, tps=one.outcome.tps * factor))
        for one, factor in zip(
            run(), (1.2, 0.9, 0.8, 1.1, 1.1, 1.0, 0.9, 1.2, 1.1, 0.8, 1.0, 1.1), strict=True
        )
    )
    assert codes(design(), noisy) == set()


def test_drift_needs_more_trials_than_treatments() -> None:
    assert over_the_run(run()[:2]) is None
    assert over_the_run(()) is None
    assert over_the_run(run()) is not None


def halves(early: float, late: float, wobble: float = 0.02) -> tuple[Trial, ...]:
    """Trials of 30 s that go by ``early`` and then by ``late``, each a little differently."""
    return tuple(
        replace(
            one,
            outcome=replace(
                one.outcome,
                tps_samples=tuple(
                    (early if second < 15 else late * (1 + wobble * (-1) ** one.block))
                    * (1 + 0.01 * (-1) ** second)
                    for second in range(30)
                ),
            ),
        )
        for one in run()
    )


def test_drift_within_trials() -> None:
    assert codes(design(), halves(100, 80)) == {"drift-within-trials"}
    assert codes(design(), halves(100, 120)) == {"drift-within-trials"}
    assert codes(design(), halves(100, 100)) == set()
    assert codes(design(), halves(100, 80, wobble=0.7)) == set()  # not the same in all


def test_a_single_trial_is_held_against_itself() -> None:
    (one, *_) = halves(100, 80)
    found = within_trials([one])
    assert found is not None and found.is_shown and found.ratio < 0.85
    (other, *_) = halves(100, 100, wobble=0.0)
    found = within_trials([other])
    assert found is not None and not found.is_shown
    still = replace(one, outcome=replace(one.outcome, tps_samples=(0.0,) * 30))
    short = replace(one, outcome=replace(one.outcome, tps_samples=(100.0,) * 5))
    assert within_trials([still]) is None and within_trials([short]) is None


@pytest.mark.parametrize("kind", ["gp2", "gp3"])
def test_credits_that_ended_are_advised_only_where_there_are_some(kind: str) -> None:
    volume = replace(DATA, type=kind)
    layout = Layout(HostSpec("ec2", "us-east-1", "m6i.16xlarge"), (volume,), LAYOUT.postgres)
    rules = load()
    has_credits = kind == "gp2"
    burst_s = {volume: rules.burst_seconds(volume)}
    hosts = {layout.host: rules.host_burst_seconds(layout.host)}
    assert hosts[layout.host] is None

    def told(made: tuple[Trial, ...], **known: Any) -> str:
        found = validity_checks(design(layout=layout), made, **known)
        (warning,) = (one for one in found if one.code.startswith("drift"))
        return f"{warning.message} {warning.remedy}"

    known = {"burst_s": burst_s, "instance_burst_s": hosts}
    for made in (halves(100, 80), slowed(0.03)):
        assert ("credits" in told(made, **known)) == has_credits
    assert "credits" not in told(halves(100, 120), **known)  # what ends makes nothing faster
    of_instance = told(halves(100, 80), instance_burst_s={layout.host: 1800.0})
    assert "the instance has burst credits" in of_instance
