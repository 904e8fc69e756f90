"""``pgstow emulate bench``: how true emulated volumes are on this machine, in a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgstow.cli import options
from pgstow.cli.emulate import commands
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from pgstow.emulate.bench import BenchPlan, BenchReport, Compared, Nearness, Row

_NEARNESSES: "tuple[Nearness, ...]" = ("closer", "even", "farther")


@commands.command("bench")
def bench(
    *,
    rows: Annotated[
        str | None,
        typer.Option(metavar="KEYS", help="Only these rows, as 'limit-*,gp2-*'; see --dry-run."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The main rows for a second each: within a minute.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(help="Of each row; as many as there is time for (5 min) if not given."),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Of nbdkit, qemu, none; those installed if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the order and of fio's offsets.")] = 1,
    state_dir: Annotated[
        Path, typer.Option("--state-dir", help="Where the volumes are while it runs.")
    ] = Path("/run/pgstow/bench"),
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Measure with fio how true emulated volumes are to their model here, and at what speed.

    Beside them, where installed, nbdkit (delay and rate filters) and qemu-storage-daemon
    (throttle groups) do the same jobs in the same run, all in random order. Needs root, fio and
    an otherwise idle machine. A bar that is not met is reported; the exit status stays 0.
    Example: sudo pgstow emulate bench --quick
    """
    from pgstow.cli import output
    from pgstow.emulate import bench as measuring

    names = _peers(peers)
    plan = measuring.make_plan(peers=names, rows=rows, quick=quick, repeats=repeats, seed=seed)
    if dry_run:
        _print_plan(plan, json)
        return
    if not json:
        _announce(plan)
    with output.progress("Measuring") as update:
        report = measuring.run(plan, directory=state_dir, progress=update)
    output.print_warnings(report.warnings)
    if json:
        output.print_json({"report": report, "failed": report.failed})
    else:
        print_report(report)


