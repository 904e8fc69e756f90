"""The command line. Each command is a module here; nothing imports this package."""

from pgstow.cli import emulate
from pgstow.cli.main import main

__all__ = ["emulate", "main"]
