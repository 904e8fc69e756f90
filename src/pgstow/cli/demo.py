"""``pgstow demo``: the whole loop on an embedded PostgreSQL and emulated volumes."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgstow.cli import demo_time
from pgstow.cli.main import app
from pgstow.cli.options import DryRun, Json
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from pgstow.apply import Observer
    from pgstow.cli.demo_loop import Demo
    from pgstow.cli.demo_place import DemoVolumes
    from pgstow.model import Layout, Measurement, Performance, Plan, Step

_LISTEN_S = 1.5
_QUIET_CORES = 0.2


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIRECTORY", help="Where the report and the summary go.")
    ] = Path("pgstow-demo"),
    scale: Annotated[int, typer.Option(min=1, help="Divide the 98 GB data set by this.")] = 16,
    clients: Annotated[int, typer.Option(min=1, max=100, help="Clients of the load.")] = 64,
    window: Annotated[
        int, typer.Option(min=10, metavar="SECONDS", help="How long each measurement takes.")
    ] = 45,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Run the whole loop on its own PostgreSQL 18: one gp3 volume, then what pgstow plans.

    Writes report.html, summary.json, the layouts and the workspace into --out. Needs root for its
    emulated volumes; without, it takes the same steps on plain directories and claims no gain.

    Example: pgstow demo --out build/demo
    """
    from pgstow.cli.output import console, error_console, print_json, print_warnings

    if dry_run:
        _say(out, scale, clients, window, json=json)
        return
    began = time.monotonic()
    _prepare(out)
    reporter = _Reporter(error_console(), began)
    with _demo(out, scale, clients, float(window), reporter) as run:
        shown = _run(run, reporter)
        summary = _summary(run.volumes, shown, time.monotonic() - began)
        _write(run, summary)
    for measured in (shown.before, shown.after):
        print_warnings(measured.warnings)
    if json:
        print_json(summary)
        return
    for line in _closing(summary, out, run.volumes):
        console().print(line, markup=False, soft_wrap=True)


def _say(out: Path, scale: int, clients: int, window: int, *, json: bool) -> None:
    """What the demo would do."""
    from pgstow.cli.output import console, print_json

    would = [
        "start a PostgreSQL 18 of its own on an emulated gp3 volume (as root; else a directory)",
        f"load the content platform, 1:{scale} of its 98 GB, and run {clients} clients",
        f"observe for {window} s, plan, emulate the planned volumes, apply, measure for {window} s",
        f"replace pgstow.db, report.html, summary.json and the layouts in {out}",
    ]
    if json:
        print_json({"actions": would})
        return
    for line in would:
        console().print(f"would: {line}", soft_wrap=True)


@dataclass
class _Reporter:
    """Reports each stage with the time since the start."""

    target: "Console"
    began: float

    def report(self, text: str) -> None:
        """One line."""
        self.target.print(
            f"[{time.monotonic() - self.began:4.0f} s] {text}", markup=False, soft_wrap=True
        )


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the loop gave, for the summary."""

    plan: "Plan"
    before: "Measurement"
    after: "Measurement"


def _prepare(out: Path) -> None:
    """The output directory, without an earlier demo's files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in ("pgstow.db", "pgstow.db-wal", "pgstow.db-shm", "report.html", "summary.json"):
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{out} cannot be used: {error.strerror}", "name another directory with --out"
        ) from error


