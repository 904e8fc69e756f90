"""What was measured while the emulator was the limit is marked, in trials and in the demo."""

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import report_samples as samples
from test_emulate_statistics import BUSY, NOTHING, sampled

from pgstow import catalog
from pgstow.cli import demo, demo_loop, demo_place, emulate_limited
from pgstow.cli.bench_volumes import EmulatedVolumes
from pgstow.model import HostSpec, Measurement, Volume
from pgstow.units import GIB, Bytes
from pgstow.verification.experiments import LIMITED_BY_EMULATOR
from pgstow.workspace import Workspace

BEFORE = sampled(NOTHING, replace(NOTHING, name="wal"), at_s=10.0)
LATE = replace(BUSY, late_us_total=9000 * 500.0)
ON_TIME = replace(BUSY, name="wal", late_us_total=9000 * 20.0)
AFTER = sampled(LATE, ON_TIME, at_s=20.0, busy_s=1.0)
QUIET = sampled(BUSY, ON_TIME, at_s=20.0, busy_s=1.0)


@pytest.fixture
def samples_of_statistics(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Hands out these samples, one after the other, in place of a running emulator's."""

    def hand_out(*given: Any) -> None:
        left = iter(given)
        monkeypatch.setattr("pgstow.emulate.watch.read_statistics", lambda _: next(left))

    return hand_out


def test_only_the_volumes_that_answered_late_are_told_of() -> None:
    (told,) = emulate_limited.limited_warnings(BEFORE, AFTER)
    assert told.code == LIMITED_BY_EMULATOR
    assert "volume data answered 0.50 ms later" in told.message
    assert emulate_limited.limited_warnings(BEFORE, QUIET) == ()
    assert emulate_limited.limited_warnings(BEFORE, BEFORE) == ()


def test_a_server_without_rest_is_the_limit_of_all_its_volumes() -> None:
    busy = replace(QUIET, busy_us_total=9.9e6)
    told = emulate_limited.limited_warnings(BEFORE, busy)
    assert [one.code for one in told] == [LIMITED_BY_EMULATOR] * 2
    assert "no rest" in told[0].message


def test_trials_and_the_demo_are_decided_alike(
    samples_of_statistics: Callable[..., None], tmp_path: Path
) -> None:
    busy = replace(QUIET, busy_us_total=9.9e6)  # what trials' own thresholds did not see
    volumes = demo_place.DemoVolumes(tmp_path, catalog.load(), None, None)
    for after in (AFTER, QUIET, busy):
        samples_of_statistics(BEFORE, BEFORE, after, after)
        ends = EmulatedVolumes().watch(), volumes.watch()
        of_trials, of_demo = (end() for end in ends)
        assert of_trials == of_demo == emulate_limited.limited_warnings(BEFORE, after)


def test_plain_directories_have_no_emulator(tmp_path: Path) -> None:
    volumes = demo_place.DemoVolumes(tmp_path, catalog.load(), "no root", None)
    assert volumes.watch()() == ()


def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Measurement, Measurement]:
    """What the demo's look at a load gives, and what it keeps of it."""
    outcome = SimpleNamespace(tps=100.0, mean_ms=10.0, p99_ms=20.0, tps_samples=(99.0, 101.0))
    load: Any = SimpleNamespace(stop=lambda: None, outcome=lambda *_: outcome)
    server: Any = SimpleNamespace(dsn_for=lambda name: name)
    monkeypatch.setattr("pgstow.observe.observe", lambda *_, **__: samples.profile())
    monkeypatch.setattr("time.sleep", lambda _: None)
    rules = catalog.load()
    volumes = demo_place.DemoVolumes(tmp_path, rules, None, None)
    layout = samples.layout_before()
    with Workspace.open(tmp_path / "pgstow.db", create=True) as store:
        run = demo_loop.Demo(
            volumes, server, store, rules, tmp_path, None, 16, 8, 10.0, layout, lambda _: None
        )
        _, measured = run.look(load, layout, lambda *_: None)
        kept = store.latest("measurement", Measurement)
    assert kept is not None
    return measured, kept


def test_a_window_of_the_demo_under_a_limiting_emulator_is_marked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    samples_of_statistics: Callable[..., None],
) -> None:
    samples_of_statistics(BEFORE, AFTER)
    marked, kept = looked(tmp_path, monkeypatch)
    assert kept == marked  # the page is made of it, and shows every warning of a measurement
    samples_of_statistics(BEFORE, QUIET)
    clean, _ = looked(tmp_path, monkeypatch)
    assert clean.performance.tps == marked.performance.tps == 100.0
    volumes = demo_place.DemoVolumes(tmp_path, catalog.load(), None, None)

    def closing(before: Measurement, after: Measurement) -> tuple[dict[str, Any], str]:
        shown = demo._Shown(samples.plan(), before, after)
        summary = json.loads(json.dumps(demo._summary(volumes, shown, 1.0)))
        return summary, "\n".join(demo._closing(summary, tmp_path, volumes))

    summary, text = closing(clean, marked)
    assert not summary["before"]["is_limited_by_emulator"]
    assert summary["after"]["is_limited_by_emulator"]
    assert summary["after"]["warnings"][-1]["code"] == LIMITED_BY_EMULATOR
    assert "Limited by the emulator after:" in text
    summary, text = closing(clean, clean)
    assert not summary["after"]["is_limited_by_emulator"]
    assert "measured on emulated volumes" in text and "Limited" not in text


def test_a_trial_begins_with_the_credits_of_its_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = catalog.load()
    layout_credits = {"full": None, "some": 0.25, "none": 0.0}
    volumes = [
        Volume(name, "gp2", Bytes(100 * GIB), f"/{name}", burst_credits=credits)
        for name, credits in layout_credits.items()
    ]
    volumes.append(Volume("gp3", "gp3", Bytes(100 * GIB), "/gp3"))
    found = [
        SimpleNamespace(name=one.name, device=rules.device(one, HostSpec())) for one in volumes
    ]
    credits = dict.fromkeys(layout_credits, 0.7)  # what loading left
    limits = [False]

    class Control:
        def __init__(self, _: Path) -> None:
            pass

        def status(self) -> Any:
            return SimpleNamespace(volumes=found)

        def set_credits(self, fraction: float, name: str) -> None:
            assert not limits[-1]  # else some of them are used before the trial begins
            credits[name] = fraction

        def set_limits(self, enabled: bool) -> None:
            limits.append(enabled)

    status = importlib.import_module("pgstow.emulate.status")
    monkeypatch.setattr(status, "Control", Control)
    monkeypatch.setattr(status, "read_status", lambda _: None)
    monkeypatch.setattr(status.process, "running", lambda _: SimpleNamespace())
    EmulatedVolumes().limits(False)
    assert set(credits.values()) == {0.7}
    EmulatedVolumes().limits(True)
    assert credits == {"full": 1.0, "some": 0.25, "none": 0.0}
    assert limits[-1]
