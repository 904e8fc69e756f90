"""Settings that a session may make for itself: on a server that is not ours to change."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import conninfo

from pgstow.postgres.connect import Connection, connect, parse_dsn, server_errors

_OF_SESSIONS = ("user", "superuser")  # contexts of pg_settings


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server, as far as a role without special rights may see it."""

    version: str  # "16.4"
    version_num: int
    address: str  # host and port
    refused: tuple[str, ...]  # requested settings that neither hold nor can be a session's


def with_settings(dsn: str, settings: Mapping[str, str]) -> str:
    r"""The connection string of sessions with these settings, beside those it has.

    >>> with_settings("dbname=shop", {"work_mem": "64 MB"})
    "dbname=shop options='-c work_mem=64\\\\ MB'"
    """
    if not settings:
        return dsn
    known = parse_dsn(dsn)
    requested = [f"-c {name}={_escaped(value)}" for name, value in settings.items()]
    given = str(known.get("options") or "")
    return conninfo.make_conninfo(dsn, options=" ".join(filter(None, (given, *requested))))


def with_secret(dsn: str, user: str | None, password: str) -> str:
    """The connection string with a password, and the user it is of: for this process alone."""
    parse_dsn(dsn)
    if user is None:
        return conninfo.make_conninfo(dsn, password=password)
    return conninfo.make_conninfo(dsn, user=user, password=password)


def check_settings(dsn: str, requested: Mapping[str, str]) -> ServerSettings:
    """What the server is, and which requested settings a session of it cannot have."""
    with (
        connect(dsn, purpose="experiment") as connection,
        server_errors("reading the server's settings"),
    ):
        refused = tuple(n for n, value in requested.items() if not _may_have(connection, n, value))
        return ServerSettings(
            version=(connection.info.parameter_status("server_version") or "").split()[0],
            version_num=connection.info.server_version,
            address=f"{connection.info.host}:{connection.info.port}",
            refused=refused,
        )


def _may_have(connection: Connection, name: str, value: str) -> bool:
    row = connection.execute(
        "SELECT context = ANY (%s) OR lower(%s) IN (lower(setting), lower(current_setting(name)))"
        " FROM pg_settings WHERE name = lower(%s)",
        (list(_OF_SESSIONS), value, name),
    ).fetchone()
    return row is not None and bool(row[0])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
