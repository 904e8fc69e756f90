"""The command line: parse, call one stage, print; errors become exit codes.

Command modules import only typer at their top, so that ``--help`` answers at once.
"""

import errno
import io
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import typer
import typer.core

from pgstow import __version__
from pgstow.cli import output
from pgstow.model.errors import PgstowError


class InOrder(typer.core.TyperGroup):
    """Lists its commands in the order a person uses them; what is not named comes last."""

    order: ClassVar[tuple[str, ...]] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in order."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda n: self.order.index(n) if n in self.order else len(names))


class _Stages(InOrder):
    order = (
        "observe",
        "explain",
        "plan",
        "diff",
        "apply",
        "verify",
        "bench",
        "report",
        "catalog",
        "emulate",
    )

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Plainly: what lays out the commands' own help takes longer to read than all else here."""
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each with the whole of its first sentence."""
        found = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=200)) for name, one in found])


app = typer.Typer(
    name="pgstow",
    cls=_Stages,
    help="EXPLAIN ANALYZE for the storage under PostgreSQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        output.print_plain(f"pgstow {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
) -> None:
    """Measure, plan, move and prove the storage of a PostgreSQL server."""


_UsageError: Any = typer.BadParameter.__base__  # typer does not export it
# What a path on the command line can have wrong; any other such error is the machine's.
_USERS_PATHS = {
    errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT,
    errno.ENOTDIR, errno.EPERM,
}  # fmt: skip


def main() -> None:
    """Run the command line; the program's entry point."""
    try:
        status = _run()
    except KeyboardInterrupt:
        status = _report(_INTERRUPTED, json="--json" in sys.argv)
    sys.exit(status)


def _run() -> int:
    _prepare()
    arguments = _arranged(sys.argv[1:])
    debug = "--debug" in arguments
    try:
        status = app(arguments, prog_name="pgstow", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        if debug and not isinstance(error, typer.Abort | _UsageError | BrokenPipeError):
            output.print_traceback(traceback.format_exc())
        return _failed(error, json="--json" in arguments)
    return int(status or 0)


def _arranged(arguments: list[str]) -> list[str]:
    """Options of all commands stand before or after the command's name; ``help X`` is X's help.

    >>> _arranged(["--json", "plan"]), _arranged(["plan", "--debug"]), _arranged(["help", "plan"])
    (['plan', '--json'], ['--debug', 'plan'], ['plan', '--help'])
    """
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    first = next((n for n, one in enumerate(arguments) if not one.startswith("-")), None)
    if first is not None and "--json" in arguments[:first]:
        before = [one for one in arguments[:first] if one != "--json"]
        arguments = [*before, *arguments[first:], "--json"]
    if "--debug" in arguments:
        arguments = ["--debug", *(one for one in arguments if one != "--debug")]
    return arguments


def _prepare() -> None:
    """Set how signals end the program, and that any text can be written to any terminal."""
    # What the caller closed leads nowhere: nothing else that is opened may take its number.
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Ended by another program, it cleans up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command failed, as one line and, with ``--json``, as an object on standard output."""

    code: str
    message: str
    remedy: str = ""
    exit_code: int = 1


_INTERRUPTED = Failure("interrupted", "interrupted", exit_code=130)


def _failed(error: Exception, *, json: bool) -> int:
    """Say what went wrong; the exit status."""
    lost = _unwritten()
    if isinstance(error, BrokenPipeError):
        return 141
    if lost is not None and isinstance(error, OSError):
        error = lost
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # of a bare group, its help
        return 2
    is_written = lost is None and getattr(error, "filename", None) != "standard output"
    return _report(_failure(error), json=json and is_written)


def _report(failure: Failure, *, json: bool) -> int:
    text = "; ".join(filter(None, (failure.message, failure.remedy)))
    output.print_error(text)
    if json:
        said = {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
        output.print_json({"error": said})
    return failure.exit_code


def _unwritten() -> OSError | None:
    """Why not all output could be written; it is let go, lest closing complain of it again."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        error.filename = "standard output"
        return error
    return None


def _failure(error: Exception) -> Failure:
    match error:
        case typer.Abort():
            return _INTERRUPTED
        case PgstowError():
            return Failure(error.code, error.message, error.remedy, error.exit_code)
        case OSError(errno=int(number), strerror=str(reason)):
            named = f"{error.filename}: " if error.filename else ""
            code, status = ("path", 2) if number in _USERS_PATHS else ("system", 1)
            return Failure(
                code, f"{named}{reason}", "check the path, its mode and its disk", status
            )
        case MemoryError():
            return Failure("memory", "this machine has too little memory for it")
    if isinstance(error, _UsageError):
        misuse: Any = error
        path = misuse.ctx.command_path if misuse.ctx else "pgstow"
        return Failure("usage", misuse.format_message().rstrip("."), f"see {path} --help", 2)
    text = str(error) or type(error).__name__
    return Failure("internal", f"internal error: {text}", "run it again with --debug")
