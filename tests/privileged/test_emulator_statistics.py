"""What emulated volumes say they have done, against what was done."""

import mmap
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pgstow import emulate
from pgstow.emulate import watch
from pgstow.emulate.control import Control
from pgstow.emulate.statistics import VolumeMetrics, log_page
from pgstow.model import HostCap, HostError, Latency, UserError
from pgstow.prediction.replay import replay
from pgstow.trace_file import read_recording
from pgstow.units import GIB, MIB

Fio = Callable[..., dict[str, Any]]
BLOCK = 8192


@contextmanager
def busy(fio: Fio, mount: Path, seconds: float, **options: Any) -> Iterator[None]:
    """A load on a volume's file, under way."""
    arguments = {"seconds": seconds, "bs": "8k", "ramp_time": 0, **options}
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(fio, mount, **arguments)
        yield
        load.result()


def prepare(emulator: Any, name: str) -> Path:
    """Write fio's file while the limits are off."""
    emulate.set_limits(emulator.state, False)
    with (emulator.mount(name) / "fio.dat").open("wb") as file:
        for _ in range(128):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    emulate.set_limits(emulator.state, True)
    return emulator.mount(name)


def interval(state: Path, seconds: float) -> dict[str, VolumeMetrics]:
    """The metrics of one interval, by volume."""
    (metrics,) = list(watch.watch(state, seconds, 1))
    return {volume.name: volume for volume in metrics}


def test_what_a_loop_device_did_before_is_not_late(emulator: Any, fio: Fio) -> None:
    emulator.want("data")
    emulator.up()
    fio(prepare(emulator, "data"), seconds=2.0, bs="8k", ramp_time=0, rw="randread", iodepth=32)
    emulate.down(emulator.state)
    emulator.up()
    (volume,) = emulate.read_status(emulator.state).volumes
    assert volume.late_us_mean is not None
    assert volume.late_us_mean < 20_000  # each of 32 at once waited for some 10 ms, before


def test_requests_and_bytes_are_counted(emulator: Any) -> None:
    emulator.want("data")
    device = Path(emulator.up().volumes[0].loop_device)
    before = watch.read_statistics(emulator.state).volumes[0]
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        with mmap.mmap(-1, BLOCK) as buffer:
            for block in range(10):
                os.preadv(descriptor, [buffer], block * 512 * BLOCK)
            for block in range(5):
                os.pwritev(descriptor, [buffer], block * 512 * BLOCK + 256 * MIB)
        os.fsync(file.fileno())
    after = watch.read_statistics(emulator.state).volumes[0]
    assert after.reads - before.reads == 10
    assert after.read_bytes - before.read_bytes == 10 * BLOCK
    assert after.writes - before.writes == 5
    assert after.write_bytes - before.write_bytes == 5 * BLOCK
    page = log_page(after)
    assert sum(one.count for one in page.read_io_latency_histogram) == after.reads
    assert sum(one.count for one in page.write_io_latency_histogram) == after.writes
    assert page.volume_queue_length == 0


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_only_what_has_a_volatile_cache_is_sent_flushes(emulator: Any, filesystem: str) -> None:
    emulator.want("none", volume={"filesystem": filesystem})
    emulator.want("some", volume={"filesystem": filesystem})
    volume, device = emulator.volumes["some"]
    emulator.volumes["some"] = volume, replace(device, has_volatile_cache=True)
    emulator.up()

    def flushes(name: str) -> int:
        before = watch.read_statistics(emulator.state).find(name)
        with (emulator.mount(name) / "synced").open("wb") as file:
            for _ in range(20):
                file.write(b"x" * BLOCK)
                file.flush()
                os.fdatasync(file.fileno())
        after = watch.read_statistics(emulator.state).find(name)
        assert after.writes - before.writes >= 20
        return int(after.flushes - before.flushes)

    assert flushes("none") == 0
    assert flushes("some") >= 20
    emulate.set_volatile(emulator.state, True)
    assert flushes("none") >= 20
    emulate.set_volatile(emulator.state, False)
    assert flushes("none") == 0
    assert flushes("some") >= 20
    if filesystem == "xfs":  # ext4 asks for a privilege to grow
        emulator.want("none", volume={"filesystem": filesystem, "size_bytes": 2 * GIB})
        emulator.up()
        assert flushes("none") == 0


def test_a_loop_device_is_left_with_flushes_for_its_next_user(emulator: Any) -> None:
    """The kernel keeps the switch with the device's number, whatever file is behind it next."""
    emulator.want("data")
    loop = Path("/sys/block", Path(emulator.up().volumes[0].loop_device).name)
    assert (loop / "queue/write_cache").read_text() == "write through\n"
    emulate.down(emulator.state)
    assert (loop / "queue/write_cache").read_text() == "write back\n"


