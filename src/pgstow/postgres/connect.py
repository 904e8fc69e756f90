"""Connections to PostgreSQL: libpq's habits, sensible limits, errors that say what to do."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import conninfo, sql

from pgstow.model.errors import PgstowError, ServerError, UserError

APPLICATION_NAME = "pgstow"
OLDEST_VERSION = 140000
CONNECT_TIMEOUT_S = 10
# An observer never waits for a lock for long, never writes, and never runs away.
_OBSERVING = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "60s",
}
_NO_DATABASE = "3D000"  # invalid_catalog_name
_NO_SUCH_DATABASE = r'database ".*" does not exist'
_FROM_SERVER = r"\S:  "  # the severity, in any language, and two spaces: libpq's own have one
_SECRETS = ("password", "sslpassword", "oauth_client_secret")

_SCHEMES = ("postgresql://", "postgres://")

Connection = psycopg.Connection[tuple[Any, ...]]


def connect(dsn: str = "", database: str | None = None, *, purpose: str) -> Connection:
    """Connect in autocommit mode; ``purpose`` "observe" makes the session read-only and patient.

    ``dsn`` is a libpq connection string or URI; what it leaves out comes from PGHOST, PGSERVICE,
    ~/.pgpass and so on. ``database`` replaces the one that ``dsn`` names.
    """
    parameters = parse_dsn(dsn)
    if database is not None:
        parameters["dbname"] = database
    parameters |= {"application_name": APPLICATION_NAME, "client_encoding": "UTF8"}
    if "connect_timeout" not in parameters and "PGCONNECT_TIMEOUT" not in os.environ:
        parameters["connect_timeout"] = CONNECT_TIMEOUT_S
    if purpose == "observe":
        parameters["options"] = _options(parameters.get("options"))
    connection = _opened(parameters, may_use_postgres=purpose in ("observe", "probe"))
    if connection.info.server_version < OLDEST_VERSION:
        found = connection.info.parameter_status("server_version") or "too old"
        connection.close()
        raise UserError(
            f"the server at {address(parameters)} is PostgreSQL {found}",
            "pgstow needs PostgreSQL 14 or newer",
        )
    return connection


def _opened(parameters: dict[str, Any], *, may_use_postgres: bool) -> Connection:
    """A connection; to the database postgres if it only reads and no database is named."""
    try:
        return psycopg.connect(**parameters, autocommit=True)
    except (psycopg.Error, UnicodeError) as error:
        if may_use_postgres and _may_lack_database(error, parameters):
            with suppress(psycopg.Error, UnicodeError):
                return psycopg.connect(**parameters | {"dbname": "postgres"}, autocommit=True)
        raise _connection_error(error, parameters) from None


def _may_lack_database(error: Exception, parameters: dict[str, Any]) -> bool:
    """Whether a server that was reached may have refused because libpq's database is not there.

    libpq gives no SQLSTATE of a refused connection, and the server's text is in the server's
    language: whatever names that database, and is not known to be of something else, may be it.
    """
    name = _default_database(parameters)
    text = str(error)
    if name is None or not re.search(_FROM_SERVER, text) or name not in text:
        return False
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate == _NO_DATABASE
    known = [pattern for pattern, _ in (*_USERS, *_FAILURES) if re.search(pattern, text)]
    return known in ([], [_NO_SUCH_DATABASE])


def _default_database(parameters: dict[str, Any]) -> str | None:
    """The database that libpq takes where none is named: the role's."""
    known = _resolved(parameters)
    return None if known.get("dbname") else known.get("user")


def parse_dsn(dsn: str) -> dict[str, Any]:
    """The parts of a connection string; errors never quote it, as it may hold a password."""
    try:
        parameters = dict(conninfo.conninfo_to_dict(dsn))
    except (psycopg.ProgrammingError, UnicodeError):
        raise UserError(
            "the connection string is not one libpq understands",
            "write it like 'host=db1 dbname=shop user=monitor' or postgresql://monitor@db1/shop",
        ) from None
    if dsn.startswith(_SCHEMES) and _is_torn(dsn, parameters):
        # A part of the password would pass for a host, a port or a database, and be printed.
        raise UserError(
            "the connection URI has an '@', ':' or '/' too many, as of a password that holds one",
            "in a password write %40 for @, %3A for :, %2F for /, or keep it in ~/.pgpass",
        )
    return parameters


