"""Read the shipped data files, and the user's over them, into a catalog, once a process."""

import os
from collections import ChainMap
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from pgstow.catalog.catalog import Catalog
from pgstow.catalog.schema import CatalogFile
from pgstow.catalog.tables import (
    LazyRows,
    read_disk_speeds,
    read_instance_prices,
    read_instances,
)
from pgstow.catalog.types import DiskSpeed, Instance, InstancePrice, VolumeType
from pgstow.model import UserError
from pgstow.rules import TypePrice
from pgstow.toml_file import parse_tables

TYPE_FILES = ("ebs.toml", "rds.toml", "gce.toml", "azure.toml", "local.toml", "anatomy.toml")
PRICES_FILE = "prices.toml"
INSTANCES_FILE = "ec2-instances.csv"
INSTANCE_PRICES_FILE = "ec2-prices.csv"
DISKS_FILE = "ec2-disks.csv"
USER_FILES = (PRICES_FILE, INSTANCES_FILE, INSTANCE_PRICES_FILE)


def user_directory() -> Path:
    """Where ``pgstow catalog update`` writes, and from where its files are read."""
    data = os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return Path(data) / "pgstow" / "catalog"


@cache
def load() -> Catalog:
    """The catalog that pgstow ships, with the user's newer prices and instances over it."""
    return load_with(user_directory())


@cache
def load_shipped() -> Catalog:
    """The catalog that pgstow ships, for what must not depend on a user's prices."""
    return load_with(None)


def load_with(directory: Path | None) -> Catalog:
    """The shipped catalog with the files of a directory over it, where it has any."""
    data = files("pgstow") / "data"
    shipped = {
        name: (data / name).read_text(encoding="utf-8")
        for name in (*TYPE_FILES, *USER_FILES, DISKS_FILE)
    }
    user = [] if directory is None else [directory / name for name in USER_FILES]
    user = [path for path in user if path.is_file()]
    texts = {path.name: (str(path), _read(path)) for path in user}
    price_texts = [(PRICES_FILE, shipped[PRICES_FILE])]
    if PRICES_FILE in texts:
        price_texts.append(texts[PRICES_FILE])
    tables, prices = [read_instances(shipped[INSTANCES_FILE], INSTANCES_FILE)], []
    if INSTANCES_FILE in texts:
        path, text = texts[INSTANCES_FILE]
        tables.insert(0, read_instances(text, path))
    if INSTANCE_PRICES_FILE in texts:
        path, text = texts[INSTANCE_PRICES_FILE]
        prices.append(read_instance_prices(text, path))
    prices.append(read_instance_prices(shipped[INSTANCE_PRICES_FILE], INSTANCE_PRICES_FILE))
    return catalog_of(
        [(name, shipped[name]) for name in TYPE_FILES] + price_texts,
        tables,
        prices,
        tuple(str(path) for path in user),
        read_disk_speeds(shipped[DISKS_FILE], DISKS_FILE),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"{path} cannot be read", "correct its mode or contents, or delete it"
        ) from None


def catalog_of(
    texts: Iterable[tuple[str, str]],
    instances: Iterable[LazyRows[Instance]] = (),
    instance_prices: Iterable[dict[str, LazyRows[InstancePrice]]] = (),
    user_files: tuple[str, ...] = (),
    disk_speeds: Mapping[str, LazyRows[DiskSpeed]] | None = None,
) -> Catalog:
    """A catalog from the names and texts of its files; of two prices the later file's holds.

    Of two tables of instances or of their prices the earlier holds, row by row.
    """
    parsed = [_parse(name, text) for name, text in texts]
    prices: dict[str, dict[str, TypePrice]] = {}
    for file in parsed:
        for region, rows in file.prices.items():
            for name, row in rows.items():
                prices.setdefault(name, {})[region] = row.price()
    types: dict[str, VolumeType] = {}
    for file in parsed:
        for name, type_row in file.types.items():
            types[name] = type_row.volume_type(name, prices.pop(name, {}), file)
    if prices:
        raise UserError(
            f"prices of types that the catalog does not have: {', '.join(prices)}",
            "use a newer pgstow, or delete them",
        )
    tables = tuple(instances)
    by_region: dict[str, list[LazyRows[InstancePrice]]] = {}
    for one in instance_prices:
        for region, found in one.items():
            by_region.setdefault(region, []).append(found)
    return Catalog(
        types,
        ChainMap(*tables),  # type: ignore[arg-type]  # it is only read
        instance_prices={
            region: ChainMap(*found)  # type: ignore[arg-type]
            for region, found in by_region.items()
        },
        disk_speeds=ChainMap(*(disk_speeds or {}).values()),  # type: ignore[arg-type]
        instance_tables=tables,
        snapshot_prices={
            region: row.price() for file in parsed for region, row in file.snapshots.items()
        },
        backup_prices={
            region: row.price() for file in parsed for region, row in file.backups.items()
        },
        anatomy_rules={
            way: tuple(row.rule() for row in rows)
            for file in parsed
            for way, rows in file.anatomy.items()
        },
        user_files=user_files,
    )


def _parse(name: str, text: str) -> CatalogFile:
    try:
        return CatalogFile.model_validate(parse_tables(text, name))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{name}: {key}: {first['msg']}", "correct it, or delete it") from None