@pytest.mark.alone
def test_a_check_is_one_beyond_a_limit_and_zero_within(emulator: Any, fio: Fio) -> None:
    emulator.want("data", iops=1000.0)
    emulator.want("idle", iops=1000.0)
    emulator.up()
    mount = prepare(emulator, "data")
    with busy(fio, mount, 3, rw="randread", iodepth=16):
        time.sleep(0.5)
        found = interval(emulator.state, 1.5)
    metrics = found["data"].metrics
    assert metrics["VolumeIOPSExceededCheck"] == 1
    assert metrics["VolumeThroughputExceededCheck"] == 0
    assert metrics["InstanceEBSIOPSExceededCheck"] == 0
    assert metrics["VolumeQueueLength"] == pytest.approx(16, abs=4)
    assert metrics["VolumeAvgIOPS"] < 1100
    idle = found["idle"].metrics
    assert idle["VolumeIdleTime"] == pytest.approx(found["idle"].seconds)
    assert idle["VolumeIOPSExceededCheck"] == 0
    with busy(fio, mount, 3, rw="randread", iodepth=1, rate_iops=100):
        time.sleep(0.5)
        within = interval(emulator.state, 1.5)["data"].metrics
    assert within["VolumeIOPSExceededCheck"] == 0
    assert within["VolumeAvgIOPS"] > 10


@pytest.mark.alone
def test_the_hosts_limit_is_told_from_the_volumes(emulator: Any, fio: Fio) -> None:
    emulator.want("data", iops=5000.0)
    emulator.cap = HostCap(1000.0, None)
    emulator.up()
    mount = prepare(emulator, "data")
    with busy(fio, mount, 3, rw="randread", iodepth=16):
        time.sleep(0.5)
        metrics = interval(emulator.state, 1.5)["data"].metrics
    assert metrics["InstanceEBSIOPSExceededCheck"] == 1
    assert metrics["VolumeIOPSExceededCheck"] == 0


def test_prometheus_is_served_while_the_server_lives(emulator: Any) -> None:
    emulator.want("data")
    port = emulator.up(metrics_port=0).metrics_port
    assert port
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url) as answer:
        families = {one.name for one in text_string_to_metric_families(answer.read().decode())}
    assert {"pgstow_volume_read_ops", "pgstow_volume_write_latency_seconds"} <= families
    assert emulator.up(metrics_port=0).metrics_port == port
    with pytest.raises(UserError, match=f"metrics on port {port}"):
        emulator.up(metrics_port=port + 1 if port < 65535 else 1)


@pytest.mark.alone
@pytest.mark.parametrize("depth", [1, 32])
def test_a_recording_run_again_in_virtual_time_takes_as_long(
    emulator: Any, fio: Fio, tmp_path: Path, depth: int
) -> None:
    emulator.want("data", iops=3000.0)
    emulator.up()
    mount = prepare(emulator, "data")
    trace = tmp_path / "trace.csv"
    watch.start_recording(emulator.state, trace)
    with pytest.raises(HostError, match="under way"):
        watch.start_recording(emulator.state, tmp_path / "other.csv")
    fio(mount, seconds=4, ramp_time=0, rw="randrw", rwmixread=70, bs="8k", iodepth=depth)
    recorded = watch.stop_recording(emulator.state)
    assert recorded.path == trace
    assert recorded.dropped == 0
    assert len(trace.read_text().splitlines()) == recorded.records + 1
    about = read_recording(trace)
    assert about.compensation == asdict(Control(emulator.directory.control).status().compensation)
    result = replay(
        trace,
        about.initial_devices(),
        about.initial_host(),
        compensation=about.compensation,
        seed=7,
    )
    kinds = {kind.kind: kind for kind in result.volumes[0].kinds}
    for kind in ("read", "write"):
        assert kinds[kind].recorded.count > 100
        before, again = kinds[kind].recorded, kinds[kind].replayed
        # one pause of the machine makes another mean
        assert again.p50_us == pytest.approx(before.p50_us, rel=0.15)


def test_what_this_machine_cannot_answer_is_said_beforehand(emulator: Any) -> None:
    emulator.want("data", iops=10_000_000.0)
    status = emulator.up(calibrate=True)
    (warning,) = [one for one in status.warnings if one.code == "beyond-this-machine"]
    assert "10,000,000 IOPS" in warning.message
    reachable = emulator.directory.read().reachable_iops
    assert 1000 < reachable < 1_000_000
    emulator.want("data", iops=100.0)
    assert "beyond-this-machine" not in [one.code for one in emulator.up().warnings]


def test_beyond_the_machine_the_emulator_says_that_it_is_the_limit(emulator: Any, fio: Fio) -> None:
    emulator.want("data", latency=Latency(1, 1, 1, 1))
    emulator.up()
    mount = prepare(emulator, "data")
    with busy(fio, mount, 4, rw="randread", iodepth=256, numjobs=2):
        time.sleep(1)
        found = interval(emulator.state, 2)["data"]
    assert found.is_limited_by_emulator, found
    assert found.late_us is not None
