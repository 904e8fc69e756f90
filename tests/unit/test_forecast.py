"""Forecasts on the virtual clock: burst durations as providers publish them, and the command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pgstow.cli
from pgstow import catalog
from pgstow.cli.main import app
from pgstow.load_file import parse_load
from pgstow.model import (
    Device,
    HostCap,
    HostSpec,
    LoadPhase,
    LoadPlan,
    SyntheticLoad,
    UserError,
    Volume,
)
from pgstow.prediction.forecast import Forecast, VolumeForecast, forecast
from pgstow.units import GIB, MIB, TIB, Bytes, Seconds

assert pgstow.cli.main is not None  # every command is registered

GP2_BURST_IOPS = 3000
GP2_CREDITS = 5.4e6


def device(type_name: str, size: int, name: str = "data", stripes: int = 1) -> Device:
    volume = Volume(name, type_name, Bytes(size), f"/{name}", stripes=stripes)
    return catalog.load().device(volume, HostSpec())


def plan(*phases: LoadPhase, seconds: float, request: int = 8192, **load: object) -> LoadPlan:
    one = SyntheticLoad("data", phases, request_bytes=Bytes(request), **load)  # type: ignore[arg-type]
    return LoadPlan((one,), duration_s=Seconds(seconds), interval_s=Seconds(60.0))


def served(volume: VolumeForecast, at_s: float) -> float:
    """Requests a second in the interval that holds a moment."""
    series = volume.series
    place = next(index for index, end_s in enumerate(series.end_s) if end_s > at_s)
    return series.served_iops[place]


@pytest.mark.parametrize(
    "asked", [LoadPhase(Seconds(1e5), depth=32), LoadPhase(Seconds(1e5), 3000)]
)
@pytest.mark.parametrize("size_gib", [100, 500, 750])
def test_gp2_bursts_as_long_as_published(size_gib: int, asked: LoadPhase) -> None:
    baseline = 3 * size_gib
    burst_s = GP2_CREDITS / (GP2_BURST_IOPS - baseline)
    load = plan(asked, seconds=burst_s + 1800)
    (volume,) = forecast(load, [device("gp2", size_gib * GIB)], None).volumes
    assert volume.credits_first_empty_s == pytest.approx(burst_s, rel=0.01)
    assert served(volume, burst_s / 2) == pytest.approx(GP2_BURST_IOPS, rel=0.005)
    assert served(volume, burst_s + 1500) == pytest.approx(baseline, rel=0.005)
    assert volume.exceeded_s.volume_throughput == 0


def test_gp2_of_100_gib_bursts_as_long_request_by_request() -> None:
    load = plan(LoadPhase(Seconds(2300.0), depth=16), seconds=2300)
    (volume,) = forecast(load, [device("gp2", 100 * GIB)], None, exact=True).volumes
    assert volume.credits_first_empty_s == pytest.approx(2000, rel=0.01)
    assert served(volume, 1000) == pytest.approx(3000, rel=0.005)
    assert served(volume, 2200) == pytest.approx(300, rel=0.005)


def test_gp2_without_credits_never_bursts_and_full_again_after_five_hours() -> None:
    phases = (LoadPhase(Seconds(3600.0), depth=32), LoadPhase(Seconds(5.5 * 3600), iops=0))
    load = plan(*phases, seconds=6.5 * 3600, credits=0.0)
    (volume,) = forecast(load, [device("gp2", 100 * GIB)], None).volumes
    busy, idle = volume.phases
    assert busy.served_iops == pytest.approx(300, rel=0.005)
    full = next(
        end_s
        for end_s, percent in zip(volume.series.end_s, volume.series.credits_percent, strict=True)
        if (percent or 0) > 99.9
    )
    assert full - idle.start_s == pytest.approx(GP2_CREDITS / 300, rel=0.01)


@pytest.mark.parametrize(("name", "base_mib", "burst_mib"), [("st1", 40, 250), ("sc1", 12, 80)])
def test_hdd_credits_last_for_a_tib_of_burst(name: str, base_mib: int, burst_mib: int) -> None:
    burst_s = TIB / ((burst_mib - base_mib) * MIB)
    asked = LoadPhase(Seconds(1e6), iops=1.5 * burst_mib)
    load = plan(asked, seconds=burst_s + 1200, request=MIB, sequential=True)
    (volume,) = forecast(load, [device(name, TIB)], None).volumes
    assert volume.credits_first_empty_s == pytest.approx(burst_s, rel=0.01)
    assert served(volume, burst_s / 2) == pytest.approx(burst_mib, rel=0.005)
    assert served(volume, burst_s + 900) == pytest.approx(base_mib, rel=0.005)
    assert volume.exceeded_s.volume_iops == 0


def test_a_stripe_of_gp2_has_each_members_credits() -> None:
    load = plan(LoadPhase(Seconds(3000.0), iops=12000), seconds=3000)
    (volume,) = forecast(load, [device("gp2", 100 * GIB, stripes=4)], None).volumes
    assert volume.credits_first_empty_s == pytest.approx(2000, rel=0.01)
    assert served(volume, 2800) == pytest.approx(1200, rel=0.005)


@pytest.mark.parametrize(("credits", "burst_s"), [(1.0, 1800.0), (0.5, 900.0), (None, 0.0)])
def test_the_hosts_half_hour(credits: float | None, burst_s: float) -> None:
    cap = HostCap(4000, 100 * MIB, 16000, 800 * MIB)
    fast = [device("gp3", 100 * GIB, name) for name in ("data", "bulk")]
    fast = [_faster(one) for one in fast]
    phase = (LoadPhase(Seconds(60.0), depth=128),)
    loads = tuple(SyntheticLoad(name, phase) for name in ("data", "bulk"))
    load = LoadPlan(loads, Seconds(3600.0), interval_s=Seconds(60.0), host_credits=credits)
    result = forecast(load, fast, cap)
    for volume in result.volumes:
        if burst_s:
            assert served(volume, burst_s / 2) == pytest.approx(8000, rel=0.005)
        assert served(volume, burst_s + 200) == pytest.approx(2000, rel=0.005)
        assert volume.exceeded_s.host_iops == pytest.approx(3600, rel=0.001)
    assert (result.host_credits.iops_percent[-1] is None) == (credits is None)


def _faster(one: Device) -> Device:
    from dataclasses import replace

    return replace(one, member=replace(one.member, iops=16000, bytes_per_second=1000 * MIB))


def test_a_day_of_sixteen_volumes_adds_up() -> None:
    devices = [device("gp2", 334 * GIB, f"v{index}") for index in range(16)]
    phases = tuple(
        LoadPhase(Seconds(hours * 3600), iops=iops) for hours, iops in ((16, 500), (8, 1400))
    )
    loads = tuple(SyntheticLoad(one.name, phases) for one in devices)
    result = forecast(LoadPlan(loads), devices, None)
    assert isinstance(result, Forecast)
    for volume in result.volumes:
        assert volume.offered == pytest.approx(3600 * (16 * 500 + 8 * 1400))
        assert volume.served <= volume.offered
        # 8 h at 1,400 over 1,002 need more than the bucket has.
        assert volume.credits_first_empty_s == pytest.approx(16 * 3600 + 5.4e6 / 398, rel=0.01)
        asked = sum(one.offered_iops * (one.end_s - one.start_s) for one in volume.phases)
        assert asked == pytest.approx(volume.offered)
        assert sum(volume.series.served_iops) * 300 == pytest.approx(volume.served)


def test_equal_seeds_are_equal_forecasts() -> None:
    load = plan(LoadPhase(Seconds(5.0), iops=4000), seconds=20, read_share=0.5)
    one, again, other = (
        forecast(load, [device("gp3", 100 * GIB)], None, seed=seed, exact=True)
        for seed in (1, 1, 2)
    )
    assert one == again != other


def test_a_volume_that_is_not_there_is_named() -> None:
    load = plan(LoadPhase(Seconds(1.0), iops=1), seconds=10)
    with pytest.raises(UserError, match="'data', which is not there; use one of: wal"):
        forecast(load, [device("gp3", GIB, "wal")], None)


GOOD = '[volumes.data]\nphases = [{ duration = "1h", iops = 10 }]\n'


def test_a_load_file_is_read_with_its_defaults() -> None:
    load = parse_load(GOOD + "reads = 0.5\ncredits = 0.25\n[host]\ncredits = 1.0", "x")
    (one,) = load.loads
    assert (one.request_bytes, one.read_share, one.credits) == (8192, 0.5, 0.25)
    assert (load.duration_s, load.step_s, load.host_credits) == (86400, 1, 1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("volumes = 3", "x: volumes: must be a table, not 3"),
        ("[volumes]", "the load names no volumes"),
        ("[volumes.data]\nphases = []", "it has no phases"),
        (GOOD + "colour = 1", "volumes.data.colour: unknown key"),
        (GOOD.replace("1h", "1 moon"), "phases[0].duration: '1 moon' is not a duration"),
        (GOOD.replace("iops = 10", "iops = -1"), "phases[0].iops: -1: input should be greater"),
        (GOOD.replace("iops = 10", "iops = 1, depth = 2"), "needs either iops or depth"),
        (GOOD + "reads = 2", "volumes.data.reads: 2: input should be less"),
        (GOOD + "reads = 0.5\nsequential = true", "0.5 of a sequential load reads"),
        ('step = "2d"\n' + GOOD, "the load's step is 172800 s"),
        ("volumes = [", "x: "),
    ],
)
def test_a_mistake_in_a_load_file_is_one_line(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_load(text, "x")
    message = str(caught.value)
    assert expected in message
    assert message.startswith("x: ")
    assert "\n" not in message
    assert caught.value.remedy


LAYOUT = """
[volumes.data]
type = "gp2"
size = "100GiB"
mount = "/mnt/data"
[postgres]
data = "data"
[host]
platform = "ec2"
"""


def test_the_command_says_when_credits_end(tmp_path: Path) -> None:
    layout, load = tmp_path / "layout.toml", tmp_path / "day.toml"
    layout.write_text(LAYOUT)
    phases = 'phases = [{ duration = "1h", iops = 20 }, { duration = "1h", depth = 32 }]'
    load.write_text(f'duration = "2h"\n[volumes.data]\n{phases}')
    arguments = ["emulate", "forecast", str(layout), "--load", str(load)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "credits end after 1 h 33 min" in shown.output
    assert "█" in shown.output
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    (volume,) = answer["volumes"]
    assert volume["credits_first_empty_s"] == pytest.approx(5600, rel=0.01)
    assert len(volume["series"]["end_s"]) == 24


def test_an_instances_own_disk_is_forecast_with_its_own_figures(tmp_path: Path) -> None:
    """Its reads and its writes apart, in steps and exactly."""
    layout, load = tmp_path / "layout.toml", tmp_path / "load.toml"
    layout.write_text(
        '[volumes.data]\ntype = "instance-store"\nsize = "1TiB"\nmount = "/data"\n'
        '[postgres]\ndata = "data"\n'
        '[host]\nplatform = "ec2"\nregion = "us-east-1"\ninstance = "i3en.large"\n'
    )
    host = HostSpec("ec2", "us-east-1", "i3en.large")
    speed = catalog.load().disk_speed(host)
    assert speed is not None and speed.read_iops > speed.write_iops

    def served_iops(read_share: float, *options: str) -> float:
        load.write_text(
            f'duration = "2s"\ninterval = "1s"\n[volumes.data]\nreads = {read_share}\n'
            'phases = [{ duration = "2s", depth = 256 }]'
        )
        arguments = ["emulate", "forecast", str(layout), "--load", str(load), "--json", *options]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        (volume,) = json.loads(done.output)["volumes"]
        return float(volume["series"]["served_iops"][-1])

    for options in ((), ("--exact",)):
        assert served_iops(1.0, *options) == pytest.approx(speed.read_iops, rel=0.05)
        assert served_iops(0.0, *options) == pytest.approx(speed.write_iops, rel=0.05)
