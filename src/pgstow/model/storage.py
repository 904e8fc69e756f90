"""Layouts: the volumes there are and what lies on them."""

import re
from dataclasses import dataclass, field
from typing import Literal, Self

from pgstow.model.errors import LayoutError
from pgstow.units import KIB, Bytes, BytesPerSecond, Iops

Platform = Literal["ec2", "rds", "gce", "azure", "local"]
Filesystem = Literal["xfs", "ext4"]
DEFAULT_TABLESPACE = "pg_default"
DEFAULT_CHUNK_BYTES = Bytes(64 * KIB)


@dataclass(frozen=True, slots=True, order=True)
class RelationId:
    """A relation's full name, as ``database.schema.name``."""

    database: str
    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a dotted name; parts with other than plain characters stand in double quotes.

        >>> RelationId.parse('shop.public."odd name"').name
        'odd name'
        """
        parts = re.findall(r'"((?:[^"]|"")+)"|([^".]+)', text, flags=re.DOTALL)
        names = [quoted.replace('""', '"') if quoted else plain for quoted, plain in parts]
        if len(names) != 3 or text not in (str(cls(*names)), ".".join(names)):
            raise LayoutError(
                f"relation {text!r} is not database.schema.name",
                'write it like shop.public.orders, or shop.public."odd name"',
            )
        return cls(*names)

    def __str__(self) -> str:
        return ".".join(_quoted(part) for part in (self.database, self.schema, self.name))


def _quoted(identifier: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", identifier):
        return identifier
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Volume:
    """A provisioned volume. Size, IOPS and throughput are those of ONE member of the stripe.

    ``iops`` and ``throughput`` of ``None`` mean what the type gives for the size by itself.
    ``mount`` is where its filesystem is, or is to be, mounted.
    """

    name: str
    type: str
    size_bytes: Bytes
    mount: str
    iops: Iops | None = None
    throughput: BytesPerSecond | None = None
    stripes: int = 1
    chunk_bytes: Bytes = DEFAULT_CHUNK_BYTES
    filesystem: Filesystem = "xfs"
    mkfs_options: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ("noatime",)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,30}", self.name):
            raise LayoutError(
                f"volume name {self.name!r} is not usable",
                "use up to 31 letters, digits, - and _, a letter first",
            )
        if self.size_bytes <= 0:
            raise LayoutError(f"volume {self.name}: size must be positive")
        if not 1 <= self.stripes <= 128:
            raise LayoutError(f"volume {self.name}: stripes must be 1 to 128, not {self.stripes}")
        if not self.mount.startswith("/"):
            raise LayoutError(f"volume {self.name}: mount {self.mount!r} must be an absolute path")

    @property
    def total_bytes(self) -> Bytes:
        """The array's usable size: every member's."""
        return Bytes(self.size_bytes * self.stripes)


@dataclass(frozen=True, slots=True)
class Tablespace:
    """A tablespace, the volume it is on, and the relations that are to lie in it."""

    name: str
    volume: str
    relations: tuple[RelationId, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    location: str | None = None  # None: the directory pgstow makes on the volume, <mount>/<name>

    def __post_init__(self) -> None:
        if not self.name or self.name.startswith("pg_"):
            raise LayoutError(
                f"tablespace name {self.name!r} is reserved", "choose one without the pg_ prefix"
            )


@dataclass(frozen=True, slots=True)
class Placement:
    """What of PostgreSQL itself lies where: volumes by name, and storage settings."""

    data: str
    wal: str
    temp: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The machine a layout is for; ``instance`` names a row of the catalog."""

    platform: Platform = "local"
    region: str | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What storage there is and what lies on it. Relations not named stay on ``postgres.data``."""

    host: HostSpec
    volumes: tuple[Volume, ...]
    postgres: Placement
    tablespaces: tuple[Tablespace, ...] = ()

    def __post_init__(self) -> None:
        names = [volume.name for volume in self.volumes]
        _refuse_twice(names, "volume")
        _refuse_twice([volume.mount for volume in self.volumes], "mount")
        _refuse_twice([space.name for space in self.tablespaces], "tablespace")
        _refuse_twice([str(r) for t in self.tablespaces for r in t.relations], "relation")
        used = [("postgres.data", self.postgres.data), ("postgres.wal", self.postgres.wal)]
        used += [("postgres.temp", name) for name in self.postgres.temp]
        used += [(f"tablespaces.{space.name}.volume", space.volume) for space in self.tablespaces]
        for key, name in used:
            if name not in names:
                raise LayoutError(
                    f"{key} names volume {name!r}, which the layout does not have",
                    f"use one of: {', '.join(names)}",
                )

    def volume(self, name: str) -> Volume:
        """The volume of that name; the constructor saw to it that every name used exists."""
        return next(volume for volume in self.volumes if volume.name == name)

    def tablespace_of(self, relation: RelationId) -> str:
        """The tablespace that is to hold a relation."""
        for space in self.tablespaces:
            if relation in space.relations:
                return space.name
        return DEFAULT_TABLESPACE

    def volume_of(self, relation: RelationId) -> Volume:
        """The volume that is to hold a relation."""
        for space in self.tablespaces:
            if relation in space.relations:
                return self.volume(space.volume)
        return self.volume(self.postgres.data)


def _refuse_twice(names: list[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LayoutError(f"{what} {name!r} is named twice", "name each once")
        seen.add(name)


@dataclass(frozen=True, slots=True)
class Burst:
    """A credit bucket of one member: starts at ``initial`` × capacity, spends above the baseline.

    ``kind`` says what a credit is: one I/O (gp2) or one byte (st1, sc1).
    """

    kind: Literal["iops", "bytes"]
    capacity: float
    refill_per_s: float
    burst_rate: float
    initial: float = 1.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Base latency of one operation, by median and 99th percentile; log-normal between."""

    read_us_p50: float
    read_us_p99: float
    write_us_p50: float
    write_us_p99: float
    sequential_read_us_p50: float | None = None  # set for disks with seeks
    sequential_write_us_p50: float | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a stripe as a device: limits, accounting unit, credits, latency.

    One I/O counts as ``ceil(bytes / io_unit_bytes)`` operations against ``iops``. A limit of
    ``None`` is no limit. With a burst of kind "iops", ``iops`` is the baseline.
    """

    iops: float | None
    bytes_per_second: float | None
    io_unit_bytes: int
    latency: Latency
    burst: Burst | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """What the device model needs to know of one volume: its members and how they are striped."""

    name: str
    size_bytes: Bytes  # of the whole array
    stripes: int
    chunk_bytes: Bytes
    member: Member
    uses_host_cap: bool = True  # False: a disk of the machine itself

    @property
    def iops(self) -> float | None:
        """The array's sustained limit."""
        return None if self.member.iops is None else self.member.iops * self.stripes

    @property
    def bytes_per_second(self) -> float | None:
        """The array's sustained limit."""
        limit = self.member.bytes_per_second
        return None if limit is None else limit * self.stripes


@dataclass(frozen=True, slots=True)
class HostCap:
    """The machine's own cap on storage traffic, shared by all network volumes of the host."""

    iops: float | None
    bytes_per_second: float | None
    burst_iops: float | None = None  # what it may reach for 30 minutes a day
    burst_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """A monthly price and its lines; ``usd_month`` of None: unknown."""

    usd_month: float | None
    lines: tuple[tuple[str, float], ...] = field(default=())
