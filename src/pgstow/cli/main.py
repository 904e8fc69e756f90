"""The command line: parse, call one stage, print; errors become exit codes.

Command modules import only typer at their top, so that ``--help`` answers at once.
"""

import signal
import sys
from typing import Any, ClassVar

import typer
import typer.core

from pgstow import __version__
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


app = typer.Typer(
    name="pgstow",
    cls=_Stages,
    help="EXPLAIN ANALYZE for the storage under PostgreSQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgstow {__version__}")
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


def _misused(error: Any) -> int:
    """Say in one line what the command line has wrong; of a bare group, its help."""
    message = " ".join(error.format_message().split())
    path = error.ctx.command_path if error.ctx else "pgstow"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        print(f"pgstow: {message.rstrip('.')}; see {path} --help", file=sys.stderr)
    return 2


def main() -> None:
    """Run the command line; the program's entry point."""
    debug = "--debug" in sys.argv
    if debug:  # accepted before or after the command's name
        sys.argv = [sys.argv[0], "--debug", *(a for a in sys.argv[1:] if a != "--debug")]
    # Ended by another program, it cleans up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        sys.exit(app(prog_name="pgstow", standalone_mode=False))
    except _UsageError as error:
        sys.exit(_misused(error))
    except PgstowError as error:
        if debug:
            raise
        print(f"pgstow: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("pgstow: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except Exception as error:
        if debug:
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"pgstow: internal error: {text}; run it again with --debug", file=sys.stderr)
        sys.exit(1)
