"""``pgstow apply``: execute the steps to a layout, or revert the last run's."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstow.cli.diff import Prune, as_plain, between, print_steps
from pgstow.cli.main import app
from pgstow.cli.names import shown
from pgstow.cli.options import DEFAULT_WORKSPACE, DryRun, Dsn, Json, Workspace, Yes, parse_seconds
from pgstow.model.errors import UserError

if TYPE_CHECKING:
    from pgstow.apply import Observer, Options, Outcome, Result
    from pgstow.model import ServerState, Step, Warning
    from pgstow.workspace import Workspace as Store

_RESTART_HELP = "Restart the server where a step (moving pg_wal) needs it."
_PLAIN_HELP = "Take the volumes' mounts as plain directories, on which nothing is mounted."


@app.command()
def apply(
    layout: Annotated[
        Path | None, typer.Argument(metavar="LAYOUT", help="The target layout (TOML).")
    ] = None,
    dsn: Dsn = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    restart: Annotated[bool, typer.Option("--restart", help=_RESTART_HELP)] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last run's steps back.")] = False,
    prune: Prune = False,
    lock_timeout: Annotated[
        str, typer.Option(help="How long one attempt may queue for a lock that blocks others.")
    ] = "500ms",
    lock_wait: Annotated[str, typer.Option(help="How long to go on attempting.")] = "10min",
    plain_directories: Annotated[
        bool, typer.Option("--plain-directories", help=_PLAIN_HELP)
    ] = False,
    workspace: Workspace = DEFAULT_WORKSPACE,
    json: Json = False,
) -> None:
    """Change the server to match LAYOUT, online; if it is interrupted, run it again.

    Examples: pgstow apply planned.toml --dry-run; pgstow apply planned.toml --restart;
    pgstow apply --undo
    """
    from pgstow.apply import Options
    from pgstow.cli.workspace import look_into, open_workspace

    if layout is None and not undo:
        raise UserError("no layout is named", "pgstow apply LAYOUT, or pgstow apply --undo")
    if not (dry_run or yes or sys.stdin.isatty()):
        raise UserError("there is no terminal to ask on", "add --yes, or --dry-run to look only")
    options = Options(
        lock_timeout_s=parse_seconds(lock_timeout, "--lock-timeout"),
        lock_wait_s=parse_seconds(lock_wait, "--lock-wait"),
        restart=restart,
        plain_directories=plain_directories,
    )
    looks_only = dry_run and not undo
    opened = look_into(workspace) if looks_only else open_workspace(workspace, create=not undo)
    with opened as store, _terminating_as_interrupt():
        if not dry_run:
            _recover(store, dsn, options, None if undo else layout)
        if undo:
            _undo(store, dsn, options, yes=yes, dry_run=dry_run, json=json)
        elif layout is not None:
            _apply(store, layout, dsn, options, prune=prune, yes=yes, dry_run=dry_run, json=json)


def _apply(
    store: "Store",
    path: Path,
    dsn: str,
    options: "Options",
    *,
    prune: bool,
    yes: bool,
    dry_run: bool,
    json: bool,
) -> None:
    from pgstow import apply
    from pgstow.cli.loop import remember_layout
    from pgstow.cli.output import print_warnings
    from pgstow.layout_file import layout_digest, read_layout
    from pgstow.postgres import read_state

    target_layout = read_layout(path)
    found = between(read_state(dsn), target_layout, store, prune=prune)
    print_warnings(found.warnings)
    _say_resumed(store, found.state, layout_digest(target_layout))
    agreed = _agreed(found.steps, found.warnings, yes=yes, dry_run=dry_run, json=json)
    has_open_steps = not (
        found.steps or dry_run or store.journal.is_reconciled(found.state.system_identifier)
    )
    if not agreed and not has_open_steps:
        return
    remember_layout(store, target_layout)
    with _interruptible(f"pgstow apply {path}"), _bars() as observer:
        result = apply.run(
            found.steps,
            state=found.state,
            layout=layout_digest(target_layout),
            dsn=dsn,
            journal=store.journal,
            options=options,
            observer=observer,
        )
    if found.steps:
        _report(result, json=json)


def _undo(
    store: "Store", dsn: str, options: "Options", *, yes: bool, dry_run: bool, json: bool
) -> None:
    from pgstow import apply, migration
    from pgstow.cli.output import console, print_json
    from pgstow.postgres import read_state

    state = read_state(dsn)
    server = state.system_identifier
    last = store.journal.last_undoable(server)
    if last is None and not (dry_run or store.journal.is_reconciled(server)):
        last = store.journal.last_run(server)  # nothing to revert, but there may be leftovers
    if last is None:
        if json:
            print_json({"run": None, "outcomes": [], "warnings": []})
        else:
            console().print("There is nothing to undo on this server.")
        return
    backward = [
        (record, migration.inverse(record.step))
        for record in reversed(store.journal.in_effect(last.id))
    ]
    agreed = _agreed([step for _, step in backward], (), yes=yes, dry_run=dry_run, json=json)
    if dry_run or (backward and not agreed):
        return
    with _interruptible("pgstow apply --undo"), _bars() as observer:
        result = apply.undo(
            backward,
            run_id=last.id,
            state=state,
            dsn=dsn,
            journal=store.journal,
            options=options,
            observer=observer,
        )
    if backward:
        _report(result, json=json)


def _recover(store: "Store", dsn: str, options: "Options", layout: Path | None) -> None:
    """A move of pg_wal that was killed may have left the server down: see to that first.

    Without a layout it is to be reverted.
    """
    from dataclasses import replace
    from functools import partial

    from pgstow import apply
    from pgstow.cli.output import error_console

    again = "pgstow apply --undo" if layout is None else f"pgstow apply {layout}"
    with _interruptible(again), _bars() as observer:
        done = apply.recover(
            store.journal,
            options=replace(options, restart=options.restart and layout is not None),
            observer=observer,
            checkpoint=partial(apply.checkpoint, dsn),
        )
    for message in done:
        error_console().print(shown(message), markup=False)


def _say_resumed(store: "Store", state: "ServerState", digest: str) -> None:
    from pgstow.cli.output import error_console

    last = store.journal.last_run(state.system_identifier)
    if last is None or last.layout != digest or last.status not in ("running", "failed"):
        return
    done = [record for record in store.journal.steps(last.id) if record.status == "done"]
    error_console().print(
        f"Taking up the run of {last.started_at[:19]}Z: {len(done)} step(s) are done already."
    )
    for record in done:
        error_console().print(f"  done: {shown(record.step.action)}", markup=False)


def _agreed(
    steps: "Sequence[Step]",
    warnings: "Sequence[Warning]",
    *,
    yes: bool,
    dry_run: bool,
    json: bool,
) -> bool:
    """Show the steps; whether they are to be executed."""
    from pgstow.cli.output import confirm, print_json

    if json and (dry_run or not steps):
        print_json(as_plain(steps, warnings))
    if not json:
        print_steps(steps)
    if dry_run or not steps:
        return False
    return yes or confirm("Take these steps?")


def _report(result: "Result", *, json: bool) -> None:
    from pgstow.cli.output import console, print_json, print_warnings

    if json:
        print_json(result)
    else:
        print_warnings(result.warnings)
        target = console()
        count = len(result.outcomes) - len(result.failed) - len(result.skipped)
        target.print(f"{count} of {len(result.outcomes)} step(s) executed.")
        for outcome in (*result.skipped, *result.failed):
            text = f"{outcome.status}: {outcome.step.kind} {outcome.step.subject}: {outcome.note}"
            target.print(shown(text), markup=False, soft_wrap=True)
    if result.failed:
        raise typer.Exit(1)


@contextmanager
def _interruptible(again: str) -> Iterator[None]:
    from pgstow.cli.output import error_console

    try:
        yield
    except KeyboardInterrupt as stop:
        found = f": {shown(str(stop))}" if str(stop) else ""
        error_console().print(
            f"Interrupted{found}. What was done is kept: run {again} again to go on, or "
            "pgstow apply --undo to go back.",
            markup=False,
        )
        raise typer.Exit(130) from None


@contextmanager
def _terminating_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as cleanly as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _bars() -> "Iterator[Observer]":
    """A bar for the present step, with the time left; a line for each that is finished."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from pgstow.apply import Observer
    from pgstow.cli.output import error_console

    console = error_console()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[waits]}", markup=False),
    )

    class Bars(Observer):
        def __init__(self, bar: Progress) -> None:
            self.bar = bar
            self.task: TaskID | None = None
            self.position = ""

        def step_started(self, position: int, total: int, step: "Step") -> None:
            self._end()
            self.position = f"{position}/{total}"
            title = f"{self.position} {step.kind} {shown(step.subject)}"
            self.task = self.bar.add_task(title, total=None, waits="")

        def advanced(self, done_bytes: float, total_bytes: float) -> None:
            if self.task is not None:
                self.bar.update(self.task, completed=done_bytes, total=total_bytes, waits="")

        def waiting(self, text: str) -> None:
            if self.task is None:  # for what an earlier run left
                self.task = self.bar.add_task("", total=None, waits="")
            self.bar.update(self.task, waits=shown(text))

        def step_finished(self, outcome: "Outcome") -> None:
            self._end()
            console.print(_line(self.position, outcome), markup=False, soft_wrap=True)

        def _end(self) -> None:
            if self.task is not None:
                self.bar.remove_task(self.task)
                self.task = None

    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        yield Bars(bar)


def _line(position: str, outcome: "Outcome") -> str:
    from pgstow.units import format_duration

    time = f" in {format_duration(outcome.seconds)}" if outcome.seconds is not None else ""
    note = f" ({outcome.note})" if outcome.note else ""
    step = outcome.step
    return shown(f"{position} {outcome.status}: {step.kind} {step.subject}{time}{note}")