def _is_torn(uri: str, parameters: dict[str, Any]) -> bool:
    """Whether libpq may have cut a URI in the middle of a password that is not percent-encoded."""
    hosts = str(parameters.get("host", "")).split(",")
    ports = str(parameters.get("port", "")).split(",")
    path = uri.partition("://")[2].partition("/")[2].partition("?")[0]
    return (
        any("@" in host[1:] and not host.startswith("/") for host in hosts)
        or any(port and not port.isdecimal() for port in ports)
        or "@" in path
    )


def _options(given: Any) -> str:
    """The session's settings as startup options, so that none outlives it behind a pooler."""
    requested = " ".join(f"-c {name}={value}" for name, value in _OBSERVING.items())
    return " ".join(filter(None, (str(given or os.environ.get("PGOPTIONS", "")), requested)))


def redacted_dsn(dsn: str) -> str:
    """The connection string without its secrets, for people and files."""
    return conninfo.make_conninfo(
        **{name: value for name, value in parse_dsn(dsn).items() if name not in _SECRETS}
    )


def address(parameters: dict[str, Any]) -> str:
    """``host:port`` as libpq would resolve it, for messages."""
    known = _resolved(parameters)
    host = known.get("host") or known.get("hostaddr") or "the local socket"
    return f"{host}:{known.get('port', '5432')}"


def _resolved(parameters: dict[str, Any]) -> dict[str, str]:
    """The parameters over libpq's defaults, of the environment and the user's name."""
    known = {
        option.keyword.decode(): option.val.decode(errors="replace")
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.val
    }
    return known | {name: str(value) for name, value in parameters.items() if value is not None}


# What libpq or the server says, in English; any other text gets the general remedy. Those of the
# user are mistakes; the others, and what is not known, failures.
_USERS = (
    (r"password authentication failed|no password supplied", "check the password in ~/.pgpass"),
    (r"no pg_hba\.conf entry", "add a line for this role and database to the server's pg_hba.conf"),
    (r"(Peer|Ident|GSSAPI|LDAP|PAM|certificate) authentication failed", "check the role's name"),
    (r'role ".*" does not exist', "create the role, or name another with user= in --dsn"),
    (_NO_SUCH_DATABASE, "name an existing database with dbname= in --dsn"),
    (r"permission denied for database", "GRANT CONNECT ON that DATABASE to the role"),
    (r"definition of service", "check PGSERVICE and the service file"),
    (r"could not translate host name", "check the host's name in --dsn or PGHOST"),
    (r"unsupported startup parameter", "connect to the server itself, not through a pooler"),
)
_FAILURES = (
    (r"too many clients|remaining connection slots", "free a connection slot and try again"),
    (r"starting up|shutting down|recovery mode", "try again when the server is up"),
)


def _connection_error(error: Exception, parameters: dict[str, Any]) -> PgstowError:
    reason = _reason(error)
    for secret in _SECRETS:
        if parameters.get(secret):
            reason = reason.replace(str(parameters[secret]), "***")
    what = f"cannot connect to PostgreSQL at {address(parameters)}: {reason}"
    for family, remedies in ((UserError, _USERS), (ServerError, _FAILURES)):
        for pattern, remedy in remedies:
            if re.search(pattern, reason):
                return family(what, remedy)
    return ServerError(what, "check that the server runs and that --dsn, PGHOST and PGPORT name it")


def _reason(error: Exception) -> str:
    """The part of libpq's message after the address, which the caller names itself."""
    text = " ".join(str(error).split())
    text = re.sub(r"^(connection failed: |connection is bad: )+", "", text)
    text = re.sub(r"^connection (to server )?(at|on) .*? failed: ", "", text)
    text = re.sub(r" Is the server running .*\?$", "", text)
    return text.removeprefix("FATAL:").strip()


@contextmanager
def server_errors(doing: str) -> Iterator[None]:
    """Turn psycopg's errors into a :class:`ServerError` that says what was being done."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise ServerError(f"{doing} failed: {_reason(error)}", "see the server's log") from error
    except psycopg.Error as error:
        raise ServerError(f"{doing} failed: {_reason(error)}") from error


def require_monitor(connection: Connection) -> None:
    """Refuse a role that may not read the statistics of others' sessions and every setting."""
    with server_errors("reading the role's rights"):
        row = connection.execute(
            "SELECT current_user, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"
            " AND pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')"
        ).fetchone()
    assert row is not None
    if not row[1]:
        role = sql.Identifier(row[0]).as_string(connection)
        raise UserError(
            f"role {role} lacks the rights of pg_monitor",
            f"as a superuser: GRANT pg_monitor TO {role}",
        )
