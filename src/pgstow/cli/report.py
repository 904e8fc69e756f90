"""``pgstow report``: one self-contained HTML file of what the workspace holds."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from pgstow.cli.main import app
from pgstow.cli.options import DEFAULT_WORKSPACE, Json, Workspace
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgstow.catalog import Catalog
    from pgstow.model import Layout, Measurement, Plan, Profile
    from pgstow.report import ExperimentSection, ReportDocument, StepOutcome, VolumePrice
    from pgstow.verification import Effect
    from pgstow.workspace import Kind
    from pgstow.workspace import Workspace as Store

T = TypeVar("T")


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="Where the page is written.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Also write every chart there as a picture."),
    ] = None,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Write one HTML file of all that was observed, planned, applied, measured and compared.

    The file loads nothing from a network. With --json the same content is printed instead. With
    --png every chart is also written as a picture of its own.

    Example: pgstow report --out report.html --png charts
    """
    from pgstow import catalog
    from pgstow.cli.output import console, print_json
    from pgstow.report import render, render_pngs
    from pgstow.workspace import Workspace as Store

    with Store.open(workspace, create=False) as store:
        document = document_of(store, catalog.load(), title=title)
    if png is not None:
        write_pictures(png, render_pngs(document))
    if json:
        print_json(document)
        return
    write_page(out, render(document))
    console().print(f"Written to {out}", markup=False, soft_wrap=True)


def write_page(path: Path, page: str) -> None:
    """Write a page so that the file is whole or not there."""
    import os
    import tempfile

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(page)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}", "name another file with --out"
        ) from error


