"""``pgstow bench``: the group of commands; a name that is none of them is an experiment's."""

from typing import Any

import typer

from pgstow.cli.main import InOrder, app


class _RunByName(InOrder):
    order = ("run", "load", "load-and-run", "show", "export", "list", "clear")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """``pgstow bench wal-split`` is ``pgstow bench run wal-split``."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            args = ["run", *args]
        return super().resolve_command(ctx, args)


commands = typer.Typer(
    name="bench",
    cls=_RunByName,
    help="Designed experiments over layouts and workloads, with statistics. "
    "pgstow bench EXPERIMENT is short for pgstow bench run EXPERIMENT.",
    no_args_is_help=True,
)
app.add_typer(commands)
