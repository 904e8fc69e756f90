"""Layout files: TOML that a person reads, diffs and commits, to and from the model's Layout.

Every mistake is one line that names the file, the key, the value and the rule.
"""

import hashlib
import json
import math
import re
import tomllib
from dataclasses import asdict, fields
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from pgstow.fio_file import read_latency
from pgstow.model import (
    HostSpec,
    Layout,
    LayoutError,
    MeasuredLatency,
    Placement,
    RelationId,
    Tablespace,
    Volume,
)
from pgstow.model.storage import DEFAULT_CHUNK_BYTES, Filesystem, Platform
from pgstow.toml_file import (
    explain,
    first_mistake,
    parse_tables,
    quoted_key,
    quoted_text,
    read_text,
)
from pgstow.units import Bytes, BytesPerSecond, Iops, format_exact_size, parse_rate, parse_size

_DOCUMENT = "docs/reference/layout.md"


def _size(value: object) -> Bytes:
    if not isinstance(value, str):
        raise ValueError("a size is text with its unit; write it like 500GiB")
    return parse_size(value)


def _rate(value: object) -> BytesPerSecond:
    if not isinstance(value, str):
        raise ValueError("a bandwidth is text with its unit; write it like 250MiB/s")
    return parse_rate(value)


def _setting(value: object) -> str:
    """A setting as PostgreSQL writes it: booleans are on and off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    raise ValueError("a setting is a number, true, false or text")


def _relation(value: object) -> RelationId:
    if not isinstance(value, str):
        raise ValueError('a relation is text; write it like "shop.public.orders"')
    try:
        return RelationId.parse(value)
    except LayoutError as error:  # pydantic adds the key to a ValueError only
        raise ValueError(f"{error.message}; {error.remedy}") from None


def _latency(value: object, info: ValidationInfo) -> MeasuredLatency:
    """A table of percentiles, or the name of a file that fio wrote, beside the layout's."""
    try:
        if isinstance(value, str):
            directory = (info.context or {}).get("directory")
            return read_latency(Path(value) if directory is None else directory / value)
        if not isinstance(value, dict):
            raise ValueError('a latency is a table or a file of fio\'s; write { fio = "fio.json" }')
        if set(value) == {"fio"} and isinstance(value["fio"], str):
            return _latency(value["fio"], info)
        names = [field.name for field in fields(MeasuredLatency)]
        for name, us in value.items():
            if name not in names:
                raise ValueError(f"a latency has no {name!r}; use {', '.join(names)}, or fio")
            if isinstance(us, bool) or not isinstance(us, int | float):
                raise ValueError(f"{name} is a number of microseconds, not {us!r}")
        return MeasuredLatency(**value)
    except LayoutError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from None


Size = Annotated[Bytes, BeforeValidator(_size), Field(gt=0)]
Bandwidth = Annotated[BytesPerSecond, BeforeValidator(_rate), Field(gt=0)]
Setting = Annotated[str, BeforeValidator(_setting)]
# the value is made by the validator; pydantic need not look into it
Relation = Annotated[Any, BeforeValidator(_relation)]
Measured = Annotated[Any, BeforeValidator(_latency)]
Operations = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class HostTable(_Strict):
    """``[host]``"""

    platform: Platform = "local"
    region: str | None = None
    instance: str | None = None
    burst_credits: Fraction | None = None

    def host(self) -> HostSpec:
        """The table as the model's value."""
        return HostSpec(self.platform, self.region, self.instance, self.burst_credits)


class VolumeTable(_Strict):
    """``[volumes.NAME]``"""

    type: str
    size: Size
    mount: str
    iops: Operations | None = None
    throughput: Bandwidth | None = None
    stripes: int = 1
    chunk: Size = DEFAULT_CHUNK_BYTES
    filesystem: Filesystem = "xfs"
    mkfs_options: list[str] = []
    mount_options: list[str] = ["noatime"]
    burst_credits: Fraction | None = None
    from_snapshot: bool = False
    fast_snapshot_restore: bool = False
    initialization_rate: Bandwidth | None = None
    latency: Measured | None = None

    def volume(self, name: str) -> Volume:
        """The table as the model's value."""
        return Volume(
            name=name,
            type=self.type,
            size_bytes=self.size,
            mount=self.mount,
            iops=None if self.iops is None else Iops(self.iops),
            throughput=self.throughput,
            stripes=self.stripes,
            chunk_bytes=self.chunk,
            filesystem=self.filesystem,
            mkfs_options=tuple(self.mkfs_options),
            mount_options=tuple(self.mount_options),
            burst_credits=self.burst_credits,
            from_snapshot=self.from_snapshot,
            fast_snapshot_restore=self.fast_snapshot_restore,
            initialization_rate=self.initialization_rate,
            latency=self.latency,
        )