def write_pictures(directory: Path, pictures: "Mapping[str, bytes]") -> None:
    """Write each picture under its name; the directory is made if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (directory / f"{name}.png").write_bytes(picture)
    except OSError as error:
        raise UserError(
            f"pictures cannot be written to {directory}: {error.strerror}",
            "name another directory with --png",
        ) from error


def document_of(store: "Store", rules: "Catalog", *, title: str | None = None) -> "ReportDocument":
    """All that a workspace has for a page: its latest plan with what is around it, its experiments.

    What was stored before the plan is "before", what was measured of the plan's layout after it
    is "after". Without a plan the latest profile is all there is.
    """
    from pgstow import verification
    from pgstow.cli.bench_report import sections_of
    from pgstow.report import ReportDocument

    found = _Found(store)
    experiments = sections_of(store, rules)
    plan, profile = found.plan, found.profile
    before, after, predicted = found.before(rules), found.after, found.predicted
    known = profile or found.profile_after
    if not experiments and all(one is None for one in (known, plan, before, predicted)):
        raise UserError(
            "the workspace holds nothing to report", "run pgstow observe or pgstow bench first"
        )
    document = ReportDocument(
        title=title or (_title(known) if known or not experiments else _named(experiments)),
        generated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        server_version=known.server.version if known else None,
        machine=_machine(known) if known else None,
        profile=profile,
        profile_after=found.profile_after,
        before=before,
        after=after,
        predicted=predicted,
        plan=plan,
        steps=_steps(store, known),
        comparisons=verification.compare(
            predicted.performance, after.performance, tps_interval=predicted.tps_interval
        )
        if predicted and after
        else (),
        effect=_effect(before, after),
        tps_interval_before=_interval(before),
        tps_interval_after=_interval(after),
        commands=_commands(profile, plan, after),
        experiments=experiments,
    )
    return _with_prices(document, rules)


def _last_before(store: "Store") -> int | None:
    """The number of the last document that is of before; None: all are.

    That is the latest plan; without one, what precedes the profile of the latest measurement.
    """
    plans, profiles, measured = (store.list(k) for k in ("plan", "profile", "measurement"))
    if plans:
        return plans[-1].id
    if len(profiles) > 1 and measured and measured[-1].id > profiles[-1].id:
        return profiles[-1].id - 1
    return None


class _Found:
    """The documents of a workspace that belong together."""

    def __init__(self, store: "Store") -> None:
        from pgstow.model import Measurement, Plan, Prediction, Profile

        self.plan: Plan | None = store.latest("plan", Plan)
        self._cut = _last_before(store)
        self.profile: Profile | None = self._before(store, "profile", Profile)
        self._measured: Measurement | None = self._before(store, "measurement", Measurement)
        self.after: Measurement | None = self._since(store, "measurement", Measurement)
        self.profile_after: Profile | None = self._since(store, "profile", Profile)
        if self.after is None:
            self.profile_after = None
        latest = store.latest("prediction", Prediction)
        known = [p for p in (self.plan.prediction if self.plan else None, latest) if p is not None]
        if self.after is not None:  # another layout may have been made than was planned
            known = [p for p in known if p.layout == self.after.layout]
        self.predicted: Prediction | None = known[0] if known else None

    def before(self, rules: "Catalog") -> "Measurement | None":
        """What was measured before the plan; else what its profile says."""
        from pgstow.cli.verify import measure
        from pgstow.model import Provenance

        profile, measured = self.profile, self._measured
        present = self.plan.present.layout if self.plan else profile.layout if profile else None
        if measured is not None and measured.layout == present:
            return measured
        if profile is None:
            return None
        # Whether its volumes were emulated cannot be known any more: it says no more than observed.
        seen = Provenance("observed", "PostgreSQL's statistics", profile.started_at[:10])
        return measure(profile, profile.layout, rules, seen)

    def _before(self, store: "Store", kind: "Kind", type: type[T]) -> T | None:
        """The newest of a kind that is older than the plan."""
        older = [e for e in store.list(kind) if self._cut is None or e.id <= self._cut]
        return store.get(kind, older[-1].id, type) if older else None

    def _since(self, store: "Store", kind: "Kind", type: type[T]) -> T | None:
        """The newest of a kind that is younger than the plan."""
        newer = [e for e in store.list(kind) if self._cut is not None and e.id > self._cut]
        return store.get(kind, newer[-1].id, type) if newer else None


def _title(profile: "Profile | None") -> str:
    names = [n for n in profile.server.databases if n != "postgres"] if profile else []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"Storage of {names[0]}{more}" if names else "Storage of a PostgreSQL server"


def _named(experiments: "Sequence[ExperimentSection]") -> str:
    """The title of a page that has nothing but experiments."""
    titles = list(dict.fromkeys(one.experiment.title for one in experiments))
    return titles[0] if len(titles) == 1 else "Experiments on PostgreSQL's storage"


def _machine(profile: "Profile") -> str | None:
    from pgstow.units import format_size

    spec, host = profile.layout.host, profile.host
    parts = [part for part in (spec.platform, spec.instance, spec.region) if part]
    if host is not None:
        parts.append(f"{host.cores} cores, {format_size(host.memory_bytes)}")
    return " ".join(parts) or None


def _steps(store: "Store", profile: "Profile | None") -> "tuple[StepOutcome, ...]":
    """What the journal says of the last run on the server; lapsed plans of it are left out."""
    from pgstow.report import StepOutcome

    run = store.journal.last_run(profile.server.system_identifier) if profile else None
    if run is None:
        return ()
    return tuple(
        StepOutcome(record.step, record.status, record.seconds, record.bytes, record.note)
        for record in store.journal.steps(run.id)
        if not (record.status == "skipped" and record.note == "planned again")
    )


def _effect(before: "Measurement | None", after: "Measurement | None") -> "Effect | None":
    from pgstow import verification

    if before is None or after is None or before.layout == after.layout:
        return None
    one = [value for value in before.tps_samples if value > 0]
    other = [value for value in after.tps_samples if value > 0]
    return verification.effect(one, other) if one and other else None


def _interval(measured: "Measurement | None") -> tuple[float, float] | None:
    from pgstow import verification

    found = verification.mean_interval(measured.tps_samples) if measured else None
    return (found.low, found.high) if found else None


def _with_prices(document: "ReportDocument", rules: "Catalog") -> "ReportDocument":
    from dataclasses import replace

    before, after = document.layout_before, document.layout_after
    return replace(
        document,
        prices_before=_prices(before, rules) if before else (),
        prices_after=_prices(after, rules) if after else (),
    )


def _prices(layout: "Layout", rules: "Catalog") -> "tuple[VolumePrice, ...]":
    from pgstow.report import VolumePrice

    found = []
    for volume in layout.volumes:
        price = rules.volume_type(volume.type).price_in(layout.host.region)
        known = rules.price(volume, layout.host)
        origin = price.provenance if price and known.usd_month is not None else None
        found.append(VolumePrice(volume.name, known, origin))
    return tuple(found)


def _commands(
    profile: "Profile | None", plan: "Plan | None", after: "Measurement | None"
) -> tuple[str, ...]:
    """The commands that lead to such a page again; what was asked of them is in their values."""
    lines = []
    if profile is not None:
        seconds = f"{max(1, round(profile.seconds))}s"
        lines.append(f"pgstow observe --duration {seconds}")
    if plan is not None:
        lines += [f"pgstow plan{_goal(plan)} --out planned.toml", "pgstow diff planned.toml"]
        lines.append("pgstow apply planned.toml")
    if after is not None:
        lines.append(f"pgstow verify --duration {max(1, round(after.seconds))}s")
    return (*lines, "pgstow report")


def _goal(plan: "Plan") -> str:
    goal = plan.goal
    parts = [
        f"--commit-p99 {goal.commit_p99_ms:g}ms" if goal.commit_p99_ms is not None else "",
        f"--read-p99 {goal.read_p99_ms:g}ms" if goal.read_p99_ms is not None else "",
        f"--tps {goal.tps:.0f}" if goal.tps is not None else "",
        f"--headroom {goal.headroom:g}" if goal.headroom != 0.2 else "",
        f"--budget {goal.budget_usd_month:.2f}" if goal.budget_usd_month is not None else "",
        *(f"--allow {name}" for name in goal.allow_types),
        *(f"--forbid {name}" for name in goal.forbid_types),
    ]
    return "".join(f" {part}" for part in parts if part)
