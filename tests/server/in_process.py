"""The command line within this process: what it prints and its exit status, without a start.

A second of processor time goes into starting the command; most tests are not about that.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import CompletedProcess
from unittest import mock

from pgstow.cli import main

_HANDLED = (signal.SIGINT, signal.SIGTERM)  # by the command, while it runs


def run(arguments: Sequence[str]) -> "CompletedProcess[str]":
    """The command, as subprocess.run gives it."""
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _printing_into(out.fileno(), err.fileno()):
            streams = {
                "stdin": open(os.devnull),  # noqa: SIM115, PTH123
                "stdout": os.fdopen(os.dup(1), "w"),
                "stderr": os.fdopen(os.dup(2), "w"),
            }
            try:
                with mock.patch.multiple(sys, argv=["pgstow", *arguments], **streams):
                    status = _status()
            finally:
                for stream in streams.values():
                    stream.close()
                for number, usual in handlers.items():
                    signal.signal(number, usual)
        out.seek(0), err.seek(0)
        return CompletedProcess(list(arguments), status, out.read(), err.read())


def _status() -> int:
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextmanager
def _printing_into(out: int, err: int) -> Iterator[None]:
    """What this process and those it starts print, by their descriptors."""
    kept = os.dup(1), os.dup(2)
    os.dup2(out, 1)
    os.dup2(err, 2)
    try:
        yield
    finally:
        for old, number in zip(kept, (1, 2), strict=True):
            os.dup2(old, number)
            os.close(old)
