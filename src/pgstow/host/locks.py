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
        yield try_exclusive(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def working_directory(directory: Path, who: str) -> Iterator[None]:
    """Make a directory where it is missing, and keep every other ``who`` out of it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"{directory} cannot be used: {error.strerror}"
        raise HostError(message, "run it as root") from error
    try:
        if not try_exclusive(descriptor):
            remedy = "wait until it has ended, or name another --state-dir"
            raise HostError(f"another {who} is at work in {directory}", remedy)
        yield
    finally:
        os.close(descriptor)


def try_exclusive(descriptor: int) -> bool:
    """Lock an open file if nobody else has; whether it is locked."""
    return _try(descriptor, fcntl.LOCK_EX)


def _try(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
