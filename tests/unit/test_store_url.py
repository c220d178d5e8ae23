"""One URL says where the state store is; what is wrong with one is said without its password."""

from __future__ import annotations

import ssl

import pytest

from turnmill import AsyncContextClient, ContextClient, InvalidInput
from turnmill.connection.urls import celery_broker, store_url
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.settings import load_settings

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


@pytest.mark.parametrize("url", ["redis://h:1/2", "rediss://u:p@h", "unix:///run/redis.sock"])
def test_the_url_of_a_single_redis_stays_as_it_is(url: str) -> None:
    assert store_url(url).server() == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+sentinel://:hush@one:26379", "master's name"),
        ("redis+sentinel://:hush@one:26379/", "master's name"),
        ("redis+sentinel://:hu/sh@one:26379/shop", "not host:port"),
        ("redis+sentinel://:hush@one:port/shop", "not host:port"),
        ("redis+sentinel://:hush@one:70000/shop", "not host:port"),
        ("redis+sentinel://:hush@one,,two/shop", "not host:port"),
        ("redis+sentinel://:hush@one/shop/hush", "a database is a number"),
        ("redis+cluster://:hush@", "not host:port"),
        ("redis+cluster://:hush@one:7000/1", "no database but 0"),
        ("redis-cluster://:hush@one:7000", "redis+cluster://host:port"),
        ("redis://:hush@one:port", "redis://host:port/db"),
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


def test_celery_is_told_of_sentinels_in_its_own_way() -> None:
    found = celery_broker(SENTINELS)

    assert found.url == ";".join(
        f"sentinel://me:p%40ss@{place}/3" for place in ("one:26379", "two:26379", "[::1]:5")
    )
    assert found.transport_options["master_name"] == "shop"
    assert found.transport_options["sentinel_kwargs"]["password"] == "w/ord"  # noqa: S105 - no real one
    assert celery_broker("amqp://rabbit") == ("amqp://rabbit", {}, None)


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


def test_a_cluster_is_refused_as_broker_by_whoever_would_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "redis+cluster://:hush@one:7000"
    monkeypatch.setenv("TURNMILL_REDIS_URL", url)

    for ask in (ContextClient, AsyncContextClient, celery_broker, lambda _: load_settings()):
        with pytest.raises((InvalidInput, InvalidSettings), match="Celery cannot use") as caught:
            ask(url)

        assert "hush" not in str(caught.value)
    assert str(caught.value).startswith("TURNMILL_BROKER_URL: ")
