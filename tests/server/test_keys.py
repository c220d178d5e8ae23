"""Keys: each opens one namespace, Redis has hashes only, and without any nothing is served."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import redis

from tests.security.roles import add_user, line_of, url_of
from tests.server.conftest import Serving
from turnmill.client._async.connection import AsyncConnection
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.errors import InvalidInput
from turnmill.contract.keys import SERVER_KEYS, commits_channel
from turnmill.contract.names import Namespace
from turnmill.server import api_keys, routes, tenants
from turnmill.server.api_keys import ApiKeys

TURN = {"messages": [{"role": "user", "content": "Mine."}]}


@pytest.fixture
async def keys(redis_server: EmbeddedRedis, redis_client: redis.Redis) -> AsyncIterator[ApiKeys]:
    store = AsyncConnection(redis_server.url, 5.0, None, NotImplemented)
    yield ApiKeys(store)
    await store.close()
    redis_client.delete(SERVER_KEYS)


async def test_two_keys_open_two_namespaces_that_never_meet(
    keys: ApiKeys, serving: Serving, namespace: str
) -> None:
    mine, _ = await keys.create(namespace, "the shop")
    theirs, _ = await keys.create(f"{namespace}-b")
    async with serving(no_auth="", key=mine) as http:
        await http.post("/v1/sessions/s/step", json=TURN)
        of_others = {"Authorization": f"Bearer {theirs}"}
        seen = await http.get("/v1/sessions", headers=of_others)
        read = await http.get("/v1/sessions/s/context", headers=of_others)

        assert (await http.get("/v1/sessions")).json()["sessions"] == ["s"]
    assert (seen.json()["sessions"], read.status_code) == ([], 404)


async def test_of_many_namespaces_the_one_longest_unused_makes_room(
    keys: ApiKeys, serving: Serving, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "MOST_CLIENTS", 1)
    monkeypatch.setattr(tenants, "CLOSED_AFTER_S", 0.1)
    made = [(await keys.create(f"{namespace}-{at}"))[0] for at in range(3)]
    async with serving(no_auth="") as http:
        for key in made * 2:
            headers = {"Authorization": f"Bearer {key}"}
            stepped = await http.post("/v1/sessions/s/step", json=TURN, headers=headers)
            assert stepped.status_code == 200
            await asyncio.sleep(0.1)

    assert stepped.json()["last_seq"] == 2


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer tm_wrong", "Basic {key}", "{key}"])
async def test_whoever_has_no_key_gets_nothing(
    keys: ApiKeys, serving: Serving, namespace: str, given: str
) -> None:
    key, _ = await keys.create(namespace)
    async with serving(no_auth="") as http:
        for path in ("/v1/sessions", "/v1/sessions/s/context", "/v1/events"):
            answer = await http.get(path, headers={"Authorization": given.format(key=key)})

            assert (answer.status_code, answer.json()["error"]) == (401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_revoked_key_opens_nothing_soon(
    keys: ApiKeys, serving: Serving, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "TRUSTED_S", 0.1)
    key, made = await keys.create(namespace)
    async with serving(no_auth="", key=key) as http:
        before = await http.get("/v1/sessions")
        assert await keys.revoke(made.id)
        await asyncio.sleep(0.2)
        after = await http.get("/v1/sessions")

    assert [before.status_code, after.status_code] == [200, 401]
    assert await keys.listed() == []
    assert not await keys.revoke(made.id)


async def test_a_stream_ends_with_its_key_and_too_many_are_refused(
    keys: ApiKeys,
    serving: Serving,
    redis_client: redis.Redis,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_keys, "TRUSTED_S", 0.1)
    monkeypatch.setattr(routes, "MOST_STREAMS", 1)
    key, made = await keys.create(namespace)
    async with (
        asyncio.timeout(30),
        serving(no_auth="", key=key) as http,
        http.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == ": commits follow"
        second = await http.get("/v1/events")
        await keys.revoke(made.id)
        await asyncio.sleep(0.2)
        channel = commits_channel(Namespace(namespace))
        while not redis_client.publish(channel, '{"session": "s"}'):  # noqa: ASYNC110 - it listens soon
            await asyncio.sleep(0.1)
        rest = [line async for line in lines]

    assert (second.status_code, second.headers["retry-after"]) == (429, "5")
    assert rest == [""]


async def test_redis_holds_no_key(keys: ApiKeys, redis_client: redis.Redis, namespace: str) -> None:
    key, made = await keys.create(namespace, "the shop")

    stored = repr(redis_client.hgetall(SERVER_KEYS))
    assert made.id in stored
    assert key not in stored
    assert key.removeprefix("tm_") not in stored
    with pytest.raises(InvalidInput, match="201 characters"):
        await keys.create(namespace, "x" * 201)


async def test_a_user_of_redis_with_the_servers_role_is_enough(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, serving: Serving, namespace: str
) -> None:
    add_user(redis_client, line_of("server"))
    url = url_of(redis_server.port, "server")
    store = AsyncConnection(url, 5.0, None, NotImplemented)
    key, made = await ApiKeys(store).create(namespace)
    async with serving(redis=url, no_auth="", key=key) as http:
        opened = await http.put("/v1/sessions/s", json={"system_prompt": "Be kind."})
        stepped = await http.post("/v1/sessions/s/step", json=TURN)
        listed = await http.get("/v1/sessions")
        ready = await http.get("/readyz")
        async with http.stream("GET", "/v1/events") as stream, asyncio.timeout(30):
            await anext(stream.aiter_lines())
            channel = commits_channel(Namespace(namespace))
            while not redis_client.publish(channel, "{}"):  # noqa: ASYNC110 - it listens soon
                await asyncio.sleep(0.1)
        forgotten = await http.delete("/v1/sessions/s")
    assert await ApiKeys(store).revoke(made.id)
    await store.close()

    answers = (opened, stepped, listed, ready, forgotten)
    assert [each.status_code for each in answers] == [204, 200, 200, 200, 200]
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as plain:
        raw: Any = plain
        refused = [str(entry["object"]) for entry in raw.acl_log() if entry["username"] == "server"]
        raw.acl_deluser("server")
    assert all(each.startswith("client") for each in refused)


# --- the commands ---------------------------------------------------------------------------------


def turnmill(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TURNMILL_REDIS_URL": url, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "turnmill_cli", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_keys_are_made_listed_and_revoked_by_commands(store: EmbeddedRedis) -> None:
    made = turnmill(store.url, "keys", "create", "--namespace", "shop", "--label", "Ada")
    key, told = made.stdout.strip(), made.stderr
    listed = turnmill(store.url, "keys")
    key_id = told.partition("revoke ")[2].split("`")[0]
    revoked = turnmill(store.url, "keys", "revoke", key_id)

    assert key.startswith("tm_")
    assert [key_id, "shop", "Ada"] in [row.split()[:3] for row in listed.stdout.splitlines()]
    assert key not in listed.stdout
    assert revoked.returncode == 0
    assert turnmill(store.url, "keys", "revoke", key_id).returncode == 1
    assert key_id not in turnmill(store.url, "keys", "list", "--json").stdout


def test_without_keys_it_does_not_start_and_without_auth_on_loopback_only(
    store: EmbeddedRedis,
) -> None:
    with redis.Redis.from_url(store.url) as plain:
        plain.delete(SERVER_KEYS)
    keyless = turnmill(store.url, "serve")
    open_to_all = turnmill(store.url, "serve", "--no-auth", "--host", "0.0.0.0")  # noqa: S104

    assert keyless.returncode == 1
    assert "turnmill keys create" in keyless.stderr
    assert open_to_all.returncode == 2
    assert "drop --no-auth" in open_to_all.stderr


def test_the_command_serves_until_it_is_told_to_end(store: EmbeddedRedis) -> None:
    key = turnmill(store.url, "keys", "create", "--namespace", "shop").stdout.strip()
    port = str(free_port())
    command = [sys.executable, "-m", "turnmill_cli", "serve", "--port", port]
    env = {**os.environ, "TURNMILL_REDIS_URL": store.url}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout
        url = process.stdout.readline().decode().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers) as http:
            stepped = http.post("/v1/sessions/s/step", json=TURN)
            with http.stream("GET", "/v1/events") as stream:
                lines = stream.iter_lines()
                begun = next(lines)
                process.send_signal(signal.SIGTERM)
                rest = list(lines)

        assert stepped.status_code == 200
        assert (begun, rest) == (": commits follow", [""])  # an open stream does not hold it up
        assert process.wait(20) in (0, -signal.SIGTERM)


def test_prometheus_reads_requests_and_calls_at_a_port_of_the_operators(
    store: EmbeddedRedis,
) -> None:
    ports = {"--port": free_port(), "--metrics-port": free_port()}
    words = [str(each) for option in ports.items() for each in option]
    command = [sys.executable, "-m", "turnmill_cli", "serve", "--no-auth", *words]
    env = {**os.environ, "TURNMILL_REDIS_URL": store.url, "TURNMILL_NAMESPACE": "told"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout
        url = process.stdout.readline().decode().strip()
        taken = turnmill(store.url, "serve", "--no-auth", *words[:1], str(free_port()), *words[2:])
        with httpx.Client() as http:
            for _ in range(3):
                http.post(f"{url}/v1/sessions/private-name/step", json=TURN)
            tenants = [http.get(f"{url}/{path}").status_code for path in ("metrics", "v1/nothing")]
            port = f"http://127.0.0.1:{words[3]}"
            told = http.get(f"{port}/metrics").text
            ready = http.get(f"{port}/readyz").text
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) in (0, -signal.SIGTERM)
    requests = re.findall(r"^turnmill_server_duration_seconds_count(.*)$", told, re.MULTILINE)
    assert tenants == [404, 404]  # a tenant's key opens no other's numbers
    assert '{method="POST",route="/v1/sessions/{session}/step",status="200"} 3' in requests
    assert '{status="404"} 2' in requests
    assert 'turnmill_client_duration_seconds_count{operation="step",projected="false"} 3' in told
    assert "turnmill_client_turns_total 3" in told
    assert "private-name" not in told
    assert ready == "server ok\nredis ok\n"
    assert f"port {words[3]} is in use: choose another with --metrics-port" in taken.stderr
