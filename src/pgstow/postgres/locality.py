"""Whether a server's data directory is on this machine: read from its own files, with care.

A path that exists here is no proof: a server in a container, or behind a tunnel on 127.0.0.1, may
have a directory of the same name. So its lock file must agree on port and start time; where that
file is not readable, the owner of its socket must own the directory.
"""

import ipaddress
import os
from datetime import datetime
from pathlib import Path

from pgstow.postgres.connect import Connection

_START_TOLERANCE_S = 15.0  # the lock file is written shortly before the server counts as started


def is_near(connection: Connection) -> bool:
    """Whether the connection is by Unix socket or loopback."""
    if connection.info.host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(connection.info.hostaddr).is_loopback
    except ValueError:
        return False


def is_local(
    connection: Connection,
    data_directory: str,
    port: int,
    started_at: datetime,
    socket_directories: tuple[str, ...],
) -> bool:
    """Whether the server of ``connection`` has its data on this machine."""
    directory = Path(data_directory)
    if not is_near(connection):
        return False
    try:
        owner = directory.stat().st_uid
        lines = (directory / "postmaster.pid").read_text().splitlines()
    except PermissionError:
        return _socket_owned_by(directory, socket_directories, port)
    except OSError:
        return False
    try:
        same_port = int(lines[3]) == port
        same_start = abs(int(lines[2]) - started_at.timestamp()) <= _START_TOLERANCE_S
    except (IndexError, ValueError):
        return False
    return same_port and same_start and owner == (directory / "postmaster.pid").stat().st_uid


def _socket_owned_by(directory: Path, socket_directories: tuple[str, ...], port: int) -> bool:
    try:
        owner = directory.stat().st_uid
    except OSError:
        return False
    for socket_directory in socket_directories:
        try:
            if (Path(socket_directory) / f".s.PGSQL.{port}").stat().st_uid == owner:
                return True
        except OSError:
            continue
    return False


def wal_directory(data_directory: str) -> str | None:
    """The real path of pg_wal; None where this user may not look into the data directory."""
    path = Path(data_directory) / "pg_wal"
    try:
        path.lstat()
        return os.path.realpath(path, strict=True)
    except OSError:
        return None
