"""The servers the tests run on are what they say."""

import psycopg
from local_server import LocalServer


def test_the_server_is_of_its_version(server: LocalServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        assert connection.info.server_version // 10000 == server.version


def test_a_password_is_asked_for_on_tcp(server: LocalServer) -> None:
    with psycopg.connect(server.tcp_dsn) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("postgres",)


def test_an_own_server_restarts(own_server: LocalServer) -> None:
    own_server.configure({"work_mem": "5MB"})
    own_server.restart()
    with psycopg.connect(own_server.dsn) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
