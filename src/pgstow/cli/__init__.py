"""The command line. Each command is a module here; nothing imports this package."""

from pgstow.cli import (
    apply,
    catalog,
    demo,
    diff,
    emulate,
    emulate_bench,
    emulate_crash_test,
    emulate_faults,
    emulate_forecast,
    emulate_replay,
    emulate_set,
    emulate_stats,
    explain,
    observe,
    plan,
    report,
    verify,
)
from pgstow.cli.main import main

__all__ = [
    "apply",
    "catalog",
    "demo",
    "diff",
    "emulate",
    "emulate_bench",
    "emulate_crash_test",
    "emulate_faults",
    "emulate_forecast",
    "emulate_replay",
    "emulate_set",
    "emulate_stats",
    "explain",
    "main",
    "observe",
    "plan",
    "report",
    "verify",
]