@contextlib.contextmanager
def _demo(
    out: Path, scale: int, clients: int, window_s: float, reporter: _Reporter
) -> "Iterator[Demo]":
    """Volumes, server, memory limit and workspace of one demo, all removed but the workspace."""
    from pgstow import catalog
    from pgstow.cli.demo_loop import Demo, memory_limit
    from pgstow.cli.demo_place import demo_volumes
    from pgstow.cli.workspace import open_workspace
    from pgstow.host.server import EmbeddedServer, require_embedded, unprivileged_user

    require_embedded()
    rules, user = catalog.load(), unprivileged_user()
    with contextlib.ExitStack() as stack:
        volumes = stack.enter_context(demo_volumes(rules, user))
        if volumes.reason is not None:
            reporter.report(
                f"No emulated volumes: {volumes.reason}. Plain directories; no gain to show"
            )
        limit = stack.enter_context(memory_limit(reporter.report))
        store = stack.enter_context(open_workspace(out / "pgstow.db", create=True))
        layout = volumes.placed(_single_volume())
        volumes.up(layout)
        data = Path(layout.volume(layout.postgres.data).mount) / "pgdata"
        server = stack.enter_context(EmbeddedServer(data, user=user))
        yield Demo(
            volumes,
            server,
            store,
            rules,
            out,
            limit,
            scale,
            clients,
            window_s,
            layout,
            reporter.report,
            reporter.began,
        )


def _single_volume() -> "Layout":
    """Where everybody starts: one gp3 volume at its defaults, 3,000 IOPS and 125 MiB/s."""
    from pgstow.model import HostSpec, Layout, Placement, Volume
    from pgstow.units import GIB, Bytes

    return Layout(
        host=HostSpec("ec2", "us-east-1", "r6i.4xlarge"),
        volumes=(Volume("data", "gp3", Bytes(20 * GIB), "/data"),),
        postgres=Placement(data="data", wal="data"),
    )


def _warn_of_other_work(reporter: _Reporter) -> None:
    """Other processes' time counts as the server's in a profile of this machine."""
    from pgstow.host import cpu

    began, busy_s = time.monotonic(), cpu.busy_core_seconds()
    time.sleep(_LISTEN_S)
    busy_cores = (cpu.busy_core_seconds() - busy_s) / (time.monotonic() - began)
    if busy_cores > _QUIET_CORES:
        reporter.report(
            f"Other work keeps {busy_cores:.1f} cores busy: it will pass for the server's, and the "
            "gain be smaller; run the demo on a quiet machine"
        )


def _run(run: "Demo", reporter: _Reporter) -> _Shown:
    """Load, observe, explain, plan, apply under load, verify."""
    from pgstow.cli.output import progress
    from pgstow.layout_file import format_layout

    _warn_of_other_work(reporter)
    reporter.report(
        f"Loading the content platform, 1:{run.scale} of its 98 GB, with no limits in force"
    )
    with progress("loading") as update:
        spec = run.load(update)
    (run.out / "before.toml").write_text(format_layout(run.layout))
    reporter.report(f"{run.clients} clients on one gp3 volume (3,000 IOPS, 125 MiB/s): observing")
    with run.start_load(spec, "before") as load, progress("observing") as update:
        profile, before = run.look(load, run.layout, update)
    reporter.report(
        "Planning: the fastest layout for half as much again, commits four times as fast"
    )
    plan = run.plan(before, profile)
    (run.out / "planned.toml").write_text(format_layout(plan.layout))
    reporter.report(f"Planned: {', '.join(_volumes(plan.layout))}")
    with run.start_load(spec, "after") as load:
        reporter.report("Applying it while the load runs")
        run.apply(plan.layout, partial(_watching, reporter))
        window_s = demo_time.last_window_s(run.left_s, run.warm_up_s, run.window_s)
        reporter.report(f"The same load on the new layout: measuring for {window_s:.0f} s")
        with progress("measuring") as update:
            _, after = run.look(load, plan.layout, update, window_s=window_s)
    return _Shown(plan, before, after)


def _volumes(layout: "Layout") -> Iterator[str]:
    for volume in layout.volumes:
        yield f"{volume.name} ({volume.stripes} × {volume.type})"


def _watching(reporter: _Reporter, steps: "Sequence[Step]") -> "Observer":
    from pgstow.apply import Observer
    from pgstow.cli.diff import format_time

    class Watching(Observer):
        def step_started(self, position: int, total: int, step: "Step") -> None:
            left = format_time(steps[position - 1 :])
            reporter.report(f"  step {position}/{total}: {step.kind} {step.subject}; {left} left")

    return Watching()


