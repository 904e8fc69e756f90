"""Locks between programs on one machine: of a file, and gone with the program that holds it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgstow.model.errors import HostError


@contextmanager
def locked(path: Path, *, waiting: Callable[[], None], shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing, and stays.

    While someone else has it, ``waiting`` is called again and again: it sleeps a little, or gives
    up by raising.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise HostError(f"lock file {path} cannot be used: {error.strerror}") from error
    try:
        while not _try(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
            waiting()
        yield
    finally:
        os.close(descriptor)


@contextmanager
def tried(path: Path) -> Iterator[bool]:
    """Hold the lock of a file if nobody else has it; whether it is held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        yield _try(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
