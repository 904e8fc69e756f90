"""``pgstow emulate crash-test``: cut the power under PostgreSQL and see what it kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli import options
from pgstow.cli.emulate import commands
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from pgstow.emulate.crash_test import CampaignPlan, CampaignResult, CombinationResult

_COLUMNS = ("cuts", "at risk", "most", "dropped", "transfers", "lost", "amcheck", "other")


@commands.command("crash-test")
def crash_test(
    cuts: Annotated[
        int, typer.Option(help="Power cuts with unflushed writes present, in all.")
    ] = 200,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="One cut of each kind: about a minute.")
    ] = False,
    filesystem: Annotated[str, typer.Option(help="Of xfs, ext4.")] = "xfs,ext4",
    wal: Annotated[
        str, typer.Option(help="Of apart (on a volume of its own), together.")
    ] = "apart,together",
    loss: Annotated[
        str, typer.Option(help="What becomes of unflushed writes: of all, subset, reorder, torn.")
    ] = "all,subset,reorder,torn",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn at random.")] = 1,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the server; may be given several times.",
        ),
    ] = None,
    bindir: Annotated[
        Path | None,
        typer.Option(help="The PostgreSQL to test; else the embedded one."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where each cut, and the log of each that failed, is written.")
    ] = Path("pgstow-crash-test"),
    state_dir: Annotated[
        Path, typer.Option("--state-dir", help="Where the volumes are while it runs.")
    ] = Path("/run/pgstow/crash-test"),
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Cut the power under a PostgreSQL at work and check that it lost nothing it acknowledged.

    Each cut loses writes that were not flushed, of all volumes at once; then filesystem and server
    recover, and a ledger, page checksums and pg_amcheck tell what is wrong. A control with fsync
    off must lose something. Exits with 1 where anything is lost or nothing is proved.

    The table, for cuts that count: writes at risk (median and most), writes dropped or torn;
    transfers acknowledged, transfers lost, and what pg_amcheck and the other checks found.

    Example: sudo pgstow emulate crash-test --quick
    """
    from pgstow.cli import output
    from pgstow.emulate.crash_test import make_plan, run

    plan = make_plan(
        filesystems=_words(filesystem),
        wal=_words(wal),
        losses=_words(loss),
        cuts=cuts,
        seed=seed,
        quick=quick,
        settings=[_setting(text) for text in setting or ()],
    )
    if dry_run:
        _print_plan(plan, json)
        return
    with output.progress("Cutting the power") as update:
        result = run(plan, output=out, directory=state_dir, bindir=bindir, progress=update)
    if json:
        output.print_json(result.as_json())
    else:
        _print_result(result, out)
    if not result.passed:
        raise typer.Exit(1)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--set {text!r} is not NAME=VALUE", "write --set wal_sync_method=fsync")
    return name.strip(), value.strip()


def _print_plan(plan: "CampaignPlan", json: bool) -> None:
    from pgstow.cli import output
    from pgstow.units import format_duration

    if json:
        output.print_json({"plan": plan, "cuts": plan.cuts, "seconds": plan.seconds})
        return
    console = output.console()
    for combination in plan.combinations:
        console.print(f"{plan.cuts_each} cuts: {combination.text}", markup=False)
    console.print(
        f"{plan.cuts} cuts that count on {len(plan.groups)} clusters, each with a control with"
        f" fsync off; about {format_duration(plan.seconds)}. Volumes of 1 to 1.5 GiB at a time, in"
        " memory as far as they are written.",
        soft_wrap=True,
    )


def _print_result(result: "CampaignResult", out: Path) -> None:
    from pgstow.cli import output
    from pgstow.units import format_duration

    console = output.console()
    console.print(_table(result))
    controls = [cut for cut in result.cuts if cut.is_control]
    lost = sum(1 for cut in controls if not cut.findings.is_clean)
    console.print(
        f"\n{result.counted} cuts with unflushed writes, in"
        f" {format_duration(result.seconds)}; {lost} of {len(controls)} controls with fsync off"
        f" lost something. {result.postgres}, Linux {result.kernel}. Each cut: {out}/cuts.jsonl",
        markup=False,
        soft_wrap=True,
    )
    for failure in result.failures:
        console.print(f"FAILED: {failure}", markup=False, soft_wrap=True)
    if result.passed:
        console.print("PASSED: nothing that was acknowledged was lost or damaged.")


def _table(result: "CampaignResult") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for title in _COLUMNS:
        table.add_column(title, justify="right")
    for row in result.combinations:
        table.add_row(*_cells(row))
    return table


def _cells(row: "CombinationResult") -> list[str]:
    combination = row.combination
    figures = (
        row.counted,
        row.unflushed_writes_median,
        row.unflushed_writes_max,
        row.lost_writes,
        row.transfers,
        row.transfers_lost,
        row.amcheck_problems,
        row.other_problems,
    )
    name = f"{combination.filesystem} {combination.wal} {combination.loss_text}"
    return [name, *(f"{figure:,.0f}" for figure in figures)]
