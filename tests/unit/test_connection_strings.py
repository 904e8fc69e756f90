"""A password in a connection string is never printed, whole or in part."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstow.model.errors import PgstowError, UserError
from pgstow.postgres import connect, redacted_dsn
from pgstow.postgres.connect import parse_dsn
from pgstow.postgres.session_settings import with_secret, with_settings

PART = "xyzzy"  # of each password below


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:S3CR3T@pw_xyzzy@127.0.0.1:1/db",
        "postgres://u:S3CR3T@xyzzy:pw@127.0.0.1/db",
        "postgresql://u:pa/xyzzy@127.0.0.1:1/db",
        "postgresql://u:1/xyzzy@127.0.0.1:1/db",
        "postgresql://u:a@xyzzy/b@127.0.0.1:1/db",
        "postgresql://u:a@b:xyzzy@127.0.0.1:1/db",
        "postgresql://u:a@b,xyzzy@127.0.0.1:1/db",
        "postgresql://u@corp:xyzzy@127.0.0.1:1/db",
        "postgresql://u:%xyzzy@127.0.0.1:1/db",
        "postgresql://u:pw@127.0.0.1:1/db?xyzzy",
        "postgresql://u:xyzzy@127.0.0.1:1/db",  # whole and well formed
        "host=127.0.0.1 port=1 password=a xyzzy",
        "host=127.0.0.1 port=1 password='xyzzy",
        "host=127.0.0.1 port=1 password=xyzzy",
    ],
)
def test_no_part_of_a_password_is_printed(uri: str) -> None:
    for use in (
        lambda: connect(uri, purpose="observe"),
        lambda: redacted_dsn(uri) and connect(redacted_dsn(uri), purpose="change"),
        lambda: connect(with_settings(uri, {"work_mem": "1MB"}), purpose="observe"),
        lambda: connect(with_secret(uri, None, PART), purpose="observe"),
    ):
        with pytest.raises(PgstowError) as raised:
            use()
        assert PART not in str(raised.value)
        assert PART not in "".join(traceback.format_exception(raised.value)).replace(uri, "")


PIECES = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=6)


@given(PIECES, PIECES)
def test_a_password_is_read_as_one_or_refused(before: str, after: str) -> None:
    try:
        found = parse_dsn(f"postgresql://u:{before}{PART}{after}@db1:5432/shop")
    except UserError as error:
        assert PART not in str(error)
        return
    assert PART in found.pop("password")
    assert not any(PART in value for value in found.values())


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("postgresql://u:p%40ss@db1/shop", {"user": "u", "password": "p@ss", "host": "db1"}),
        ("postgresql://u:p%2Fs@a:1,b:2/shop", {"password": "p/s", "host": "a,b", "port": "1,2"}),
        ("postgresql://%2Frun%2Fpg/shop", {"host": "/run/pg"}),
        ("postgresql://db1/odd%40name", {"dbname": "odd@name"}),
        ("postgresql://db1/shop?user=bob@corp", {"user": "bob@corp"}),
        ("host=@abstract dbname=shop", {"host": "@abstract"}),
        ("postgresql:///shop", {"dbname": "shop"}),
    ],
)
def test_what_is_well_formed_is_read_as_libpq_does(dsn: str, says: dict[str, str]) -> None:
    found = parse_dsn(dsn)
    assert {name: found[name] for name in says} == says