def _summary(volumes: "DemoVolumes", shown: _Shown, seconds: float) -> dict[str, Any]:
    """What summary.json says; the keys are documented in docs/reference/demo-summary.md."""
    from pgstow import verification

    predicted = shown.plan.prediction.performance
    found = verification.compare(predicted, shown.after.performance)
    return {
        "volumes": "emulated" if volumes.is_emulated else "plain directories",
        "not_emulated_because": volumes.reason,
        "before": _measured(shown.before),
        "after": _measured(shown.after),
        "predicted": _figures(shown.plan.layout, predicted),
        "errors_pct": verification.errors_pct(found),
        "gap_pct": shown.plan.gap_pct,
        "speedup": shown.after.performance.tps / shown.before.performance.tps,
        "seconds": round(seconds, 1),
    }


def _measured(found: "Measurement") -> dict[str, Any]:
    """Figures with what was said of their measuring; of those that are no volume's, that."""
    from pgstow.verification.experiments import LIMITED_BY_EMULATOR

    return {
        **_figures(found.layout, found.performance),
        "is_limited_by_emulator": any(w.code == LIMITED_BY_EMULATOR for w in found.warnings),
        "warnings": [{"code": w.code, "message": w.message} for w in found.warnings],
    }


def _figures(layout: "Layout", speed: "Performance") -> dict[str, Any]:
    from pgstow.layout_file import format_layout

    return {
        "layout": format_layout(layout),
        "tps": speed.tps,
        "latency_ms": {"mean": speed.latency_ms.mean, "p99": speed.latency_ms.p99},
        "commit_ms": {"mean": speed.commit_ms.mean, "p99": speed.commit_ms.p99},
        "wal_sync_us": speed.wal_sync_us,
        "dollars_month": speed.usd_month,
        "dollars_per_1000_tps": speed.usd_per_1000_tps,
    }


def _write(run: "Demo", summary: dict[str, Any]) -> None:
    import json

    from pgstow.cli.report import write_page
    from pgstow.cli.report_document import document_of
    from pgstow.report import render

    (run.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    title = f"The content platform, 1:{run.scale}, on one gp3 volume and as pgstow planned it"
    write_page(run.out / "report.html", render(document_of(run.store, run.rules, title=title)))


def _closing(summary: dict[str, Any], out: Path, volumes: "DemoVolumes") -> Iterator[str]:
    """The result in a few lines."""
    yield f"{'':<22}{'before':>12}{'predicted':>12}{'after':>12}"
    rows: tuple[tuple[str, Callable[[dict[str, Any]], float | None], str], ...] = (
        ("TPS", lambda one: one["tps"], "{:,.0f}"),
        ("latency mean, ms", lambda one: one["latency_ms"]["mean"], "{:.2f}"),
        ("latency p99, ms", lambda one: one["latency_ms"]["p99"], "{:.2f}"),
        ("commit mean, ms", lambda one: one["commit_ms"]["mean"], "{:.2f}"),
        ("commit p99, ms", lambda one: one["commit_ms"]["p99"], "{:.2f}"),
        ("WAL sync, µs", lambda one: one["wal_sync_us"], "{:,.0f}"),
        ("$ per month", lambda one: one["dollars_month"], "{:.2f}"),
        ("$ per 1,000 TPS", lambda one: one["dollars_per_1000_tps"], "{:.2f}"),
    )
    for name, value, form in rows:
        cells = [value(summary[which]) for which in ("before", "predicted", "after")]
        texts = ["not known" if cell is None else form.format(cell) for cell in cells]
        yield f"{name:<22}" + "".join(f"{text:>12}" for text in texts)
    limited = [which for which in ("before", "after") if summary[which]["is_limited_by_emulator"]]
    if limited:
        yield f"Limited by the emulator {' and '.join(limited)}: that says nothing of volumes"
    elif volumes.is_emulated:
        yield f"{summary['speedup']:.1f} × the transactions, measured on emulated volumes"
    else:
        yield f"Plain directories ({volumes.reason}): these figures show the steps, not a gain"
    yield f"{out / 'report.html'}, {out / 'summary.json'}; {summary['seconds']:.0f} s"
