"""CloudWatch's metrics and the NVMe log page, out of the server's counters."""

import json
import socket
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pgstow.emulate import metrics, statistics
from pgstow.emulate.control import (
    Bin,
    Compensation,
    ExceededUs,
    ServerStatistics,
    VolumeCounters,
)
from pgstow.emulate.lateness import way_us
from pgstow.emulate.status import total_limit_iops
from pgstow.model import Burst, Device, HostCap, Latency, Member
from pgstow.model.errors import HostError
from pgstow.units import Bytes

DEVICE = Device(
    name="data",
    size_bytes=Bytes(1 << 30),
    stripes=2,
    chunk_bytes=Bytes(65536),
    member=Member(1500.0, None, 262144, Latency(500.0, 900.0, 600.0, 900.0)),
)
NOTHING = VolumeCounters(
    name="data",
    reads=0,
    writes=0,
    flushes=0,
    read_bytes=0,
    write_bytes=0,
    read_us_total=0.0,
    write_us_total=0.0,
    idle_us_total=0.0,
    queue_length=0,
    queue_us_total=0.0,
    exceeded_us=ExceededUs(0.0, 0.0, 0.0, 0.0),
    read_latency_histogram=(),
    write_latency_histogram=(),
    burst_balance_percent=None,
)
BUSY = replace(
    NOTHING,
    reads=6000,
    writes=3000,
    flushes=10,
    read_bytes=6000 * 8192,
    write_bytes=3000 * 8192,
    read_us_total=6000 * 700.0,
    write_us_total=3000 * 900.0,
    idle_us_total=1_000_000.0,
    queue_length=4,
    queue_us_total=6_900_000.0,
    exceeded_us=ExceededUs(1_500_000.0, 1_400_000.0, 3_000_000.0, 0.0),
    read_latency_histogram=(Bin(256, 512, 1000), Bin(512, 1024, 5000)),
    write_latency_histogram=(Bin(512, 1024, 2999), Bin(1024, None, 1)),
    burst_balance_percent=42.0,
)


def test_metrics_are_of_the_interval() -> None:
    found = statistics.cloudwatch(NOTHING, BUSY, 3.0, DEVICE, has_provisioned_iops=True)
    assert found.seconds == 3.0
    assert found.metrics == pytest.approx(
        {
            "VolumeReadOps": 6000,
            "VolumeWriteOps": 3000,
            "VolumeReadBytes": 6000 * 8192,
            "VolumeWriteBytes": 3000 * 8192,
            "VolumeTotalReadTime": 4.2,
            "VolumeTotalWriteTime": 2.7,
            "VolumeIdleTime": 1.0,
            "VolumeQueueLength": 2.3,
            "VolumeThroughputPercentage": 100.0,
            "BurstBalance": 42.0,
            "VolumeIOPSExceededCheck": 1,
            "VolumeThroughputExceededCheck": 0,
            "InstanceEBSIOPSExceededCheck": 1,
            "InstanceEBSThroughputExceededCheck": 0,
            "VolumeStalledIOCheck": 0,
            "VolumeAvgReadLatency": 0.7,
            "VolumeAvgWriteLatency": 0.9,
            "VolumeAvgIOPS": 3000,
            "VolumeAvgThroughput": 3000 * 8192,
        }
    )
    assert set(found.metrics) == set(statistics.UNITS)


def test_what_a_volume_does_not_have_is_left_out() -> None:
    found = statistics.cloudwatch(BUSY, BUSY, 1.0, DEVICE).metrics
    assert "VolumeThroughputPercentage" not in found
    assert "VolumeAvgReadLatency" not in found
    assert found["VolumeStalledIOCheck"] == 1  # four wait, and nothing was done
    assert "BurstBalance" not in statistics.cloudwatch(NOTHING, NOTHING, 1.0, DEVICE).metrics


def test_percentiles_lie_in_their_bin() -> None:
    assert statistics.percentile_us((), 0.5) is None
    parts = ((256.0, 8.0, 1000), (512.0, 16.0, 5000), (5248.0, 128.0, 1))
    assert statistics.percentile_us(parts, 0.5) == 512 + 16 * 2000.5 / 5000
    assert statistics.percentile_us(parts, 1.0) == 5376


def sampled(*volumes: VolumeCounters, at_s: float, busy_s: float = 0.0) -> ServerStatistics:
    return ServerStatistics(at_s, volumes, busy_s * 1e6)


