"""Layouts: the volumes there are and what is placed on them."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Literal, Self

from pgstow.model.errors import LayoutError
from pgstow.units import KIB, Bytes, BytesPerSecond, Iops

Platform = Literal["ec2", "rds", "gce", "azure", "local"]
Filesystem = Literal["xfs", "ext4", "btrfs"]
DEFAULT_TABLESPACE = "pg_default"
_NAME_BYTES_MAX = 63  # NAMEDATALEN less the end
# MAXPGPATH (1024) less what CREATE TABLESPACE adds: version, database, relation, fork, segment.
_LOCATION_BYTES_MAX = 940
DEFAULT_CHUNK_BYTES = Bytes(64 * KIB)
_NAME_BYTES, _PATH_BYTES = 255, 4095  # Linux's NAME_MAX, and PATH_MAX without its end
_KERNELS = ("proc", "sys")  # filesystems in which nobody can make a directory


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


def canonical(path: str) -> str:
    """An absolute path as PostgreSQL keeps one.

    >>> canonical("//mnt/fast/./a//b/")
    '/mnt/fast/a/b'
    """
    return normpath(f"/{path.lstrip('/')}")


def _quoted(identifier: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", identifier):
        return identifier
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class MeasuredLatency:
    """What small requests to a volume take, as somebody measured it, instead of the type's.

    None: the type's, for both of reads or both of writes.
    """

    read_us_p50: float | None = None
    read_us_p99: float | None = None
    write_us_p50: float | None = None
    write_us_p99: float | None = None

    def __post_init__(self) -> None:
        for kind, p50, p99 in (
            ("read", self.read_us_p50, self.read_us_p99),
            ("write", self.write_us_p50, self.write_us_p99),
        ):
            if (p50 is None) != (p99 is None):
                raise LayoutError(
                    f"latency has one of {kind}_us_p50 and {kind}_us_p99", "write both, or neither"
                )
            if p50 is not None and p99 is not None and not 0 < p50 <= p99 <= 60e6:
                raise LayoutError(
                    f"latency: {kind}_us_p50 = {p50:g} and {kind}_us_p99 = {p99:g} cannot be",
                    "write the median and the 99th percentile in microseconds",
                )
        if self.read_us_p50 is None and self.write_us_p50 is None:
            raise LayoutError("latency is empty", "write read_us_p50 and read_us_p99, or drop it")


@dataclass(frozen=True, slots=True)
class Volume:
    """A provisioned volume. Size, IOPS and throughput are those of ONE member of the stripe.

    ``iops`` and ``throughput`` of ``None`` mean what the type gives for the size by itself.
    ``mount`` is where its filesystem is, or is to be, mounted. The last but one say what it begins
    with: the fraction of its burst credits (``None``: all), and whether its data are a snapshot's.
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
    burst_credits: float | None = None
    from_snapshot: bool = False
    fast_snapshot_restore: bool = False
    initialization_rate: BytesPerSecond | None = None
    latency: MeasuredLatency | None = None  # of one member; None: the type's

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
        self._check_mount()
        object.__setattr__(self, "mount", canonical(self.mount))  # as the server will say it
        _check_burst_credits(f"volumes.{self.name}", self.burst_credits)
        self._check_snapshot()

    def _check_mount(self) -> None:
        where = f"volume {self.name}: mount"
        if not self.mount.startswith("/"):
            raise LayoutError(f"{where} {self.mount!r} must be an absolute path")
        longest = max(len(part.encode(errors="surrogateescape")) for part in self.mount.split("/"))
        if "\0" in self.mount or longest > _NAME_BYTES or len(self.mount) > _PATH_BYTES:
            raise LayoutError(f"{where} {self.mount[:40]!r}… can be no path", "name a shorter one")
        if canonical(self.mount).split("/")[1] in _KERNELS:
            raise LayoutError(
                f"{where} {self.mount!r} is in a filesystem of the kernel", "mount it at /data, say"
            )

    def _check_snapshot(self) -> None:
        where = f"volumes.{self.name}"
        for key, is_set in (
            ("fast_snapshot_restore", self.fast_snapshot_restore),
            ("initialization_rate", self.initialization_rate is not None),
        ):
            if is_set and not self.from_snapshot:
                raise LayoutError(
                    f"{where}.{key}: is for a volume that is restored from a snapshot",
                    f"write from_snapshot = true, or drop {key}",
                )
        if self.fast_snapshot_restore and self.initialization_rate is not None:
            raise LayoutError(
                f"{where}.initialization_rate: replaces a fast snapshot restore, whose "
                "data are there from the start",
                "drop one of the two",
            )

    @property
    def kind(self) -> str:
        """Its type with its stripes, as a person would say it: ``gp3``, ``5 × gp3``."""
        return f"{self.stripes} × {self.type}" if self.stripes > 1 else self.type

    @property
    def total_bytes(self) -> Bytes:
        """The array's usable size: every member's."""
        return Bytes(self.size_bytes * self.stripes)


@dataclass(frozen=True, slots=True)
class Tablespace:
    """A tablespace, the volume it is on, and the relations that are to be in it."""

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
        if "\0" in self.name:
            raise LayoutError(f"tablespace name {self.name!r} has a zero byte", "leave it out")
        size = len(self.name.encode(errors="surrogatepass"))
        if size > _NAME_BYTES_MAX:
            raise LayoutError(
                f"tablespace name {self.name[:20]!r}… has {size} bytes, and PostgreSQL cuts names "
                f"at {_NAME_BYTES_MAX}",
                "choose a shorter one (a letter beyond ASCII has two bytes or more)",
            )
        if self.location is not None:
            _check_location(self.name, self.location)


