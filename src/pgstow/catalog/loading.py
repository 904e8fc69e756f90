"""Read the packaged data files into a catalog, once a process."""

import tomllib
from functools import cache
from importlib.resources import files

from pgstow.catalog.catalog import Catalog
from pgstow.catalog.schema import CatalogFile
from pgstow.catalog.types import Instance, TypePrice, VolumeType

_FILES = ("ebs.toml", "local.toml", "prices.toml", "ec2-instances.toml")


@cache
def load() -> Catalog:
    """The catalog that pgstow ships."""
    data = files("pgstow") / "data"
    return catalog_of([(data / name).read_text(encoding="utf-8") for name in _FILES])


def catalog_of(texts: list[str]) -> Catalog:
    """A catalog from the text of its files; each type's prices may be in another file."""
    parsed = [CatalogFile.model_validate(tomllib.loads(text)) for text in texts]
    prices: dict[str, dict[str, TypePrice]] = {}
    for file in parsed:
        for region, rows in file.prices.items():
            for name, row in rows.items():
                prices.setdefault(name, {})[region] = row.price()
    types: dict[str, VolumeType] = {}
    instances: dict[str, Instance] = {}
    for file in parsed:
        for name, kind in file.types.items():
            types[name] = kind.volume_type(name, prices.pop(name, {}), file.snapshot)
        if file.instances:
            for name, one in file.instances.types.items():
                instances[name] = one.instance(name, file.instances.provenance)
    if prices:
        raise ValueError(f"prices of types that the catalog does not have: {', '.join(prices)}")
    return Catalog(types, instances)
