"""Shapes: the kinds of volume a plan may buy or keep, with size and performance still open."""

from dataclasses import dataclass, replace

from pgstow.model import Volume
from pgstow.prediction import HostOverhead


@dataclass(frozen=True, slots=True)
class Shape:
    """A type with its number of stripes. All limits and sizes are of the whole array.

    IOPS may be up to ``max_iops`` and up to ``iops_per_gib`` × size; ``included_iops`` are there at
    once. Throughput likewise, up to ``bytes_per_s_per_iops`` × IOPS. Latencies are means.
    """

    key: str
    type: str
    stripes: int
    min_gib: float
    max_gib: float
    included_iops: float
    paid_iops_from: float  # above these each costs usd_per_iops; io1 and io2 have none free
    max_iops: float
    iops_per_gib: float | None  # None: no ratio binds
    is_iops_provisioned: bool  # False: the type's IOPS follow from its size
    included_bytes_per_s: float
    max_bytes_per_s: float
    bytes_per_s_per_gib: float | None
    bytes_per_s_per_iops: float | None
    is_throughput_provisioned: bool
    usd_per_gib: float
    usd_per_iops: float
    usd_per_mibps: float
    read_us: float
    write_us: float
    read_us_p99: float
    write_us_p99: float
    random_io_bytes: int = 8192  # what a random 8 KiB I/O counts against throughput (HDD: 1 MiB)
    is_ephemeral: bool = False
    is_hdd: bool = False
    existing: Volume | None = None
    name: str | None = None  # of a new volume whose name is wanted
    annual_failure_rate: float | None = None  # of the whole array; None: not known
    is_for_wal: bool = False  # it holds the WAL and nothing else
    goes_with: tuple[str, ...] = ()  # the types that the data must be on; empty: any

    def on(self, host: HostOverhead) -> "Shape":
        """With what a host was measured to add: to a read, and to a flush of the WAL, which are all
        that a transaction waits for."""
        flush_us = self.write_us + host.wal_sync_us + host.handover_us
        return replace(self, read_us=self.read_us + host.read_us, write_us=flush_us)

    @property
    def label(self) -> str:
        """As a person would say it."""
        text = f"{self.stripes} × {self.type}" if self.stripes > 1 else self.type
        if self.existing:
            return f"{self.existing.name} ({text})"
        return f"{self.name} (a new {text})" if self.name else f"a new {text}"
