"""Passwords from files, and what a broker's URL says about TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from turnmill.connection.credentials import read_secret, with_broker_tls, with_password
from turnmill.contract.errors import InvalidInput


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(" p@ss/w:rd%\n")
    return file


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("redis://host:6379/0", "redis://:{}@host:6379/0"),
        ("rediss://agents@host?ssl_ca_certs=/x", "rediss://agents:{}@host?ssl_ca_certs=/x"),
        ("redis://:given@host/0", "redis://:given@host/0"),
        ("redis://me:given@host/0", "redis://me:given@host/0"),
        ("unix:///run/redis.sock?db=1", "unix://:{}@/run/redis.sock?db=1"),
        ("sentinel://a:1/0;sentinel://b:2/0", "sentinel://:{}@a:1/0;sentinel://:{}@b:2/0"),
        ("redis+sentinel://me@a:1,b:2/shop/3", "redis+sentinel://me:{}@a:1,b:2/shop/3"),
        ("rediss+cluster://a:1,b:2?x=y", "rediss+cluster://:{}@a:1,b:2?x=y"),
        ("postgresql://me@host/name", "postgresql://me:{}@host/name"),
        ("amqp://me@host//", "amqp://me:{}@host//"),
        ("sqlite:////var/archive.db", "sqlite:////var/archive.db"),
        ("none", "none"),
        ("", ""),
    ],
)
def test_a_password_is_put_where_a_url_has_none(url: str, whole: str, secret: Path) -> None:
    assert with_password(url, secret) == whole.replace("{}", "p%40ss%2Fw%3Ard%25")


def test_no_file_and_an_empty_one_stand_for_no_password(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")

    assert with_password("redis://host", None) == "redis://host"
    assert with_password("redis://host", tmp_path / "empty") == "redis://host"


def test_a_secret_that_cannot_be_read_is_named_and_not_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xffhunter2")

    with pytest.raises(InvalidInput, match="missing cannot be read: FileNotFoundError"):
        read_secret(tmp_path / "missing")
    with pytest.raises(InvalidInput) as caught:
        read_secret(tmp_path / "binary")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["redis://host/0", "amqp://host//?heartbeat=5", "sentinel://a;b"])
def test_a_broker_without_tls_is_left_alone(url: str) -> None:
    assert with_broker_tls(url) == (url, None)


def test_a_rediss_broker_is_verified_unless_its_url_says_otherwise() -> None:
    verified = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
    unverified = {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}

    assert with_broker_tls("rediss://host/0") == ("rediss://host/0", verified)
    assert with_broker_tls("rediss://host/0?ssl_cert_reqs=none") == ("rediss://host/0", unverified)
    url, tls = with_broker_tls("rediss://host/0?ssl_ca_certs=/ca.pem&x=1&ssl_check_hostname=no")
    assert url == "rediss://host/0?x=1"
    assert tls == verified | {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}


def test_rabbitmq_gets_the_same_parameters_under_its_names() -> None:
    url, tls = with_broker_tls("amqps://host//?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem")

    assert url == "amqps://host//"
    assert tls == {
        "server_hostname": None,
        "cert_reqs": ssl.CERT_REQUIRED,
        "ca_certs": "/ca.pem",
        "certfile": "/c.pem",
    }
