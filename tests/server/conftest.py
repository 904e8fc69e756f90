"""Real PostgreSQL servers for the tests: Debian's 15, and the embedded 16 and 18."""

import zlib
from collections.abc import Callable, Iterator

import psycopg
import pytest
from local_server import LocalServer, find_bindir

VERSIONS = (15, 18)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs a server.

    A test with a server of its own, or of a load, runs on one version, another test on the next;
    ``make nightly`` has the rest.
    """
    for item in items:
        if "server" in item.path.parts[-2:-1]:
            item.add_marker(pytest.mark.server)
            if _has_another_turn(item):
                item.add_marker(pytest.mark.nightly)


# What these send is the same to every version.
LOADS = ("test_workload.py", "test_workloads.py")


def _has_another_turn(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    fixture = "server" if item.path.name in LOADS else "own_server"
    version = callspec.params.get(fixture) if callspec is not None else None
    if version is None:
        return False
    name = item.nodeid.replace(f"pg{version}", "")
    return bool(version != VERSIONS[zlib.crc32(name.encode()) % len(VERSIONS)])


def _create(version: int, **options: object) -> LocalServer:
    if find_bindir(version) is None:
        pytest.skip(f"needs PostgreSQL {version}: no initdb of that version found")
    return LocalServer.create(version, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Callable[[int], LocalServer]]:
    """``shared_server(version)``: one server a version for the whole run; leave it as found."""
    servers: dict[int, LocalServer] = {}

    def get(version: int) -> LocalServer:
        if version not in servers:
            servers[version] = _create(version)
        return servers[version]

    yield get
    for server in servers.values():
        server.remove()


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"pg{version}")
def server(
    request: pytest.FixtureRequest, shared_server: Callable[[int], LocalServer]
) -> LocalServer:
    """A shared server of each version; tests make their own databases in it."""
    return shared_server(request.param)


@pytest.fixture
def make_server() -> Iterator[Callable[..., LocalServer]]:
    """``make_server(version, settings={…})``: a server of the test's own, to restart or break."""
    servers: list[LocalServer] = []

    def make(version: int, **options: object) -> LocalServer:
        servers.append(_create(version, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.remove()


@pytest.fixture(params=VERSIONS, ids=lambda version: f"pg{version}")
def own_server(
    request: pytest.FixtureRequest, make_server: Callable[..., LocalServer]
) -> LocalServer:
    """A server of the test's own, of each version."""
    return make_server(request.param)


@pytest.fixture
def database(server: LocalServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database in the shared server, dropped afterwards; returns its name."""
    name = f"test_{abs(hash(request.node.nodeid)) % 10**10}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    yield name
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture
def monitor(server: LocalServer) -> str:
    """The DSN of a role that has pg_monitor and nothing else."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'watcher'").fetchone():
            connection.execute("CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    return server.dsn_for("watcher")