class PostgresTable(_Strict):
    """``[postgres]``"""

    data: str
    wal: str | None = None
    temp: list[str] = []
    backup: str | None = None
    settings: dict[str, Setting] = {}


class TablespaceTable(_Strict):
    """``[tablespaces.NAME]``"""

    volume: str
    location: str | None = None
    options: dict[str, Setting] = {}
    relations: list[Relation] = []


class LayoutTable(_Strict):
    """The whole file."""

    host: HostTable = HostTable()
    volumes: Annotated[dict[str, VolumeTable], Field(min_length=1)]
    postgres: PostgresTable
    tablespaces: dict[str, TablespaceTable] = {}

    def layout(self) -> Layout:
        """The file as the model's value; pg_wal is with the data unless it names another volume."""
        return Layout(
            host=self.host.host(),
            volumes=tuple(table.volume(name) for name, table in self.volumes.items()),
            postgres=Placement(
                data=self.postgres.data,
                wal=self.postgres.wal or self.postgres.data,
                temp=tuple(self.postgres.temp),
                settings=tuple(self.postgres.settings.items()),
                backup=self.postgres.backup,
            ),
            tablespaces=tuple(
                Tablespace(
                    name=name,
                    volume=table.volume,
                    relations=tuple(table.relations),
                    options=tuple(table.options.items()),
                    location=table.location,
                )
                for name, table in self.tablespaces.items()
            ),
        )


def read_layout(path: Path) -> Layout:
    """Read a layout file."""
    text = read_text(path, "layout file", LayoutError)
    return parse_layout(text, str(path), directory=path.parent)


def read_volumes(path: Path) -> Layout:
    """Read a layout for its volumes; without ``[postgres]`` the first is taken to hold all."""
    return parse_volumes(
        read_text(path, "layout file", LayoutError), str(path), directory=path.parent
    )


def parse_volumes(text: str, source: str, *, directory: Path | None = None) -> Layout:
    """As :func:`read_volumes`, from the text of a file."""
    tables = parse_tables(text, source, LayoutError)
    volumes = tables.get("volumes")
    if isinstance(volumes, dict) and volumes and "tablespaces" not in tables:
        tables = {"postgres": {"data": next(iter(volumes))}} | tables
    return _layout(tables, source, directory)


def parse_layout(text: str, source: str, *, directory: Path | None = None) -> Layout:
    """Read a layout from the text of a file; ``source`` names it in errors.

    ``directory`` is where the files that it names are.
    """
    return _layout(parse_tables(text, source, LayoutError), source, directory)


def _layout(tables: dict[str, Any], source: str, directory: Path | None) -> Layout:
    try:
        return LayoutTable.model_validate(tables, context={"directory": directory}).layout()
    except ValidationError as error:
        mistake, more = first_mistake(error)
        message, remedy = explain(mistake, LayoutTable, _DOCUMENT)
        raise LayoutError(f"{source}: {message}", remedy + more) from None
    except LayoutError as error:
        raise LayoutError(f"{source}: {error.message}", error.remedy) from None


def format_layout(layout: Layout) -> str:
    """Write a layout as TOML that :func:`parse_layout` reads back to the same value."""
    blocks = [_host_block(layout.host)]
    blocks += [_volume_block(volume) for volume in layout.volumes]
    blocks.append(_postgres_block(layout.postgres))
    blocks += [_tablespace_block(space) for space in layout.tablespaces]
    return "\n".join(blocks)


def _host_block(host: HostSpec) -> str:
    lines = ["[host]", f"platform = {quoted_text(host.platform)}"]
    if host.region is not None:
        lines.append(f"region = {quoted_text(host.region)}")
    if host.instance is not None:
        lines.append(f"instance = {quoted_text(host.instance)}")
    if host.burst_credits is not None:
        lines.append(f"burst_credits = {_plain(host.burst_credits)}")
    return "\n".join(lines) + "\n"


