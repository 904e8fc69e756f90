"""Candidate volumes: what a plan may buy or keep, with size and performance still open."""

import math
from dataclasses import dataclass, replace

from pgstow.model import Volume
from pgstow.prediction import HostOverhead
from pgstow.rules import VolumeRules
from pgstow.units import GIB

_Z99 = 2.326347874040841  # standard normal quantile of 0.99


@dataclass(frozen=True, slots=True)
class CandidateVolume:
    """A type with its number of stripes. The rules are of one member; latencies are means."""

    key: str
    rules: VolumeRules
    stripes: int
    read_us: float
    write_us: float
    read_us_p99: float
    write_us_p99: float
    random_io_bytes: int = 8192  # what a random 8 KiB I/O counts against throughput (HDD: 1 MiB)
    is_ephemeral: bool = False
    is_hdd: bool = False
    existing: Volume | None = None
    holds_gib: float | None = None  # what the existing volume stores; None: not known
    name: str | None = None  # of a new volume that a pin names
    annual_failure_rate: float | None = None  # of the whole array; None: not known
    is_for_wal: bool = False  # it holds the WAL and nothing else
    goes_with: tuple[str, ...] = ()  # the types that the data must be on; empty: any

    @property
    def type(self) -> str:
        """The volume type."""
        return self.rules.type

    @property
    def min_gib(self) -> float:
        """The least size of the whole array."""
        return (self.rules.min_bytes or 0) / GIB * self.stripes

    @property
    def max_gib(self) -> float:
        """The largest size of the whole array; without a limit, one that never binds."""
        most = self.rules.max_bytes
        return (65_536.0 if most is None else most / GIB) * self.stripes

    @property
    def is_iops_provisioned(self) -> bool:
        """False: the IOPS follow from the type and its size."""
        return self.rules.iops.is_provisioned

    @property
    def usd_per_gib(self) -> float:
        """The price of one more GiB."""
        return self.rules.usd_per_gib

    @property
    def usd_per_iops(self) -> float:
        """The price of one more IOPS that is bought, in the first tier."""
        return self.rules.usd_per_iops

    @property
    def usd_per_mibps(self) -> float:
        """The price of one more MiB/s that is bought."""
        return self.rules.usd_per_mibps

    def on(self, host: HostOverhead) -> "CandidateVolume":
        """With what the host adds, as measured, to a read and to a flush of the WAL: all that a
        transaction waits for."""
        flush_us = self.write_us + host.wal_sync_us + host.handover_us
        read_us = self.read_us + host.read_us
        if not self.is_hdd:
            read_us = later_mean(self.read_us, self.read_us_p99, host.read_us)
        return replace(self, read_us=read_us, write_us=flush_us)

    def kept_gib(self, free_space: float) -> float:
        """How much an existing volume that keeps its size may hold: a plan leaves space free on
        what it buys, and fills no volume further that is fuller already. 0: as a new one."""
        if self.existing is None or self.holds_gib is None:
            return 0.0
        held = self.existing.size_bytes / GIB * self.stripes
        is_fuller = (1 - free_space) * held < self.holds_gib <= held
        return self.holds_gib if is_fuller else 0.0

    @property
    def label(self) -> str:
        """What messages call it."""
        text = f"{self.stripes} × {self.type}" if self.stripes > 1 else self.type
        if self.existing:
            return f"{self.existing.name} ({text})"
        return f"{self.name} (a new {text})" if self.name else f"a new {text}"


def later_mean(mean: float, p99: float, by: float) -> float:
    """The mean of a log-normal latency when its median and 99th percentile both grow by so much.

    That is what the simulator draws from: a little less than the sum, as the tail gets shorter.

    >>> round(later_mean(1000.0, 1500.0, 0.0)), round(later_mean(1000.0, 3000.0, 500.0))
    (1000, 1484)
    """
    squared = _Z99**2 - 2 * math.log(p99 / mean) if p99 > mean > 0 else -1.0
    if squared < 0:
        return mean + by
    sigma = _Z99 - math.sqrt(squared)
    median = mean * math.exp(-(sigma**2) / 2) + by
    return median * math.exp((math.log((p99 + by) / median) / _Z99) ** 2 / 2)
