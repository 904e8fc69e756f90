"""The command line. Each command is a module here; nothing imports this package."""

from pgstow.cli.main import main

__all__ = ["main"]
