"""What emulated volumes have done, under the names that users know from EBS: pure.

CloudWatch's metrics are of an interval and so need two samples; the fields of the EBS NVMe log
page (0xD0, what ``nvme amzn stats`` and ``ebsnvme stats`` print) are sums since the volume was
made. docs/reference/emulator-statistics.md says how each is computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pgstow.emulate.control import Bin, ServerStatistics, VolumeCounters
from pgstow.model import Device

# A check is 1 where demand was beyond the limit for this share of the interval. CloudWatch says
# "consistently ... within the last minute" and no number: this one is ours.
EXCEEDED_SHARE = 0.5
UNITS: Mapping[str, str] = {
    "VolumeReadOps": "Count",
    "VolumeWriteOps": "Count",
    "VolumeReadBytes": "Bytes",
    "VolumeWriteBytes": "Bytes",
    "VolumeTotalReadTime": "Seconds",
    "VolumeTotalWriteTime": "Seconds",
    "VolumeIdleTime": "Seconds",
    "VolumeQueueLength": "Count",
    "VolumeThroughputPercentage": "Percent",
    "BurstBalance": "Percent",
    "VolumeIOPSExceededCheck": "None",
    "VolumeThroughputExceededCheck": "None",
    "InstanceEBSIOPSExceededCheck": "None",
    "InstanceEBSThroughputExceededCheck": "None",
    "VolumeStalledIOCheck": "None",
    "VolumeAvgReadLatency": "Milliseconds",
    "VolumeAvgWriteLatency": "Milliseconds",
    "VolumeAvgIOPS": "Count/Second",
    "VolumeAvgThroughput": "Bytes/Second",
}


# Answers later than both are the machine's doing and no longer the volume's; so is all that was
# answered while the server's one thread had no rest.
LATE_US = 100.0
LATE_SHARE = 0.1
BUSY_SHARE = 0.95
_FEWEST = 30  # answers, that their mean says anything


@dataclass(frozen=True, slots=True)
class VolumeMetrics:
    """CloudWatch's metrics of one volume over an interval; what it does not have is left out.

    ``late_us`` is by how much an answer came later than the model said, on average; None where
    nothing was answered.
    """

    name: str
    seconds: float
    metrics: Mapping[str, float]
    late_us: float | None = None
    is_limited_by_emulator: bool = False


def late_us(before: VolumeCounters, after: VolumeCounters) -> float | None:
    """By how much answers came later than the model said, on average; None: there were none."""
    answered = _answered(after) - _answered(before)
    if answered <= 0:
        return None
    return (after.late_us_total - before.late_us_total) / answered


def is_late(late_us: float | None, mean_us: float) -> bool:
    """Whether answers are so late, of ``mean_us`` in all, that they no longer show the volume."""
    return late_us is not None and late_us > LATE_US and late_us > LATE_SHARE * mean_us


def is_limited_by_emulator(before: ServerStatistics, after: ServerStatistics, volume: str) -> bool:
    """Whether what one volume did between two samples was limited by this machine.

    Then no figure of that time says anything of the volume: refuse it, or mark it.
    """
    past, present = before.find(volume), after.find(volume)
    if past is None or present is None:
        return False
    answered = _answered(present) - _answered(past)
    if answered < _FEWEST:
        return False
    took_us = _took_us(present) - _took_us(past)
    if is_late(late_us(past, present), took_us / answered):
        return True
    elapsed_us = (after.uptime_s - before.uptime_s) * 1e6
    return after.busy_us_total - before.busy_us_total >= BUSY_SHARE * elapsed_us


def _answered(volume: VolumeCounters) -> int:
    return volume.reads + volume.writes


def _took_us(volume: VolumeCounters) -> float:
    return volume.read_us_total + volume.write_us_total


def cloudwatch(
    before: VolumeCounters,
    after: VolumeCounters,
    seconds: float,
    device: Device,
    *,
    has_provisioned_iops: bool = False,
) -> VolumeMetrics:
    """The metrics of the ``seconds`` between two samples of one volume.

    ``has_provisioned_iops`` says that the type is io1 or io2, which alone have
    VolumeThroughputPercentage.
    """
    assert seconds > 0, "an interval has a length"
    reads, writes = after.reads - before.reads, after.writes - before.writes
    read_bytes = after.read_bytes - before.read_bytes
    write_bytes = after.write_bytes - before.write_bytes
    read_us = after.read_us_total - before.read_us_total
    write_us = after.write_us_total - before.write_us_total
    past, present = before.exceeded_us, after.exceeded_us
    metrics = {
        "VolumeReadOps": float(reads),
        "VolumeWriteOps": float(writes),
        "VolumeReadBytes": float(read_bytes),
        "VolumeWriteBytes": float(write_bytes),
        "VolumeTotalReadTime": read_us / 1e6,
        "VolumeTotalWriteTime": write_us / 1e6,
        "VolumeIdleTime": (after.idle_us_total - before.idle_us_total) / 1e6,
        "VolumeQueueLength": (after.queue_us_total - before.queue_us_total) / 1e6 / seconds,
        "VolumeIOPSExceededCheck": _check(present.volume_iops - past.volume_iops, seconds),
        "VolumeThroughputExceededCheck": _check(
            present.volume_throughput - past.volume_throughput, seconds
        ),
        "InstanceEBSIOPSExceededCheck": _check(present.instance_iops - past.instance_iops, seconds),
        "InstanceEBSThroughputExceededCheck": _check(
            present.instance_throughput - past.instance_throughput, seconds
        ),
        "VolumeStalledIOCheck": float(_is_stalled(before, after)),
        "VolumeAvgIOPS": (reads + writes) / seconds,
        "VolumeAvgThroughput": (read_bytes + write_bytes) / seconds,
    }
    if reads:
        metrics["VolumeAvgReadLatency"] = read_us / 1e3 / reads
    if writes:
        metrics["VolumeAvgWriteLatency"] = write_us / 1e3 / writes
    if after.burst_balance_percent is not None:
        metrics["BurstBalance"] = after.burst_balance_percent
    if has_provisioned_iops and device.iops is not None:
        metrics["VolumeThroughputPercentage"] = (reads + writes) / seconds / device.iops * 100
    return VolumeMetrics(after.name, seconds, metrics, late_us(before, after))


def _check(exceeded_us: float, seconds: float) -> float:
    return float(exceeded_us / 1e6 >= EXCEEDED_SHARE * seconds)


def _is_stalled(before: VolumeCounters, after: VolumeCounters) -> bool:
    """Whether requests waited throughout and none was done."""
    done = after.reads + after.writes + after.flushes
    is_waiting = before.queue_length > 0 and after.queue_length > 0
    return is_waiting and done == before.reads + before.writes + before.flushes


@dataclass(frozen=True, slots=True)
class LogPage:
    """The EBS NVMe log page of one volume: sums since it was made; times in microseconds."""

    name: str
    total_read_ops: int
    total_write_ops: int
    total_read_bytes: int
    total_write_bytes: int
    total_read_time: float
    total_write_time: float
    ebs_volume_performance_exceeded_iops: float
    ebs_volume_performance_exceeded_tp: float
    ec2_instance_ebs_performance_exceeded_iops: float
    ec2_instance_ebs_performance_exceeded_tp: float
    volume_queue_length: int
    read_io_latency_histogram: tuple[Bin, ...]
    write_io_latency_histogram: tuple[Bin, ...]
    # Beyond the log page: percentiles, and by how much answers came later than the model said.
    read_us_p50: float | None = None
    read_us_p99: float | None = None
    write_us_p50: float | None = None
    write_us_p99: float | None = None
    late_us_total: float = 0.0

    @property
    def late_us_mean(self) -> float | None:
        """By how much an answer came later than the model said; None: there were none."""
        answered = self.total_read_ops + self.total_write_ops
        return self.late_us_total / answered if answered else None


def log_page(counters: VolumeCounters) -> LogPage:
    """The counters under the log page's names."""
    exceeded = counters.exceeded_us
    return LogPage(
        name=counters.name,
        total_read_ops=counters.reads,
        total_write_ops=counters.writes,
        total_read_bytes=counters.read_bytes,
        total_write_bytes=counters.write_bytes,
        total_read_time=counters.read_us_total,
        total_write_time=counters.write_us_total,
        ebs_volume_performance_exceeded_iops=exceeded.volume_iops,
        ebs_volume_performance_exceeded_tp=exceeded.volume_throughput,
        ec2_instance_ebs_performance_exceeded_iops=exceeded.instance_iops,
        ec2_instance_ebs_performance_exceeded_tp=exceeded.instance_throughput,
        volume_queue_length=counters.queue_length,
        read_io_latency_histogram=counters.read_latency_histogram,
        write_io_latency_histogram=counters.write_latency_histogram,
        read_us_p50=percentile_us(counters.read_latency_parts, 0.5),
        read_us_p99=percentile_us(counters.read_latency_parts, 0.99),
        write_us_p50=percentile_us(counters.write_latency_parts, 0.5),
        write_us_p99=percentile_us(counters.write_latency_parts, 0.99),
        late_us_total=counters.late_us_total,
    )


def percentile_us(parts: tuple[tuple[float, float, int], ...], share: float) -> float | None:
    """The latency that ``share`` of the requests stayed below, evenly spread within each part.

    None where there was no request. A part is a 32nd of its beginning wide.

    >>> percentile_us(((1024, 32, 3), (2048, 64, 1)), 0.5)
    1045.3333333333333
    """
    left = share * sum(count for _, _, count in parts)
    for low_us, width_us, count in parts:
        if count and left <= count:
            return low_us + width_us * left / count
        left -= count
    return None
