"""Agents that only speak HTTP: what the client does, and what they are told when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import redis

from tests.server.conftest import Serving
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.codec import encode_json
from turnmill.contract.keys import commits_channel, registry_keys
from turnmill.contract.names import Namespace
from turnmill.server import events
from turnmill.server.guard import Served

HELLO = {"messages": [{"role": "user", "content": "Hello from Ada."}]}
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at": "the sky"}'},
}


async def test_a_session_is_opened_stepped_read_and_forgotten(http: httpx.AsyncClient) -> None:
    at = "/v1/sessions/team%2Fada%231"  # its name has a slash and a number sign
    opened = await http.put(at, json={"policy": {"max_tokens": 9000}, "system_prompt": "Be kind."})
    stepped = await http.post(f"{at}/step", json={**HELLO, "turn_id": "t1"})
    again = await http.post(f"{at}/turns", json={**HELLO, "turn_id": "t1"})
    read = await http.get(f"{at}/context")
    info = await http.get(at)

    assert opened.status_code == 204
    assert stepped.json() == read.json()
    assert read.json()["session"] == "team/ada#1"
    assert [m["content"] for m in read.json()["request"]["messages"]] == [
        "Be kind.",
        "Hello from Ada.",
    ]
    assert again.json()["seq"] == 1
    assert again.json()["duplicate"]
    assert info.json()["policy"]["max_tokens"] == 9000
    assert (await http.get("/v1/sessions")).json() == {
        "sessions": ["team/ada#1"],
        "after": None,
    }
    assert (await http.delete(at)).json() == {"existed": True, "keys_left": 0}
    assert (await http.get(at)).status_code == 404


async def test_a_context_is_read_in_every_dialect(http: httpx.AsyncClient) -> None:
    await http.put("/v1/sessions/s", json={"system_prompt": "Be kind."})
    await http.post("/v1/sessions/s/turns", json=HELLO)
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "the sky"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "blue"}
    turn = [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    step = await http.post("/v1/sessions/s/step?dialect=chat", json={"messages": turn})
    read = await http.get("/v1/sessions/s/context", params={"dialect": "responses"})
    own = (await http.get("/v1/sessions/s/context")).json()

    assert step.json()["request"]["messages"][2]["tool_calls"][0]["function"]["name"] == "look"
    assert read.json()["request"]["instructions"] == "Be kind."
    assert [item.get("type") for item in read.json()["request"]["input"]][1:] == [
        "function_call",
        "function_call_output",
    ]
    assert (own["dialect"], own["request"]["system"]) == ("anthropic", "Be kind.")


async def test_rules_are_laid_down_and_ended(http: httpx.AsyncClient) -> None:
    await http.post("/v1/sessions/s/rules", json={"text": "Never send mail."})
    [rule] = (await http.get("/v1/sessions/s/rules")).json()
    await http.delete(f"/v1/sessions/s/rules/{rule['id']}")

    assert rule["text"] == "Never send mail."
    assert (await http.get("/v1/sessions/s/rules")).json() == []


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error"),
    [
        ("GET", "/v1/sessions/never/context", None, 404, "UnknownSession"),
        ("GET", "/v1/sessions/never", None, 404, "UnknownSession"),
        ("GET", "/v1/sessions/%20/context", None, 422, "InvalidName"),
        ("GET", "/v1/sessions/never/context?dialect=latin", None, 422, "InvalidInput"),
        ("POST", "/v1/sessions/s/step", {"messages": []}, 422, "InvalidInput"),
        ("POST", "/v1/sessions/s/step", {"messages": [{"role": "king"}]}, 422, "InvalidTurn"),
        ("POST", "/v1/sessions/s/turns", {**HELLO, "other": 1}, 422, "InvalidInput"),
        ("POST", "/v1/sessions/s/rewind", {"at": True}, 422, "InvalidInput"),
        ("POST", "/v1/sessions/s/summarize", {"templat": "brief"}, 422, "InvalidInput"),
        ("PUT", "/v1/sessions/s", {"policy": "none"}, 404, "UnknownPolicy"),
        ("PUT", "/v1/sessions/s", {"policy": {"ttl_s": 2**53}}, 422, "InvalidInput"),
        ("GET", "/mcp", None, 405, "MethodNotAllowed"),
        ("PUT", "/v1/sessions/s", {"policy": {"soft_ratio": 7}}, 422, "InvalidInput"),
        ("DELETE", "/v1/sessions/s/step", None, 405, "MethodNotAllowed"),
        ("GET", "/v2", None, 404, "NotFound"),
    ],
)
async def test_a_problem_has_the_name_of_the_error(
    http: httpx.AsyncClient, method: str, path: str, body: object, status: int, error: str
) -> None:
    answer = await http.request(method, path, json=body)

    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:turnmill:error:{error}"


async def test_a_wrong_policy_is_told_in_words_of_the_policy(http: httpx.AsyncClient) -> None:
    answer = await http.put("/v1/sessions/s", json={"policy": {"max_tokens": -1}})

    assert answer.json()["detail"] == (
        "body.policy: policy: max_tokens: Input should be greater than or equal to 512 (got int)"
    )


async def test_sessions_are_listed_a_page_at_a_time(http: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await http.post(f"/v1/sessions/{name}/turns", json=HELLO)

    first = (await http.get("/v1/sessions?limit=2")).json()
    rest = (await http.get("/v1/sessions", params={"after": first["after"]})).json()
    refused = [await http.get(f"/v1/sessions?{query}") for query in ("limit=1001", "after=a")]

    assert sorted(first["sessions"] + rest["sessions"]) == ["a", "b", "c"]
    assert (len(first["sessions"]), rest["after"]) == (2, None)
    assert [answer.status_code for answer in refused] == [422, 422]
    assert "1000" in refused[0].json()["detail"]
    assert "what the page before said" in refused[1].json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions?dialekt=chat",
        "/v1/memories?query=x&dialekt=",
        "/v1/sessions/s/context?dialekt=chat",
    ],
)
async def test_a_misspelled_parameter_is_named(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("dialekt: ")


async def test_a_body_that_is_no_json_is_told_so(http: httpx.AsyncClient) -> None:
    json_type = {"content-type": "application/json"}
    answer = await http.post("/v1/sessions/s/step", content=b"{x", headers=json_type)

    assert answer.json()["detail"].startswith("body: Invalid JSON")


@pytest.mark.parametrize("call", ["step", "turns"])
async def test_half_a_character_is_taken_as_no_character(
    http: httpx.AsyncClient, call: str
) -> None:
    cut = b'{"messages": [{"role": "user", "content": "Cut: \\ud83d"}]}'  # as JavaScript sends it
    json_type = {"content-type": "application/json"}
    pushed = await http.post(f"/v1/sessions/s/{call}", content=cut, headers=json_type)
    read = await http.get("/v1/sessions/s/context")

    assert pushed.status_code == 200
    assert read.json()["request"]["messages"] == [{"role": "user", "content": "Cut: \ufffd"}]


async def test_a_wrong_path_is_told_where_all_calls_are(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/contexts")

    assert "/openapi.json" in answer.json()["detail"]


async def test_a_wrong_method_is_told_all_right_ones(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/sessions/s")

    assert answer.headers["allow"] == "PUT, GET, DELETE"


async def test_another_turn_under_the_same_id_is_a_conflict(http: httpx.AsyncClient) -> None:
    await http.post("/v1/sessions/s/turns", json={**HELLO, "turn_id": "t"})
    other = [{"role": "user", "content": "Something else."}]
    answer = await http.post("/v1/sessions/s/turns", json={"messages": other, "turn_id": "t"})

    assert (answer.status_code, answer.json()["error"]) == (409, "TurnConflict")


async def test_a_turn_over_the_limit_is_refused_or_cut(http: httpx.AsyncClient) -> None:
    long = {"messages": [{"role": "user", "content": "word " * 300_000}]}
    refused = await http.post("/v1/sessions/s/turns", json=long)
    cut = await http.post("/v1/sessions/s/turns", json={**long, "on_too_large": "cut"})

    assert (refused.status_code, refused.json()["error"]) == (413, "TurnTooLarge")
    assert cut.json()["cut"] > 0


@pytest.mark.parametrize("path", ["/v1/sessions/s/step", "/v1/memories"])
async def test_a_body_over_the_limit_is_not_taken_in(serving: Serving, path: str) -> None:
    async def dripped() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    async with serving(max_body_bytes=2_000) as http:
        told = await http.post(path, json={"text": "x" * 3_000})
        untold = await http.post(
            path, content=dripped(), headers={"Content-Type": "application/json"}
        )

    assert [told.status_code, untold.status_code] == [413, 413]
    assert untold.headers["content-type"] == "application/problem+json"


async def test_a_used_up_quota_says_when_to_try_again(
    serving: Serving, redis_client: redis.Redis, namespace: str
) -> None:
    over = encode_json({"sessions": [3, 3]})
    redis_client.hset(registry_keys(Namespace(namespace)).quota, "over", over)
    async with serving() as http:
        answer = await http.post("/v1/sessions/new/step", json=HELLO)

    assert (answer.status_code, answer.json()["error"]) == (429, "QuotaExceeded")
    assert answer.json()["transient"]
    assert answer.headers["retry-after"] == "1"


async def test_without_a_store_the_server_is_alive_and_not_ready(serving: Serving) -> None:
    async with serving(redis="redis://127.0.0.1:1/0", timeout_s=0.5) as http:
        alive, ready = await http.get("/healthz"), await http.get("/readyz")
        answer = await http.get("/v1/sessions/s/context")

    assert (alive.status_code, ready.status_code, answer.status_code) == (200, 503, 503)
    assert answer.json()["error"] == "StoreUnavailable"
    assert answer.json()["transient"]
    assert "127.0.0.1" not in answer.text + ready.text  # a tenant need not know where Redis is


async def test_what_nobody_foresaw_is_told_and_logged_without_content(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a secret that was said")

    monkeypatch.setattr("turnmill.server.routes.read_of", broken)
    answer = await http.post("/v1/sessions/s/step", json=HELLO)

    assert (answer.status_code, answer.json()["error"]) == (500, "InternalError")
    assert "KeyError at test_sessions.py" in caplog.text
    assert "secret" not in caplog.text + answer.text


# --- beside the calls -----------------------------------------------------------------------------


async def test_each_request_is_told_of_with_its_route(serving: Serving, namespace: str) -> None:
    told: list[Served] = []
    async with serving(on_served=told.append) as http:
        assert (await http.get("/readyz")).json() == {"status": "ok"}
        await http.post("/v1/sessions/s/step", json=HELLO)
        await http.get("/v1/sessions/s")
        await http.get("/nowhere")

    assert [(each.method, each.route, each.status, each.namespace) for each in told] == [
        ("GET", "/readyz", 200, ""),
        ("POST", "/v1/sessions/{session}/step", 200, namespace),
        ("GET", "/v1/sessions/{session}", 200, namespace),
        ("GET", "", 404, ""),
    ]
    assert all(each.seconds > 0 for each in told)


async def test_a_page_in_a_browser_cannot_use_a_server_without_keys(
    http: httpx.AsyncClient,
) -> None:
    hosts = ["evil.example:80", "localhost.evil.example", "[::1].evil.example", "[::1"]
    elsewhere = [await http.get("/v1/sessions", headers={"Host": host}) for host in hosts]
    origins = ["http://evil.example", "null", "http://localhost:3000", "http://[::1]"]
    blind = [
        await http.post("/v1/sessions/s/summarize", headers={"Origin": origin})
        for origin in origins
    ]
    plain = await http.post(
        "/v1/sessions/s/step",
        content=b'{"messages": [{"role": "user", "content": "x"}]}',
        headers={"Content-Type": "text/plain"},
    )

    assert [each.status_code for each in elsewhere] == [421] * 4
    assert [each.status_code == 421 for each in blind] == [True, True, False, False]
    assert plain.status_code == 422
    assert (await http.get("/v1/sessions")).json()["sessions"] == []


async def test_a_quiet_stream_sends_comments(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "QUIET_S", 0.05)
    async with http.stream("GET", "/v1/events?session=s") as stream, asyncio.timeout(30):
        lines = stream.aiter_lines()
        sent = [await anext(lines) for _ in range(5)]

    assert sent == [": commits follow", "", ":", "", ":"]


@pytest.fixture
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False) as server:
        yield server


async def test_a_stream_ends_when_redis_is_lost_and_the_next_one_hears_again(
    serving: Serving, own_redis: EmbeddedRedis, namespace: str
) -> None:
    async with serving(redis=own_redis.url, timeout_s=1.0) as http:
        async with http.stream("GET", "/v1/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": commits follow"
            await asyncio.sleep(0.5)  # until it listens
            own_redis.kill()
            async with asyncio.timeout(30):
                rest = [line async for line in lines]
        lost = await http.get("/readyz")
        own_redis.start()
        async with http.stream("GET", "/v1/events") as stream, asyncio.timeout(30):
            lines = stream.aiter_lines()
            await anext(lines)
            with redis.Redis.from_url(own_redis.url) as plain:
                channel = commits_channel(Namespace(namespace))
                while not plain.publish(channel, '{"session": "s"}'):  # noqa: ASYNC110 - it listens soon
                    await asyncio.sleep(0.1)
            heard = [await anext(lines) for _ in range(3)]
        found = await http.get("/readyz")

    assert rest == [""]
    assert heard[1:] == ["event: commit", 'data: {"session": "s"}']
    assert (lost.status_code, found.status_code) == (503, 200)
