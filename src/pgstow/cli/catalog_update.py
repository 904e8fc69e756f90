"""``pgstow catalog update``: prices and instances as AWS states them today, for this user."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.catalog import catalog_app
from pgstow.cli.options import DryRun, Json
from pgstow.cli.output import console, print_json
from pgstow.model.errors import HostError, UserError

if TYPE_CHECKING:
    from pgstow.catalog import Instance, InstancePrice, TypePrice


@catalog_app.command("update")
def update(
    region: Annotated[
        list[str] | None,
        typer.Option("--region", help="Region to read; may be repeated. Default: AWS_REGION."),
    ] = None,
    instances: Annotated[
        bool, typer.Option("--instances", help="Only the instance types, no prices.")
    ] = False,
    prices: Annotated[
        bool, typer.Option("--prices", help="Only the prices, no instance types.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", help="Where to write, in place of this user's own catalog."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option(help="How the files name the source of instances, if not as AWS's.")
    ] = "",
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Read prices and instance types from AWS. Example: pgstow catalog update --region eu-west-1

    Needs credentials that allow ec2:DescribeInstanceTypes and pricing:GetProducts.
    """
    from pgstow.catalog.loading import user_directory

    regions = region or [_default_region()]
    directory = out or user_directory()
    is_all = instances == prices
    if dry_run:
        _say(directory, regions, instances=instances or is_all, prices=prices or is_all, json=json)
        return
    written: list[dict[str, Any]] = []
    if instances or is_all:
        written.append(_update_instances(directory, regions, source))
    if prices or is_all:
        written += _update_prices(directory, regions)
    if json:
        print_json(written)
        return
    for one in written:
        console().print(
            f"{one['file']}: {one['rows']:,} {one['what']}, {', '.join(regions)}, {one['date']}",
            markup=False,
            soft_wrap=True,
        )


def _say(directory: Path, regions: list[str], *, instances: bool, prices: bool, json: bool) -> None:
    """What would be asked of AWS and which files written; AWS is not asked."""
    from pgstow.catalog.loading import INSTANCE_PRICES_FILE, INSTANCES_FILE, PRICES_FILE

    asked: list[tuple[str, tuple[str, ...]]] = []
    if instances:
        asked.append(("ec2:DescribeInstanceTypes", (INSTANCES_FILE,)))
    if prices:
        asked.append(("pricing:GetProducts", (PRICES_FILE, INSTANCE_PRICES_FILE)))
    would = [
        {"asks": call, "regions": regions, "writes": [str(directory / name) for name in names]}
        for call, names in asked
    ]
    if json:
        print_json(would)
        return
    for call, names in asked:
        files = ", ".join(str(directory / name) for name in names)
        console().print(
            f"would ask {call} in {', '.join(regions)} and write {files}", soft_wrap=True
        )


def _default_region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _update_instances(directory: Path, regions: list[str], source: str) -> dict[str, Any]:
    """Write the instance types of all regions together; they replace those of before."""
    from pgstow.catalog.aws_responses import instance_of
    from pgstow.catalog.loading import INSTANCES_FILE
    from pgstow.catalog.tables import format_instances
    from pgstow.cloud import instance_types
    from pgstow.model import Provenance

    named = source or f"AWS DescribeInstanceTypes in {', '.join(regions)}"
    facts = Provenance("documented", named, _today())
    found: dict[str, Instance] = {}
    for one in regions:
        for answer in instance_types(one):
            instance = instance_of(answer, facts)
            found[instance.name] = instance
    if not found:
        raise HostError(f"AWS names no instance types in {', '.join(regions)}", "check --region")
    path = directory / INSTANCES_FILE
    _write(path, format_instances(found.values(), facts))
    return {"file": str(path), "what": "instance types", "rows": len(found), "date": facts.date}


def _update_prices(directory: Path, regions: list[str]) -> list[dict[str, Any]]:
    """Write the prices of each region; those of other regions stay as they were."""
    from pgstow.catalog.loading import INSTANCE_PRICES_FILE, PRICES_FILE
    from pgstow.catalog.writing import merged_instance_prices, merged_prices

    volumes: dict[str, dict[str, TypePrice]] = {}
    machines: dict[str, dict[str, InstancePrice]] = {}
    for region in regions:
        volumes[region], machines[region] = _prices(region)
        if not volumes[region]:
            raise UserError(
                f"AWS's price list has no volume prices in {region}",
                "check --region: us-east-1, eu-west-1 and so on",
            )
    volume_path, machine_path = directory / PRICES_FILE, directory / INSTANCE_PRICES_FILE
    _write(volume_path, merged_prices(_kept(volume_path), volumes))
    rows = [price for found in volumes.values() for price in found.values()]
    date = max(price.provenance.date for price in rows)
    written = [{"file": str(volume_path), "what": "volume prices", "rows": len(rows), "date": date}]
    known = {region: found for region, found in machines.items() if found}
    if known:
        _write(machine_path, merged_instance_prices(_kept(machine_path), known))
        count = sum(len(found) for found in known.values())
        written.append(
            {"file": str(machine_path), "what": "instance prices", "rows": count, "date": date}
        )
    return written


def _prices(region: str) -> "tuple[dict[str, TypePrice], dict[str, InstancePrice]]":
    from pgstow.catalog.aws_responses import (
        EBS_FAMILIES,
        INSTANCE_FILTERS,
        instance_prices,
        volume_prices,
    )
    from pgstow.cloud import products

    named = f"AWS Price List (GetProducts) of {region}"
    answers = [
        product
        for family in EBS_FAMILIES
        for product in products("AmazonEC2", {"regionCode": region, "productFamily": family})
    ]
    machines = products("AmazonEC2", {"regionCode": region, **INSTANCE_FILTERS})
    today = _today()
    return volume_prices(answers, named, today), instance_prices(machines, named, today)


def _today() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).date().isoformat()


def _kept(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}", "name another directory with --out"
        ) from None
