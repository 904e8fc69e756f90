"""The command line. Each command is a module here; nothing imports this package."""

from pgstow.cli import catalog, emulate, observe
from pgstow.cli.main import main

__all__ = ["catalog", "emulate", "main", "observe"]
