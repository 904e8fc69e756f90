"""Passwords from AWS Secrets Manager, against a server that speaks its protocol."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pgstow.cloud import Secret, read_secret
from pgstow.model import UserError

PASSWORD = "pa ss'w0rd"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def client(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return boto3.client("secretsmanager", region_name="eu-west-1")


def test_a_secret_of_rds_has_user_and_password(client: Any) -> None:
    text = json.dumps({"username": "app", "password": PASSWORD, "engine": "postgres"})
    arn = client.create_secret(Name="rds", SecretString=text)["ARN"]
    assert read_secret("rds") == Secret(PASSWORD, "app")
    assert read_secret(arn) == Secret(PASSWORD, "app")


def test_a_plain_secret_is_the_password(client: Any) -> None:
    for number, text in enumerate((PASSWORD, "12345", '["a"]')):
        client.create_secret(Name=f"plain-{number}", SecretString=text)
        assert read_secret(f"plain-{number}") == Secret(text)


def test_a_secret_is_shown_to_nobody(client: Any) -> None:
    client.create_secret(Name="shown", SecretString=PASSWORD)
    found = read_secret("shown")
    assert PASSWORD not in f"{found} {found!r}"


def test_what_is_wrong_is_said_without_the_secret(client: Any) -> None:
    client.create_secret(Name="no-password", SecretString=json.dumps({"token": PASSWORD}))
    client.create_secret(Name="binary", SecretBinary=b"\x00")
    cases = (
        ("missing", "secret missing cannot be read: ResourceNotFoundException; check its name"),
        ("no-password", "secret no-password has no password in it"),
        ("binary", "secret binary is binary"),
    )
    for name, message in cases:
        with pytest.raises(UserError) as refusal:
            read_secret(name)
        assert str(refusal.value).startswith(message)
        assert PASSWORD not in str(refusal.value)


def test_without_credentials_it_says_what_to_check(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    boto3.DEFAULT_SESSION = None
    with pytest.raises(UserError, match="credentials"):
        read_secret("rds")