def _peers(text: str | None) -> tuple[str, ...]:
    from pgstow.emulate import bench as measuring

    if text is None:
        return measuring.installed_peers()
    known = measuring.known_peers()
    names = [name.strip() for name in text.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if name not in known:
            raise UserError(f"--peers {name!r} is not known", f"use {', '.join(known)} or none")
    return tuple(name for name in known if name in names)


def _announce(plan: "BenchPlan") -> None:
    from pgstow.cli import output
    from pgstow.emulate import bench as measuring
    from pgstow.units import format_duration

    text = f"{len(plan.rows)} rows, {plan.repeats} × each, about {format_duration(plan.seconds)}"
    beside = ", ".join(plan.peers) or "nothing else"
    absent = [
        f"{peer} (no {', '.join(missing)})"
        for peer in measuring.known_peers()
        if (missing := measuring.missing_of(peer))
    ]
    text += f"; beside {beside}" + (f"; not installed: {', '.join(absent)}" if absent else "")
    output.error_console().print(text, markup=False, soft_wrap=True)


def _print_plan(plan: "BenchPlan", json: bool) -> None:
    from pgstow.cli import output
    from pgstow.units import format_duration

    if json:
        output.print_json({"plan": plan, "seconds": plan.seconds})
        return
    table = _table(("row", "what", "model", "bar", "unit"), right=(2, 4))
    for row in plan.rows:
        table.add_row(row.key, row.what, _expected(row), _bar(row), _unit(row))
    output.console().print(table)
    output.console().print(
        f"{plan.repeats} × each, on pgstow{''.join(f', {peer}' for peer in plan.peers)}; about"
        f" {format_duration(plan.seconds)}",
        soft_wrap=True,
    )


def print_report(report: "BenchReport") -> None:
    """Print the tables of a run and what they say."""
    from pgstow.cli import output

    console = output.console()
    console.print(_own_table(report))
    if report.compared:
        console.print()
        console.print(_peer_table(report))
        console.print()
        for line in _cannot_lines(report):
            console.print(line, markup=False, soft_wrap=True)
    console.print()
    for line in _summary(report):
        console.print(line, markup=False, soft_wrap=True)


def _own_table(report: "BenchReport") -> "Table":
    table = _table(("row", "unit", "model", "median", "spread", "off", "bar", ""), right=(2, 6))
    for result in report.rows:
        row, ours = result.row, result.ours
        table.add_row(
            row.key,
            _unit(row),
            _expected(row),
            _shown(row, ours.median),
            "–" if len(ours.samples) < 2 else f"{ours.spread * 100:.1f}%",
            _off(ours.deviation),
            _bar(row),
            _alarm("MISSED") if ours.passed is False else "ok" if ours.passed else "",
        )
    return table


def _peer_table(report: "BenchReport") -> "Table":
    titles = ("row", "peer", "pgstow", "peer", "off", "peer off", "pgstow", "CPU")
    table = _table(titles, right=(2, 7))
    by_key = {result.row.key: result for result in report.rows}
    for compared in report.compared:
        result = by_key[compared.key]
        peer = next(one for one in result.measured if one.subject == compared.peer)
        nearness = compared.nearness or ""
        table.add_row(
            result.row.key,
            compared.peer,
            _shown(result.row, result.ours.median),
            _shown(result.row, peer.median),
            _off(compared.deviation),
            _off(compared.peer_deviation),
            _alarm("farther") if nearness == "farther" else nearness,
            _ratio(compared),
        )
    return table


def _alarm(text: str) -> "Text":
    from rich.text import Text

    return Text(text, style="red")


def _ratio(compared: "Compared") -> "str | Text":
    if compared.cpu_ratio is None:
        return "–"
    text = f"× {compared.cpu_ratio:.1f}"
    return text if compared.has_cpu_ratio else _alarm(text)


def _cannot_lines(report: "BenchReport") -> list[str]:
    found: dict[str, list[str]] = {}
    for result in report.rows:
        for one in result.measured:
            for what in one.cannot:
                if what not in found.setdefault(one.subject, []):
                    found[one.subject].append(what)
    return [f"{peer} cannot {', '.join(whats)}." for peer, whats in found.items() if whats]


def _summary(report: "BenchReport") -> list[str]:
    from pgstow.emulate.bench import PEER_CPU_RATIO
    from pgstow.units import format_duration, format_size

    machine = report.machine
    barred = [result for result in report.rows if result.ours.passed is not None]
    met = len(barred) - len(report.failed)
    lines = [f"{met} of {len(barred)} bars met; n = {report.plan.repeats} each, medians."]
    if report.failed:
        lines.append(f"MISSED: {', '.join(report.failed)}")
    judged = [one.nearness for one in report.compared if one.nearness is not None]
    if judged:
        counts = ", ".join(f"{word} in {judged.count(word)}" for word in _NEARNESSES)
        ratios = [one for one in report.compared if one.cpu_ratio is not None]
        enough = sum(1 for one in ratios if one.has_cpu_ratio)
        lines.append(
            f"Beside peers, pgstow is to the model {counts} of {len(judged)} comparisons; at least"
            f" {PEER_CPU_RATIO:g} × their IOPS per server CPU-second in {enough} of {len(ratios)}."
        )
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions)
    lines.append(
        f"{machine.processor}, {machine.cores} cores, {format_size(machine.memory_bytes)}, Linux"
        f" {machine.kernel}; {versions}; {format_duration(report.seconds)}."
    )
    return lines


def _table(titles: tuple[str, ...], *, right: tuple[int, int]) -> "Table":
    """``right`` are the first column whose figures stand right, and the one after the last."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(titles):
        is_right = number in range(*right)
        justify: Literal["right", "left"] = "right" if is_right else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=number == 0)
    return table


def _expected(row: "Row") -> str:
    return "–" if row.wanted is None else _shown(row, row.wanted)


_UNITS = {
    "iops": "IOPS",
    "bytes_per_s": "MB/s",
    "p50_us": "µs",
    "p99_us": "µs",
    "mean_us": "µs",
    "cores": "cores",
    "iops_per_cpu_s": "/CPU-s",
    "seconds": "s",
    "share": "%",
}


def _unit(row: "Row") -> str:
    return _UNITS[row.figure]


def _shown(row: "Row", value: float) -> str:
    match row.figure:
        case "bytes_per_s":
            return f"{value / 1e6:,.1f}"
        case "cores":
            return f"{value:.2f}"
        case "share":
            return f"{value * 100:.1f}"
        case _:
            return f"{value:,.0f}"


def _off(deviation: float | None) -> str:
    return "" if deviation is None else f"{deviation * 100:+.2f}%"


def _bar(row: "Row") -> str:
    match row.bar.kind:
        case "within share":
            return f"±{row.bar.value * 100:g}%"
        case "within":
            return f"±{_shown(row, row.bar.value)}"
        case "at least":
            return f"≥{_shown(row, row.bar.value)}"
        case "at most":
            return f"≤{_shown(row, row.bar.value)}"
        case _:
            return ""
