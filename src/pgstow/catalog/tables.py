"""The catalog's plain tables: instances and their prices, one line each, parsed when asked for.

A table of over a thousand lines is read at every start and a few lines of it are used, so a line
is split only when its row is asked for. Lines that begin with ``#`` carry what holds for the rows
below them: ``# source: …``, ``# date: …``, and of prices ``# region: …``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from pgstow.catalog.types import DiskKind, DiskSpeed, Instance, InstancePrice
from pgstow.model import Provenance, UserError
from pgstow.units import MIB, Bytes, BytesPerSecond

INSTANCE_COLUMNS = (
    "instance",
    "vcpus",
    "memory_mib",
    "baseline_iops",
    "max_iops",
    "baseline_mb_per_s",
    "max_mb_per_s",
    "attachments",
    "disks",
    "disk_gb",
    "disk_kind",
    "nitro",
)
DISK_COLUMNS = ("instance", "read_iops", "write_iops")
PRICE_COLUMNS = ("instance", "usd_hour")
_DISK_KINDS: dict[str, DiskKind] = {"nvme": "nvme", "ssd": "ssd", "hdd": "hdd"}
_NITRO: dict[str, bool | None] = {"yes": True, "no": False, "": None}
_MB, _GB = 1e6, 10**9  # AWS's figures of instances are decimal

Row = TypeVar("Row")


class LazyRows(Mapping[str, Row], Generic[Row]):
    """Rows by name, each parsed at its first use."""

    def __init__(
        self,
        lines: dict[str, str],
        provenance: Provenance,
        parse: Callable[[list[str], Provenance], Row],
        file: str,
    ) -> None:
        self.provenance = provenance
        self._lines, self._parse, self._file = lines, parse, file
        self._rows: dict[str, Row] = {}

    def __getitem__(self, name: str) -> Row:
        row = self._rows.get(name)
        if row is None:
            line = self._lines[name]
            try:
                row = self._parse(line.split(","), self.provenance)
            except (ValueError, LookupError):
                raise UserError(
                    f"{self._file}: the line of {name} is malformed: {line!r}",
                    "run pgstow catalog update, or delete the file",
                ) from None
            self._rows[name] = row
        return row

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def read_instances(text: str, file: str) -> LazyRows[Instance]:
    """The instances of a table; ``file`` names it in errors."""
    sections = list(_sections(text, INSTANCE_COLUMNS, file))
    if len(sections) != 1:
        raise UserError(f"{file}: has {len(sections)} tables, not one", "delete the file")
    facts, lines = sections[0]
    return LazyRows(lines, _provenance(facts, file), _instance, file)


def read_disk_speeds(text: str, file: str) -> dict[str, LazyRows[DiskSpeed]]:
    """What instances' own disks do, from tables by their sources; ``file`` names it in errors."""
    return {
        facts.get("source", ""): LazyRows(lines, _provenance(facts, file), _disk_speed, file)
        for facts, lines in _sections(text, DISK_COLUMNS, file)
    }


def read_instance_prices(text: str, file: str) -> dict[str, LazyRows[InstancePrice]]:
    """The instance prices of a table, by region; ``file`` names it in errors."""
    found = {}
    for facts, lines in _sections(text, PRICE_COLUMNS, file):
        if "region" not in facts:
            raise UserError(f"{file}: has prices of no region", "write # region: us-east-1 above")
        found[facts["region"]] = LazyRows(lines, _provenance(facts, file), _price, file)
    return found


def format_instances(instances: Iterable[Instance], provenance: Provenance) -> str:
    """Instances as :func:`read_instances` reads them, families and sizes in order."""
    ordered = sorted(instances, key=lambda one: _order(one.name))
    head = [
        "# EC2 instance types: cores, memory, their own cap on EBS traffic, instance store.",
        "# MB and GB are decimal. What is over the baseline holds for 30 minutes a day.",
        "# nitro: whether it is built on the Nitro System.",
        "# Written by pgstow catalog update.",
        f"# source: {provenance.source}",
        f"# date: {provenance.date}",
        ",".join(INSTANCE_COLUMNS),
    ]
    return "\n".join([*head, *(",".join(_instance_cells(one)) for one in ordered)]) + "\n"


