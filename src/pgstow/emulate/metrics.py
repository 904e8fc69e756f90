"""The emulator's statistics by HTTP on loopback: Prometheus's text format, and JSON."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from pgstow.emulate.control import Bin, ServerStatistics, VolumeCounters
from pgstow.emulate.statistics import log_page
from pgstow.model import Device
from pgstow.model.errors import HostError

LOOPBACK = "127.0.0.1"
Source = Callable[[], ServerStatistics]
Devices = Callable[[], Iterable[Device]]


def exposition(statistics: ServerStatistics, devices: Iterable[Device] = ()) -> bytes:
    """The statistics in Prometheus's text format, with what the volumes are provisioned for."""
    registry = CollectorRegistry()
    registry.register(_Collector(statistics, devices))
    return generate_latest(registry)


class _Collector:
    def __init__(self, statistics: ServerStatistics, devices: Iterable[Device]) -> None:
        self._statistics = statistics
        self._devices = devices

    def collect(self) -> Iterable[Metric]:
        volumes = self._statistics.volumes
        for name, text, value in _COUNTERS:
            family = CounterMetricFamily(f"pgstow_volume_{name}", text, labels=["volume"])
            for volume in volumes:
                family.add_metric([volume.name], value(volume))
            yield family
        yield _exceeded(volumes)
        yield from _gauges(volumes)
        yield from _limits(self._devices)
        yield CounterMetricFamily(
            "pgstow_emulator_busy_seconds",
            "Time in which the thread that answers for all volumes had something to do.",
            value=self._statistics.busy_us_total / 1e6,
        )
        yield _histogram("read", volumes, lambda volume: volume.read_latency_histogram)
        yield _histogram("write", volumes, lambda volume: volume.write_latency_histogram)


_COUNTERS: tuple[tuple[str, str, Callable[[VolumeCounters], float]], ...] = (
    ("read_ops", "Reads that were answered.", lambda v: v.reads),
    ("write_ops", "Writes that were answered.", lambda v: v.writes),
    ("flush_ops", "Flushes that were answered.", lambda v: v.flushes),
    ("read_bytes", "Bytes read.", lambda v: v.read_bytes),
    ("write_bytes", "Bytes written.", lambda v: v.write_bytes),
    ("idle_seconds", "Time in which nothing waited.", lambda v: v.idle_us_total / 1e6),
    (
        "queue_seconds",
        "Requests waiting, times the time they waited.",
        lambda v: v.queue_us_total / 1e6,
    ),
    (
        "late_seconds",
        "By how much answers came later than the volume's own: this machine's part.",
        lambda v: v.late_us_total / 1e6,
    ),
)


def _exceeded(volumes: Iterable[VolumeCounters]) -> Metric:
    text = "Time in which demand was beyond a limit of the volume or of its instance."
    family = CounterMetricFamily("pgstow_volume_exceeded_seconds", text, labels=["volume", "limit"])
    for volume in volumes:
        for limit, microseconds in asdict(volume.exceeded_us).items():
            family.add_metric([volume.name, limit], microseconds / 1e6)
    return family


def _gauges(volumes: Iterable[VolumeCounters]) -> Iterable[Metric]:
    queue = GaugeMetricFamily(
        "pgstow_volume_queue_length", "Requests waiting now.", labels=["volume"]
    )
    burst = GaugeMetricFamily(
        "pgstow_volume_burst_balance_ratio",
        "What is left of the burst credits, from 0 to 1.",
        labels=["volume"],
    )
    for volume in volumes:
        queue.add_metric([volume.name], volume.queue_length)
        if volume.burst_balance_percent is not None:
            burst.add_metric([volume.name], volume.burst_balance_percent / 100)
    return (queue, burst)


def _limits(devices: Iterable[Device]) -> Iterable[Metric]:
    """What the volumes may do; one without a limit has no sample."""
    iops = GaugeMetricFamily(
        "pgstow_volume_limit_iops", "Operations a second, sustained.", labels=["volume"]
    )
    rate = GaugeMetricFamily(
        "pgstow_volume_limit_bytes_per_second", "Bytes a second, sustained.", labels=["volume"]
    )
    for device in devices:
        if device.iops is not None:
            iops.add_metric([device.name], device.iops)
        if device.bytes_per_second is not None:
            rate.add_metric([device.name], device.bytes_per_second)
    return (iops, rate)


def _histogram(
    kind: str,
    volumes: Iterable[VolumeCounters],
    bins_of: Callable[[VolumeCounters], tuple[Bin, ...]],
) -> Metric:
    family = HistogramMetricFamily(
        f"pgstow_volume_{kind}_latency_seconds",
        f"From when a {kind} came to when it was answered.",
        labels=["volume"],
    )
    for volume in volumes:
        total, buckets = 0, []
        for one in bins_of(volume):
            total += one.count
            if one.high_us is not None:
                buckets.append((repr(one.high_us / 1e6), float(total)))
        took_us = volume.read_us_total if kind == "read" else volume.write_us_total
        family.add_metric([volume.name], [*buckets, ("+Inf", float(total))], took_us / 1e6)
    return family


def start(source: Source, port: int, devices: Devices = tuple) -> int:
    """Answer on loopback from a thread of its own; the answer is the port, also where 0 was asked.

    Raises HostError where the port cannot be had.
    """
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(source, devices))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostError(
            f"port {port} of {LOOPBACK} cannot be had for metrics: {reason}",
            "choose another; 0 takes any that is free",
        ) from error
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_address[1])


def _handler(source: Source, devices: Devices) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            """Answer as to GET, without the body."""
            self.do_GET()

        def do_GET(self) -> None:
            """Answer /metrics and /stats.json."""
            if self.path not in ("/metrics", "/stats.json"):
                self.send_error(404, "try /metrics or /stats.json")
                return
            try:
                statistics, present = source(), tuple(devices())
            except HostError as error:
                self.send_error(503, error.message)
                return
            if self.path == "/metrics":
                self._answer(CONTENT_TYPE_LATEST, exposition(statistics, present))
            else:
                pages = [asdict(log_page(volume)) for volume in statistics.volumes]
                self._answer("application/json", json.dumps(pages).encode())

        def _answer(self, content_type: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: each scrape would be a line in the server's log."""

    return Handler
