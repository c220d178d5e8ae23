"""TLS and certificates of clients, against a real server: agents, workers, commands, broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.security.certificates import Authority
from tests.security.tls_server import TlsRedis, tls_redis
from turnmill import (
    AsyncContextClient,
    CeleryWaker,
    ContextClient,
    Policy,
    Pushed,
    SilentWaker,
    StoreRefused,
    StoreUnavailable,
)
from turnmill.connection.credentials import with_password
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.broker_view import BrokerView

TURN = {"role": "user", "content": "Where is my order?"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsRedis]:
    with tls_redis(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture
def password(server: TlsRedis, tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(server.password)
    return file


def push_sync(url: str) -> Pushed:
    with ContextClient(url, broker=SilentWaker(), timeout_s=2) as client:
        return client.push("s", TURN)


def push_async(url: str) -> Pushed:
    async def push() -> Pushed:
        async with AsyncContextClient(url, broker=SilentWaker(), timeout_s=2) as client:
            try:
                return await client.push("s", TURN)
            finally:  # an end by TLS takes the loop some rounds, and this one ends now
                await asyncio.sleep(0.1)

    return asyncio.run(push())


Push = Callable[[str], Pushed]
pushes = pytest.mark.parametrize("push", [push_sync, push_async], ids=["sync", "async"])


@pushes
def test_a_client_with_a_certificate_and_the_password_gets_in(
    push: Push, server: TlsRedis, password: Path
) -> None:
    assert push(with_password(server.good_url, password)).seq


@pushes
def test_a_client_without_the_password_is_told_so(push: Push, server: TlsRedis) -> None:
    with pytest.raises(StoreRefused, match="password is missing or wrong"):
        push(server.good_url)


@pushes
@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_server_of_another_authority_or_name_is_not_trusted(
    push: Push, server: TlsRedis, password: Path, tmp_path: Path, wrong: str
) -> None:
    if wrong == "authority":
        url, why = _foreign(server, tmp_path), r"self.signed certificate"
    else:
        url, why = server.url(client=server.client, host="localhost"), "Hostname mismatch"

    with pytest.raises(StoreRefused, match=f"cannot be trusted: {why}"):
        push(with_password(url, password))


def _foreign(server: TlsRedis, folder: Path) -> str:
    """Where whoever trusts another authority looks for the server."""
    return server.url(client=server.client, authority=Authority(folder, "other"))


@pushes
def test_a_certificate_that_has_expired_is_not_trusted(
    push: Push, server: TlsRedis, tmp_path: Path
) -> None:
    expired = server.authority.sign("expired", days=-1)

    with (
        tls_redis(tmp_path / "r", certificate=expired, authority=server.authority) as old,
        pytest.raises(StoreRefused, match="cannot be trusted: certificate has expired"),
    ):
        push(old.good_url)


@pushes
def test_a_client_without_a_trusted_certificate_stays_out(
    push: Push, server: TlsRedis, password: Path, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path, "other").sign("client")

    # Which of the two depends on whether the server's alert comes before the end of the connection.
    told = r"cannot agree on TLS: \w*ALERT|may ask for TLS, or for another client certificate"
    for url in (server.url(), server.url(client=foreign)):
        with pytest.raises(StoreUnavailable, match=told):
            push(with_password(url, password))


def is_settled(waker: CeleryWaker) -> bool:
    return bool(waker.counts.published + waker.counts.dropped)


def test_hints_reach_a_broker_over_tls_and_no_broker_that_is_not_trusted(
    server: TlsRedis, password: Path, tmp_path: Path
) -> None:
    good = with_password(server.good_url, password)
    foreign = _foreign(server, tmp_path)

    # Another database each: Celery takes URLs that differ in parameters alone for one broker.
    for at, url in enumerate((good, with_password(foreign, password))):
        with closing(CeleryWaker(url.replace("/0", f"/{at}", 1))) as waker:
            waker.wake(Namespace("hints"), SessionId("s"))
            wait_until(partial(is_settled, waker))
            assert waker.counts.published == (url == good), url


def test_a_broker_that_cannot_be_verified_gets_no_hint(server: TlsRedis, password: Path) -> None:
    unverified = with_password(f"rediss://127.0.0.1:{server.port}/3", password)

    with redis.Redis.from_url(with_password(server.good_url, password)) as admin:
        admin.config_set("tls-auth-clients", "no")
        try:
            with closing(CeleryWaker(unverified)) as waker:
                waker.wake(Namespace("hints"), SessionId("s"))
                wait_until(partial(is_settled, waker))
        finally:
            admin.config_set("tls-auth-clients", "yes")

    assert waker.counts.dropped, "Celery by itself trusts every server"


def test_a_broker_that_is_not_trusted_gets_no_password(server: TlsRedis, tmp_path: Path) -> None:
    foreign = _foreign(server, tmp_path)

    with (
        closing(BrokerView(foreign)) as broker,
        pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        broker.waiting()


@pytest.mark.worker
def test_agents_workers_commands_and_broker_meet_over_tls(
    server: TlsRedis, password: Path, tmp_path: Path
) -> None:
    env = {"TURNMILL_REDIS_PASSWORD_FILE": str(password), "TURNMILL_DATA_DIR": str(tmp_path)}
    url = with_password(server.good_url, password)

    with (
        WorkerProcess(server.good_url, tmp_path, env=env) as worker,
        ContextClient(url, namespace="tls") as client,
    ):
        client.open("s", Policy(max_tokens=1000))
        for at in range(40):
            client.push("s", {"role": "user", "content": f"Where is order #W{at * 7919}? " * 4})
        wait_until(lambda: client.info("s").version, within_s=60)
        told = doctor(server.good_url, env)

    checks = {check["name"]: check for check in told["checks"]}
    for name in ("redis", "broker", "workers", "queues"):
        assert checks[name]["status"] == "ok", checks[name]
    assert server.password not in worker.log.read_text()
    assert client.hints.published


def doctor(url: str, env: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    """What `turnmill doctor` says, given the files that the workers are given."""
    done = subprocess.run(
        [sys.executable, "-m", "turnmill_cli", "doctor", "--json", "--namespace", "tls"],
        env={**os.environ, "TURNMILL_REDIS_URL": url, "TURNMILL_BROKER_URL": "", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, list[dict[str, str]]] = json.loads(done.stdout)
    return found
