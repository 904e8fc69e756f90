"""``pgstow verify``: measure again, and put predicted beside measured."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.observe import emulated_volumes, interruptible
from pgstow.cli.options import DEFAULT_WORKSPACE, Dsn, Json, Workspace, parse_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.catalog import Catalog
    from pgstow.model import Layout, Measurement, Prediction, Profile, Provenance, Warning
    from pgstow.verification import Comparison
    from pgstow.workspace import Workspace as Store


@app.command()
def verify(
    layout: Annotated[
        Path | None, typer.Argument(help="The layout to hold against; else the latest plan's.")
    ] = None,
    dsn: Dsn = "",
    duration: Annotated[str, typer.Option(help="How long to measure.")] = "60s",
    interval: Annotated[str, typer.Option(help="How often to sample.")] = "5s",
    commit_probe: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Time so many tiny commits a second; they write WAL."),
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Measure the server's load again, and print predicted beside measured.

    Run it while the same load runs as when the server was observed.

    Example: pgstow verify --duration 5min
    """
    from pgstow import catalog, verification
    from pgstow import observe as stage
    from pgstow.cli.output import console, print_json, print_warnings, progress
    from pgstow.cli.workspace import open_workspace

    duration_s = parse_seconds(duration, "--duration")
    interval_s = min(parse_seconds(interval, "--interval"), duration_s)
    rules = catalog.load()
    with open_workspace(workspace) as store:
        predicted = expected(store, layout, rules)
        with interruptible() as stop, progress("measuring") as update:
            profile = stage.observe(
                dsn,
                duration_s=duration_s,
                interval_s=interval_s,
                layout=predicted.layout,
                emulated=emulated_volumes(),
                commit_probe_per_s=commit_probe,
                clock=time.monotonic,
                sleep=time.sleep,
                progress=update,
                stop=stop,
            )
        measured = measure(profile, predicted.layout, rules, origin(predicted.layout))
        store.add("prediction", predicted)
        store.add("profile", profile)
        store.add("measurement", measured)
    found = verification.compare(
        predicted.performance, measured.performance, tps_interval=predicted.tps_interval
    )
    if json:
        print_json({"predicted": predicted, "measured": measured, "comparisons": found})
        return
    console().print(table(found))
    print_warnings((*measured.warnings, *_not_there(profile, predicted.layout)))


def expected(store: "Store", path: Path | None, rules: "Catalog") -> "Prediction":
    """The prediction to hold against: the latest plan's, or of the layout that is named."""
    from pgstow import prediction
    from pgstow.cli.workspace import latest_profile
    from pgstow.layout_file import read_layout
    from pgstow.model import Plan

    plan = store.latest("plan", Plan)
    wanted = read_layout(path) if path is not None else None
    if plan is not None and wanted in (None, plan.layout):
        return plan.prediction
    profile = latest_profile(store)
    return prediction.predict(profile, wanted or profile.layout, rules)


def measure(
    profile: "Profile", layout: "Layout", rules: "Catalog", provenance: "Provenance"
) -> "Measurement":
    """What a profile measured of a layout, with the catalog's limits and prices."""
    from pgstow import verification

    return verification.measurement(
        profile,
        layout,
        rules.layout_price(layout),
        devices={volume.name: rules.device(volume) for volume in layout.volumes},
        volume_prices={v.name: rules.price(v, layout.host) for v in layout.volumes},
        provenance=provenance,
    )


def origin(layout: "Layout") -> "Provenance":
    """Whether a layout's volumes are emulated here or taken for what the layout says."""
    from pgstow.model import Provenance

    emulated = {volume.mount for volume in emulated_volumes()}
    if emulated and all(volume.mount in emulated for volume in layout.volumes):
        return Provenance("measured on emulated volumes")
    return Provenance("measured")


def table(comparisons: "Sequence[Comparison]") -> "Table":
    """Predicted beside measured."""
    from rich.table import Table

    shown = Table("", "predicted", "measured", "error", box=None, pad_edge=False)
    for column in shown.columns[1:]:
        column.justify = "right"
    for one in comparisons:
        if one.predicted is None and one.measured is None:
            continue
        error = "" if one.error_pct is None else f"{one.error_pct:+.1f} %"
        shown.add_row(
            one.metric, _number(one.predicted, one.unit), _number(one.measured, one.unit), error
        )
    return shown


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    if unit == "$":
        return f"${value:,.2f}"
    digits = 0 if value >= 1000 or unit == "µs" else 2
    return f"{value:,.{digits}f}" if unit == "per second" else f"{value:,.{digits}f} {unit}"


def _not_there(profile: "Profile", layout: "Layout") -> "tuple[Warning, ...]":
    """A warning where the server is not on the layout that it is held against."""
    from pgstow.model import Warning

    present = profile.layout
    wanted = {r for space in layout.tablespaces for r in space.relations}
    misplaced = [r for r in wanted if present.volume_of(r).mount != layout.volume_of(r).mount]
    wal = layout.volume(layout.postgres.wal).mount
    is_wal_there = present.volume(present.postgres.wal).mount == wal
    if not misplaced and is_wal_there:
        return ()
    parts = [f"{len(misplaced)} relation(s)"] if misplaced else []
    parts += [] if is_wal_there else ["pg_wal"]
    return (
        Warning(
            "not-applied",
            f"the server is not on this layout: {' and '.join(parts)} lie elsewhere",
            "run pgstow diff, then pgstow apply",
        ),
    )