def test_late_answers_are_the_emulators_and_not_the_volumes() -> None:
    before = sampled(NOTHING, at_s=10.0, busy_s=1.0)

    def limited(late_us: float, took_us: float, busy_s: float = 0.1) -> bool:
        present = replace(NOTHING, reads=1000, read_us_total=1000 * took_us)
        present = replace(present, late_us_total=1000 * late_us)
        after = sampled(present, at_s=20.0, busy_s=1.0 + busy_s)
        return statistics.is_limited_by_emulator(before, after, "data")

    assert not limited(50.0, 700.0)  # a busy machine's jitter
    assert not limited(150.0, 5000.0)  # a small part of a long wait
    assert limited(150.0, 900.0)
    assert limited(0.0, 4000.0, busy_s=9.8)  # nothing is late, but all waits to be taken in
    assert not statistics.is_limited_by_emulator(before, sampled(NOTHING, at_s=20.0), "data")
    assert not statistics.is_limited_by_emulator(before, before, "gone")
    assert statistics.late_us(NOTHING, replace(BUSY, late_us_total=9000.0)) == 1.0
    assert statistics.late_us(NOTHING, NOTHING) is None


def test_the_way_to_the_server_is_late_beyond_what_is_made_up_for() -> None:
    made_up = Compensation(100.0, 50.0)
    done = replace(NOTHING, reads=10, writes=20, read_us_total=5000.0, write_us_total=6000.0)
    assert way_us(done, 13_000.0, made_up) == 0
    assert way_us(done, 12_900.0, made_up) == 0  # the kernel rounds
    assert way_us(done, 43_000.0, made_up) == 30_000.0


def test_the_most_that_volumes_may_do_at_once() -> None:
    local = replace(DEVICE, uses_host_cap=False)
    assert total_limit_iops([DEVICE, local], None) == 6000
    assert total_limit_iops([DEVICE, local], HostCap(1000, None)) == 4000
    assert (
        total_limit_iops([DEVICE], HostCap(1000, None, burst_iops=2000, burst_initial=0.5)) == 2000
    )
    unlimited = replace(DEVICE, member=replace(DEVICE.member, iops=None))
    assert total_limit_iops([DEVICE, unlimited], None) is None
    burst = Burst("iops", 1e6, 1500, 3000)
    assert (
        total_limit_iops([replace(DEVICE, member=replace(DEVICE.member, burst=burst))], None)
        == 6000
    )


def test_prometheus_reads_the_exposition() -> None:
    late = replace(BUSY, late_us_total=2_500_000.0)
    found = ServerStatistics(3.0, (late, replace(NOTHING, name="wal")), 1_500_000.0)
    text = metrics.exposition(found, [DEVICE]).decode()
    assert 'pgstow_volume_limit_iops{volume="data"} 3000.0' in text
    assert "pgstow_volume_limit_bytes_per_second{" not in text  # it has no such limit
    assert 'pgstow_volume_late_seconds_total{volume="data"} 2.5' in text
    assert "pgstow_emulator_busy_seconds_total 1.5" in text
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    data = (("volume", "data"),)
    assert samples["pgstow_volume_read_ops_total", data] == 6000
    assert samples["pgstow_volume_burst_balance_ratio", data] == 0.42
    assert ("pgstow_volume_burst_balance_ratio", (("volume", "wal"),)) not in samples
    limit = (("limit", "instance_iops"), ("volume", "data"))
    assert samples["pgstow_volume_exceeded_seconds_total", limit] == 3.0
    bucket = (("le", "0.000512"), ("volume", "data"))
    assert samples["pgstow_volume_read_latency_seconds_bucket", bucket] == 1000
    assert samples["pgstow_volume_write_latency_seconds_count", data] == 3000
    assert samples["pgstow_volume_write_latency_seconds_sum", data] == pytest.approx(2.7)


def test_statistics_are_served_on_loopback_alone() -> None:
    port = metrics.start(lambda: ServerStatistics(3.0, (BUSY,)), 0)
    base = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{base}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert b'pgstow_volume_read_ops_total{volume="data"} 6000.0' in answer.read()
    head = urllib.request.Request(f"{base}/metrics", method="HEAD")
    with urllib.request.urlopen(head) as answer:
        assert int(answer.headers["Content-Length"]) > 0
        assert answer.read() == b""
    with urllib.request.urlopen(f"{base}/stats.json") as answer:
        assert json.load(answer)[0]["ebs_volume_performance_exceeded_iops"] == 1_500_000.0
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{base}/")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(f"{base}/metrics", data=b"x")
    with pytest.raises(HostError, match=f"port {port} of 127.0.0.1 cannot be had"):
        metrics.start(lambda: ServerStatistics(3.0, ()), port)
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "::1"}:
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=1):
            pass


def test_a_server_that_is_gone_is_said_to_be() -> None:
    def gone() -> ServerStatistics:
        raise HostError("the emulator's server does not answer")

    port = metrics.start(gone, 0)
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