def _check_location(name: str, location: str) -> None:
    """What CREATE TABLESPACE would refuse, or backup tools trip over."""
    where = f"tablespaces.{name}.location: {location[:60]!r}"
    if not location.startswith("/"):
        raise LayoutError(f"{where} is not an absolute path", "write it from / on")
    if re.search(r"['\n\r\0]", location):
        raise LayoutError(
            f"{where} has a quote, a line's end or a zero byte, which PostgreSQL refuses",
            "choose a plain path",
        )
    if len(location.encode(errors="surrogatepass")) > _LOCATION_BYTES_MAX:
        raise LayoutError(f"{where}… is too long for PostgreSQL", "choose a shorter path")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where PostgreSQL's own files are: volumes by name, and storage settings."""

    data: str
    wal: str
    temp: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    backup: str | None = None  # the volume that backups are written to


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The machine a layout is for; ``instance`` names a row of the catalog."""

    platform: Platform = "local"
    region: str | None = None
    instance: str | None = None
    burst_credits: float | None = None  # the fraction at the start; None: it never bursts

    def __post_init__(self) -> None:
        _check_burst_credits("host", self.burst_credits)


@dataclass(frozen=True, slots=True)
class Layout:
    """The volumes and what is placed on each; relations not named stay on ``postgres.data``."""

    host: HostSpec
    volumes: tuple[Volume, ...]
    postgres: Placement
    tablespaces: tuple[Tablespace, ...] = ()

    def __post_init__(self) -> None:
        names = [volume.name for volume in self.volumes]
        _refuse_twice(names, "volume")
        _refuse_twice([volume.mount for volume in self.volumes], "mount")
        _refuse_twice([space.name for space in self.tablespaces], "tablespace")
        _refuse_twice([r for t in self.tablespaces for r in t.relations], "relation")
        used = [("postgres.data", self.postgres.data), ("postgres.wal", self.postgres.wal)]
        used += [("postgres.temp", name) for name in self.postgres.temp]
        if self.postgres.backup is not None:
            used.append(("postgres.backup", self.postgres.backup))
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

    def volume_of(self, relation: RelationId) -> Volume:
        """The volume that is to hold a relation."""
        for space in self.tablespaces:
            if relation in space.relations:
                return self.volume(space.volume)
        return self.volume(self.postgres.data)


def _check_burst_credits(where: str, fraction: float | None) -> None:
    if fraction is not None and not 0.0 <= fraction <= 1.0:
        raise LayoutError(
            f"{where}.burst_credits: {fraction:g} is no fraction of a full balance",
            "write a number from 0 (empty) to 1 (full)",
        )


def _refuse_twice(names: Sequence[Hashable], what: str) -> None:
    if len(set(names)) == len(names):
        return
    twice = next(name for name, count in Counter(names).items() if count > 1)
    raise LayoutError(f"{what} {str(twice)!r} is named twice", "name each once")


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
    """Base latency of one operation, by median and 99th percentile; log-normal between.

    The percentiles hold for operations of up to ``base_bytes``; each MiB beyond takes so much more.
    """

    read_us_p50: float
    read_us_p99: float
    write_us_p50: float
    write_us_p99: float
    base_bytes: int = 0
    read_us_per_mib: float = 0.0
    write_us_per_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Mechanics:
    """What seek and rotation of a hard disk add to the latency of a request.

    A request that continues the last one only passes below the head. Any other one seeks, for a
    time that grows with the root of the distance, and then waits up to one revolution (rotational
    latency). ``is_serial``: one request after the other.
    """

    track_seek_us: float  # to the next track
    mean_seek_us: float  # between two random places
    turn_us: float  # one revolution
    bytes_per_second: float  # below the head
    is_serial: bool

    @property
    def mean_us(self) -> float:
        """Mean time to a random place.

        >>> Mechanics(230, 7400, 8333, 150e6, True).mean_us
        11566.5
        """
        return self.mean_seek_us + self.turn_us / 2

    @property
    def most_us(self) -> float:
        """A seek over all tracks and a whole revolution.

        The mean of the root of the distance between two places is 8/15.
        """
        stroke_us = (self.mean_seek_us - self.track_seek_us) * 15 / 8
        return self.track_seek_us + stroke_us + self.turn_us


@dataclass(frozen=True, slots=True)
class Restore:
    """How the data of a restored volume come: a block at its first touch, at most at a rate.

    ``background_bytes_per_second``: what comes by itself, from the volume's begin to its end.
    """

    block_bytes: int
    us_p50: float
    us_p99: float
    bytes_per_second: float | None = None
    background_bytes_per_second: float | None = None


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
    mechanics: Mechanics | None = None  # of a hard disk
    restored: Restore | None = None  # while its data come from a snapshot
    write_iops: float | None = None  # of writes alone, where it is not that of reads


@dataclass(frozen=True, slots=True)
class Device:
    """What the device model needs to know of one volume: its members and how they are striped."""

    name: str
    size_bytes: Bytes  # of the whole array
    stripes: int
    chunk_bytes: Bytes
    member: Member
    uses_host_cap: bool = True  # False: a disk of the machine itself
    has_volatile_cache: bool = False  # the kernel is to send it flushes

    @property
    def iops(self) -> float | None:
        """The array's sustained limit."""
        return None if self.member.iops is None else self.member.iops * self.stripes

    @property
    def write_cost_ratio(self) -> float:
        """How many operations of ``iops`` one write counts as."""
        member = self.member
        if member.iops is None or member.write_iops is None:
            return 1.0
        return member.iops / member.write_iops

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
    burst_initial: float | None = None  # the fraction of these credits; None: it never bursts


@dataclass(frozen=True, slots=True)
class Price:
    """A monthly price and its lines; ``usd_month`` of None: unknown."""

    usd_month: float | None
    lines: tuple[tuple[str, float], ...] = field(default=())
