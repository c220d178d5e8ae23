"""Where the state store is, with which password, and what its errors say of it: no secret."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import redis

from turnmill import AsyncContextClient, ContextClient, InvalidInput
from turnmill.connection.credentials import read_secret, with_broker_tls, with_password
from turnmill.connection.transport import server_name, translate
from turnmill.connection.urls import celery_broker, store_url
from turnmill.contract.errors import (
    NotPermitted,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.settings import load_settings

# One URL says where the state store is; what is wrong with one is said without its password.

SENTINELS = "redis+sentinel://me:p%40ss@one:26379,two,[::1]:5/shop?db=3&sentinel_password=w%2Ford"


def test_sentinels_have_hosts_a_masters_name_and_a_login_of_their_own() -> None:
    found = store_url(SENTINELS)

    assert (found.kind, found.master) == ("sentinel", "shop")
    assert found.nodes == (("one", 26379), ("two", 26379), ("::1", 5))
    assert found.server(("x", 1)) == "redis://me:p%40ss@x:1/3"
    assert found.sentinel(found.nodes[2]) == "redis://:w%2Ford@[::1]:5"
    assert store_url("redis+sentinel://one/shop/3").server(("x", 1)) == "redis://x:1/3"


def test_a_cluster_has_nodes_and_tls_is_for_all_of_them() -> None:
    found = store_url("rediss+cluster://me:secret@one:7000,two:7001?ssl_ca_certs=/ca.pem")

    assert (found.kind, found.nodes) == ("cluster", (("one", 7000), ("two", 7001)))
    assert found.server(found.nodes[0]) == "rediss://me:secret@one:7000?ssl_ca_certs=%2Fca.pem"
    assert found.uses_tls


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://:hush@one:26379", "master's name"),
        ("redis+sentinel://:hu/sh@one:26379/shop", "not host:port"),
        ("redis+sentinel://:hush@one/shop/hush", "a database is a number"),
        ("redis://:hush@one:6379/shop", "a database is a number"),
        ("redis+cluster://:hush@one:7000/1", "no database but 0"),
        ("redis-cluster://:hush@one:7000", "redis+cluster://host:port"),
        (":hush", "redis://host:port/db"),
    ],
)
def test_what_is_wrong_is_said_and_the_password_is_not(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNMILL_REDIS_URL", url)

    for ask in (store_url, ContextClient, AsyncContextClient, lambda _: load_settings()):
        with pytest.raises((InvalidInput, InvalidSettings)) as caught:
            ask(url)

        assert said in str(caught.value)
        assert "hush" not in str(caught.value)
    assert "TURNMILL_REDIS_URL" in str(caught.value)


def test_no_password_is_in_what_a_traceback_may_show() -> None:
    assert "p%40ss" not in repr(store_url(SENTINELS))
    assert "w%2Ford" not in repr(store_url(SENTINELS))


def test_a_brokers_certificate_is_verified_whatever_it_is() -> None:
    parameters = "ssl_ca_certs=/ca.pem&ssl_certfile=/me.crt"
    verified = {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_check_hostname": True,
        "ssl_ca_certs": "/ca.pem",
        "ssl_certfile": "/me.crt",
    }
    sentinels = celery_broker(f"rediss+sentinel://one,two/shop?{parameters}").settings(x=1)

    assert sentinels["broker_use_ssl"] == verified
    assert sentinels["broker_transport_options"]["sentinel_kwargs"]["ssl_certfile"] == "/me.crt"
    assert celery_broker(f"rediss://one?{parameters}").settings(x=1) == {
        "broker_url": "rediss://one",
        "broker_transport_options": {"x": 1},
        "broker_use_ssl": verified,
    }
    assert "broker_use_ssl" not in celery_broker("redis://one").settings()


# Passwords from files, and what a broker's URL says about TLS.


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
        ("unix:///run/redis.sock?db=1", "unix://:{}@/run/redis.sock?db=1"),
        ("sentinel://a:1/0;sentinel://b:2/0", "sentinel://:{}@a:1/0;sentinel://:{}@b:2/0"),
        ("redis+sentinel://me@a:1,b:2/shop/3", "redis+sentinel://me:{}@a:1,b:2/shop/3"),
        ("rediss+cluster://a:1,b:2?x=y", "rediss+cluster://:{}@a:1,b:2?x=y"),
        ("sqlite:////var/archive.db", "sqlite:////var/archive.db"),
        ("", ""),
    ],
)
def test_a_password_is_put_where_a_url_has_none(url: str, whole: str, secret: Path) -> None:
    assert with_password(url, secret) == whole.replace("{}", "p%40ss%2Fw%3Ard%25")


def test_a_secret_that_cannot_be_read_is_named_and_not_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xffhunter2")

    with pytest.raises(InvalidInput, match="missing cannot be read: FileNotFoundError"):
        read_secret(tmp_path / "missing")
    with pytest.raises(InvalidInput) as caught:
        read_secret(tmp_path / "binary")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


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


# What errors of the state store say.


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://me:hush@one:7000/3", "one:7000/3"),
        ("redis://:not/encoded@one:7000/3", "one:7000/3"),
        ("redis://one", "one"),
        ("unix:///run/redis.sock?password=hush", "/run/redis.sock"),
        ("redis+sentinel://:hush@one:1,two:2/shop?sentinel_password=hush", "one:1,two:2/shop"),
        ("rediss+cluster://me:hush@one:1,[::1]:2", "one:1,[::1]:2"),
    ],
)
def test_a_server_is_named_without_its_password(url: str, name: str) -> None:
    assert server_name(url) == f"Redis at {name}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (redis.ResponseError("OOM command not allowed, no permissions to run"), StoreFull),
        (redis.AuthenticationError("no permissions to"), StoreRefused),
        (
            redis.exceptions.NoPermissionError("User BUSY has no permissions to run 'get'"),
            NotPermitted,
        ),
        (redis.ResponseError("BUSY Redis is busy running a script"), StoreUnavailable),
        (redis.ResponseError("DB index is out of range"), StoreRefused),
    ],
)
def test_what_is_to_be_done_decides_between_errors(
    error: redis.RedisError, kind: type[Exception]
) -> None:
    told = translate(error, "Redis at one:7000/3")

    assert type(told) is kind
    assert "Redis at one:7000/3" in str(told)