def format_instance_prices(prices: Mapping[str, Mapping[str, InstancePrice]]) -> str:
    """Prices by region and name as :func:`read_instance_prices` reads them."""
    lines = ["# On-demand prices of EC2 instances (Linux, shared tenancy), US dollars an hour."]
    for region, rows in sorted(prices.items()):
        first = next(iter(rows.values()))
        lines += [
            f"# region: {region}",
            f"# source: {first.provenance.source}",
            f"# date: {first.provenance.date}",
            ",".join(PRICE_COLUMNS),
        ]
        lines += [f"{name},{rows[name].usd_hour:.6g}" for name in sorted(rows, key=_order)]
    return "\n".join(lines) + "\n"


def _sections(
    text: str, columns: tuple[str, ...], file: str
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Each table of a text: the facts above it, and its lines by their first cell."""
    facts: dict[str, str] = {}
    lines: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            if lines:
                yield facts, lines
                facts, lines = {}, {}
            key, colon, value = line[1:].partition(":")
            if colon:
                facts[key.strip()] = value.strip()
        elif line.startswith(f"{columns[0]},"):
            if line != ",".join(columns):
                raise UserError(
                    f"{file}: has the columns {line!r}, not {','.join(columns)!r}",
                    "run pgstow catalog update, or delete the file",
                )
        elif line:
            lines[line.partition(",")[0]] = line
    if lines:
        yield facts, lines


def _provenance(facts: dict[str, str], file: str) -> Provenance:
    source, date = facts.get("source", ""), facts.get("date", "")
    if not source or not re.fullmatch(r"20\d\d(-[01]\d(-[0-3]\d)?)?", date):
        raise UserError(
            f"{file}: names no source and date", "write # source: … and # date: 2026-11-20 above"
        )
    return Provenance("documented", source, date)


def _instance(cells: list[str], provenance: Provenance) -> Instance:
    if len(cells) != len(INSTANCE_COLUMNS):
        raise ValueError("not as many cells as columns")
    name, vcpus, memory, low_iops, high_iops, low_mb, high_mb, *cells = cells
    volumes, disks, size, kind, nitro = cells
    return Instance(
        name=name,
        vcpus=int(vcpus),
        memory_bytes=Bytes(int(memory) * MIB),
        baseline_iops=_number(low_iops),
        max_iops=_number(high_iops),
        baseline_bytes_per_second=_decimal(low_mb),
        max_bytes_per_second=_decimal(high_mb),
        max_attachments=int(volumes) if volumes else None,
        disks=int(disks) if disks else 0,
        disk_bytes=Bytes(int(size) * _GB) if size else None,
        disk_kind=_DISK_KINDS[kind] if kind else None,
        provenance=provenance,
        is_nitro=_NITRO[nitro],
    )


def _disk_speed(cells: list[str], provenance: Provenance) -> DiskSpeed:
    _, read, write = cells
    if not (float(read) > 0 and float(write) > 0):
        raise ValueError("a speed that is not over 0")
    return DiskSpeed(float(read), float(write), provenance)


def _price(cells: list[str], provenance: Provenance) -> InstancePrice:
    _, usd = cells
    if not float(usd) > 0:
        raise ValueError("a price that is not over 0")
    return InstancePrice(float(usd), provenance)


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _decimal(cell: str) -> BytesPerSecond | None:
    return BytesPerSecond(round(float(cell) * _MB, 3)) if cell else None


def _instance_cells(one: Instance) -> Iterator[str]:
    numbers = (
        one.vcpus,
        one.memory_bytes // MIB,
        one.baseline_iops,
        one.max_iops,
        None if one.baseline_bytes_per_second is None else one.baseline_bytes_per_second / _MB,
        None if one.max_bytes_per_second is None else one.max_bytes_per_second / _MB,
        one.max_attachments,
        one.disks or None,
        None if one.disk_bytes is None else one.disk_bytes // _GB,
    )
    yield one.name
    for number in numbers:
        yield "" if number is None else f"{number:.10g}"
    yield one.disk_kind or ""
    yield next(text for text, is_nitro in _NITRO.items() if is_nitro is one.is_nitro)


_SMALL = {"nano": 0, "micro": 1, "small": 2, "medium": 3, "large": 4, "xlarge": 5}


def _order(name: str) -> tuple[str, int, int, str]:
    """Families by the alphabet, sizes from small to large."""
    family, _, size = name.partition(".")
    digits = re.match(r"\d+", size)
    return family, _SMALL.get(size, 6), int(digits[0]) if digits else 999, size
