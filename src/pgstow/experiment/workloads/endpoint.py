"""Address and user of a server, for programs that take no libpq connection string."""

from dataclasses import dataclass

from pgstow.postgres import connect


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What ``dsn``, the environment and libpq's files amount to. ``host`` may be a directory."""

    host: str
    port: int
    user: str
    database: str
    environment: dict[str, str]  # the password, and how to encrypt, as libpq's variables

    @classmethod
    def of(cls, dsn: str) -> "Endpoint":
        """Connect, and see."""
        with connect(dsn, purpose="experiment") as connection:
            info = connection.info
            given = info.get_parameters()
            environment = {
                variable: str(given[name]) for name, variable in _TLS.items() if name in given
            }
            if info.password:
                environment["PGPASSWORD"] = info.password
            return cls(info.host, info.port, info.user, info.dbname, environment)


_TLS = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
}