def _volume_block(volume: Volume) -> str:
    lines = [
        f"[volumes.{quoted_key(volume.name)}]",
        f"type = {quoted_text(volume.type)}",
        f"size = {quoted_text(format_exact_size(volume.size_bytes))}",
    ]
    if volume.iops is not None:
        lines.append(f"iops = {_plain(volume.iops)}")
    if volume.throughput is not None:
        lines.append(f"throughput = {quoted_text(_exact_rate(volume.throughput))}")
    if volume.stripes > 1:
        lines.append(f"stripes = {volume.stripes}")
    if volume.stripes > 1 or volume.chunk_bytes != DEFAULT_CHUNK_BYTES:
        lines.append(f"chunk = {quoted_text(format_exact_size(volume.chunk_bytes))}")
    lines.append(f"filesystem = {quoted_text(volume.filesystem)}")
    if volume.mkfs_options:
        lines.append(f"mkfs_options = {_texts(volume.mkfs_options)}")
    lines.append(f"mount_options = {_texts(volume.mount_options)}")
    lines.append(f"mount = {quoted_text(volume.mount)}")
    if volume.burst_credits is not None:
        lines.append(f"burst_credits = {_plain(volume.burst_credits)}")
    if volume.from_snapshot:
        lines.append("from_snapshot = true")
    if volume.fast_snapshot_restore:
        lines.append("fast_snapshot_restore = true")
    if volume.initialization_rate is not None:
        bought = _exact_rate(volume.initialization_rate)
        lines.append(f"initialization_rate = {quoted_text(bought)}")
    if volume.latency is not None:
        given = {name: us for name, us in asdict(volume.latency).items() if us is not None}
        pairs = ", ".join(f"{name} = {_plain(us)}" for name, us in given.items())
        lines.append(f"latency = {{ {pairs} }}")
    return "\n".join(lines) + "\n"


def _postgres_block(placement: Placement) -> str:
    lines = ["[postgres]", f"data = {quoted_text(placement.data)}"]
    lines.append(f"wal = {quoted_text(placement.wal)}")
    if placement.temp:
        lines.append(f"temp = {_texts(placement.temp)}")
    if placement.backup is not None:
        lines.append(f"backup = {quoted_text(placement.backup)}")
    if placement.settings:
        lines += ["", "[postgres.settings]"]
        lines += [f"{quoted_key(name)} = {_value(value)}" for name, value in placement.settings]
    return "\n".join(lines) + "\n"


def _tablespace_block(space: Tablespace) -> str:
    lines = [f"[tablespaces.{quoted_key(space.name)}]", f"volume = {quoted_text(space.volume)}"]
    if space.location is not None:
        lines.append(f"location = {quoted_text(space.location)}")
    if space.options:
        pairs = ", ".join(f"{quoted_key(name)} = {_value(value)}" for name, value in space.options)
        lines.append(f"options = {{ {pairs} }}")
    if space.relations:
        lines.append("relations = [")
        lines += [f"  {quoted_text(str(relation))}," for relation in space.relations]
        lines.append("]")
    return "\n".join(lines) + "\n"


def _texts(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(quoted_text(text) for text in texts)}]"


def _value(value: str) -> str:
    """A setting as a number where that reads back the same, else as text."""
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?", value):
        number = float(value) if "." in value else int(value)
        if str(number) == value:
            return value
    return quoted_text(value)


def _plain(value: float) -> str:
    """A number without exponent; whole ones without a point."""
    return f"{Decimal(repr(float(value))):f}".removesuffix(".0")


def _exact_rate(rate: float) -> str:
    if float(rate).is_integer():
        return f"{format_exact_size(int(rate))}/s"
    return f"{_plain(rate)}B/s"


def layout_digest(layout: Layout) -> str:
    """A digest of a layout, by which a run of apply is resumed. Journals keep it across versions.

    It is of what the layout's file says: how a number is written does not change it, nor does a
    field that a later version adds, as long as it has its default.
    """
    canonical = json.dumps(tomllib.loads(format_layout(layout)), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
