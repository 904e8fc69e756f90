"""``pgstow catalog``: what volume types and instances offer, cost, and by which source."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli.main import app
from pgstow.cli.options import Json
from pgstow.cli.output import console, print_json, print_warnings
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pgstow.catalog import Instance, InstancePrice, VolumeType

catalog_app = typer.Typer(help="Show volume types, instances, limits and prices.")
app.add_typer(catalog_app, name="catalog")

Region = Annotated[
    str,
    typer.Option(
        "--region",
        help="Region of the prices. Default: us-east-1, us-central1 of gce, eastus of azure.",
    ),
]


@catalog_app.callback(invoke_without_command=True)
def list_types(
    context: typer.Context,
    platform: Annotated[
        str,
        typer.Option(
            "--platform", help="Only types of this platform: ec2, rds, gce, azure, local."
        ),
    ] = "",
    region: Region = "",
    json: Json = False,
) -> None:
    """List the volume types. Example: pgstow catalog --platform ec2"""
    if context.invoked_subcommand is not None:
        return
    from pgstow.catalog import load
    from pgstow.cli.catalog_tables import prices_table, print_files, stale_warnings, types_table
    from pgstow.model import HostSpec

    catalog = load()
    volume_types = catalog.types(platform) if platform else tuple(catalog.volume_types.values())
    if not volume_types:
        raise UserError(
            f"the catalog has no volume types of platform {platform!r}",
            "use ec2, rds, gce, azure or local",
        )
    if json:
        print_json(volume_types)
        return
    _warn_of_region(volume_types, region)
    target = console()
    target.print(types_table(volume_types))
    target.print()
    target.print(prices_table(volume_types, region))
    target.print(
        "Limits are of one member of a stripe; of what RDS makes of four volumes, of all four. "
        "Read and write are median ms; "
        "'pgstow catalog show TYPE' names the sources.",
        style="dim",
    )
    print_files(catalog)
    if platform in ("", "ec2", "rds"):
        print_warnings(stale_warnings(catalog, HostSpec("ec2", region or None)))


@catalog_app.command("show")
def show_type(
    name: Annotated[str, typer.Argument(metavar="TYPE", help="A volume type, such as gp3.")],
    json: Json = False,
) -> None:
    """Show all rules of a volume type with their sources. Example: pgstow catalog show gp3"""
    from rich.text import Text

    from pgstow.catalog import load
    from pgstow.cli.catalog_tables import rules_table

    catalog = load()
    volume_type = catalog.volume_type(name)
    if json:
        print_json(volume_type)
        return
    target = console()
    title = f"  {volume_type.title}  (platforms: {', '.join(volume_type.platforms)})"
    target.print(Text(volume_type.name, style="bold").append(title, style="not bold"))
    beside = catalog.backup_prices if "rds" in volume_type.platforms else catalog.snapshot_prices
    target.print(rules_table(volume_type, beside))


@catalog_app.command("instances")
def list_instances(
    match: Annotated[str, typer.Option("--match", help="Only names that contain this.")] = "",
    region: Annotated[str, typer.Option("--region", help="Region of the prices.")] = "us-east-1",
    json: Json = False,
) -> None:
    """List EC2 instance types and their caps. Example: pgstow catalog instances --match r6i"""
    from dataclasses import asdict

    from pgstow.catalog import load
    from pgstow.cli.catalog_tables import instances_lines, print_files, stale_warnings
    from pgstow.model import HostSpec

    catalog = load()
    found = [catalog.instance(name) for name in catalog.instances if match in name]
    if not found:
        raise UserError(
            f"the catalog has no instance type with {match!r} in its name", "try a family: r6i"
        )
    prices = {one.name: catalog.instance_price(one.name, region) for one in found}
    if json:
        speeds = catalog.disk_speeds
        answers = [_instance_answer(one, prices[one.name], region) for one in found]
        for answer in answers:
            speed = speeds.get(answer["name"])
            answer["disks_speed"] = None if speed is None else asdict(speed)
        print_json(answers)
        return
    for line in instances_lines(found, prices, catalog.disk_speeds):
        console().print(line, soft_wrap=True)
    console().print(
        "MB are decimal. The second figure holds for 30 minutes a day; of disks, reads and writes "
        "of 4 KiB a second, of all disks together. Prices are on demand, a "
        f"month of 730 hours in {region}. {found[0].provenance}",
        style="dim",
        markup=False,
    )
    print_files(catalog)
    print_warnings(stale_warnings(catalog, HostSpec("ec2", region)))


def _instance_answer(
    instance: "Instance", price: "InstancePrice | None", region: str
) -> dict[str, Any]:
    """An instance and its price as plain data; an unknown price is null."""
    from dataclasses import asdict

    return {
        **asdict(instance),
        "region": region,
        "usd_hour": None if price is None else price.usd_hour,
        "usd_month": None if price is None else price.usd_month,
        "price_provenance": None if price is None else asdict(price.provenance),
    }


def _warn_of_region(volume_types: "tuple[VolumeType, ...]", region: str) -> None:
    from pgstow.model import Warning

    known = sorted({name for volume_type in volume_types for name in volume_type.prices})
    if known and region and region not in known:
        message = f"the catalog has no prices in region {region}"
        print_warnings([Warning("price-unknown", message, f"known are {', '.join(known)}")])
