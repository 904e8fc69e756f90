"""``pgstow verify``: measure again, and put predicted beside measured."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.main import app
from pgstow.cli.observe import emulated_volumes, interruptible
from pgstow.cli.options import DEFAULT_WORKSPACE, CommitProbe, Dsn, Json, Workspace, parse_seconds
from pgstow.cli.options import Profile as FromProfile
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pgstow.catalog import Catalog
    from pgstow.model import Layout, Measurement, Prediction, Profile, Provenance, Warning
    from pgstow.model.statistics import Comparison
    from pgstow.workspace import Workspace as Store


@app.command()
def verify(
    layout: Annotated[
        Path | None,
        typer.Argument(
            metavar="LAYOUT", help="The layout to hold against; else the one that was applied last."
        ),
    ] = None,
    dsn: Dsn = "",
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long to measure.")] = "60s",
    interval: Annotated[str, typer.Option(metavar="TIME", help="How often to sample.")] = "5s",
    commit_probe: CommitProbe = None,
    from_profile: FromProfile = None,
    name: Annotated[str | None, typer.Option(help="What to call the new profile.")] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Measure the server's load again, and print predicted beside measured.

    Run it while the same load runs as when the server was observed. It is compared with the
    layout that was applied last; before any was, the latest plan's, else the server's own.

    Example: pgstow verify --duration 5min
    """
    from pgstow import catalog, verification
    from pgstow import observe as stage
    from pgstow.cli.output import console, print_json, print_warnings, progress
    from pgstow.cli.profiles import free_name
    from pgstow.cli.workspace import open_workspace

    duration_s = parse_seconds(duration, "--duration")
    interval_s = min(parse_seconds(interval, "--interval"), duration_s)
    rules = catalog.load()
    with open_workspace(workspace) as store:
        called = free_name(store, name)
        predicted = expected(store, layout, rules, from_profile)
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
        elsewhere = not_there(profile, predicted.layout, store)
        measured = replace(measured, warnings=(*measured.warnings, *elsewhere))
        store.add("profile", profile, called)
        store.add("measurement", measured)
    found = verification.compare(
        predicted.performance, measured.performance, tps_interval=predicted.tps_interval
    )
    if json:
        print_json({"predicted": predicted, "measured": measured, "comparisons": found})
        return
    console().print(table(found))
    console().print("Next: pgstow report")
    print_warnings(measured.warnings)


def expected(
    store: "Store", path: Path | None, rules: "Catalog", profile: str | None = None
) -> "Prediction":
    """The prediction to hold against: of the layout that is named, else applied, else planned.

    It is the plan's where a plan has that layout and no other profile is chosen.
    """
    from pgstow import prediction
    from pgstow.cli.loop import loop_of
    from pgstow.cli.profiles import chosen_profile, profile_of
    from pgstow.layout_file import read_layout

    found = loop_of(store, before=profile)
    plan, applied = found.plan, found.applied
    target_layout = read_layout(path) if path is not None else None
    if target_layout is None and applied is not None and applied.layout is None:
        raise UserError(
            "the layout that was applied last is not in the workspace",
            "name its file: pgstow verify LAYOUT",
        )
    if target_layout is None:
        target_layout = applied.layout if applied is not None else plan.layout if plan else None
    if plan is not None and target_layout == plan.layout and profile is None:
        return plan.prediction
    seen = profile_of(store, found.before) if found.before else chosen_profile(store, profile)
    return prediction.predict(seen, target_layout or seen.layout, rules)


def measure(
    profile: "Profile",
    layout: "Layout",
    rules: "Catalog",
    provenance: "Provenance | None" = None,
) -> "Measurement":
    """What a profile measured of a layout, with the catalog's limits and prices."""
    from pgstow import verification

    return verification.measurement(
        profile,
        layout,
        rules.layout_price(layout),
        devices={volume.name: rules.device(volume, layout.host) for volume in layout.volumes},
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

    shown = Table("", "predicted", "measured", "error", "", box=None, pad_edge=False)
    for column in shown.columns[1:4]:
        column.justify = "right"
    for one in comparisons:
        if one.predicted is None and one.measured is None:
            continue
        error = "" if one.error_pct is None else f"{one.error_pct:+.1f} %"
        shown.add_row(
            one.metric,
            _number(one.predicted, one.unit),
            _number(one.measured, one.unit),
            error,
            "missed" if one.is_missed else "",
        )
    return shown


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    if unit == "$":
        return f"${value:,.2f}"
    digits = 0 if value >= 1000 or unit == "µs" else 2
    return f"{value:,.{digits}f}" if unit == "per second" else f"{value:,.{digits}f} {unit}"


def not_there(profile: "Profile", layout: "Layout", store: "Store") -> "tuple[Warning, ...]":
    """A warning where diff has steps from the server to the layout that it is compared with."""
    from pgstow.cli.diff import between
    from pgstow.model import Warning

    steps = between(profile.server, layout, store).steps
    relations = sum(step.kind in ("move table", "move index") for step in steps)
    parts = [f"{relations} relation(s)"] if relations else []
    parts += ["pg_wal"] if any(step.kind == "move wal" for step in steps) else []
    if not parts:
        return ()
    return (
        Warning(
            "not-applied",
            f"the server is not on this layout: {' and '.join(parts)} are on other volumes",
            "run pgstow diff, then pgstow apply",
        ),
    )
