"""No word of a conversation leaves Redis' session keys: not in logs, messages, events or errors."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from tests import realdata
from tests.processes import wait_until
from tests.worker.harness import (
    ROLLING,
    Events,
    Monitor,
    NewServer,
    chat,
    debug_worker,
    keys_of,
    push_all,
    until_settled,
    user,
)
from turnmill import ContextClient, NoCheckpoint, Policy, TurnmillError
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import commits_channel
from turnmill.contract.names import Namespace
from turnmill.testing import FakeEndpoint, Fault

pytestmark = pytest.mark.worker

MARK = "xqmark"
"""The beginning of every word that must not get out; what follows says where it was."""

PIXELS = "eHFtYXJr" * 8
"""The mark in base64: an inline image's data."""


def _marked_call(at: int) -> list[dict[str, Any]]:
    """A call and its result, with a mark in every field that takes text."""
    return [
        {
            "role": "assistant",
            "content": None,
            "refusal": f"{MARK}-refusal-{at}",
            "reasoning_content": f"{MARK}-reasoning-{at}",
            "tool_calls": [
                {
                    "id": f"{MARK}-call-{at}",
                    "type": "function",
                    "function": {
                        "name": f"{MARK}_function",
                        "arguments": json.dumps({f"{MARK}-key": f"{MARK}-argument-{at}"}),
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": f"{MARK}-call-{at}", "content": f"{MARK}-result " * 90},
    ]


def _marked_turns() -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for at, message in enumerate(chat(60, topic=f"{MARK}-topic")):
        named = {**message, "name": f"{MARK}-name", f"x_{MARK}": f"{MARK}-value"}
        turns.append({"messages": [named], "metadata": {f"{MARK}-meta": f"{MARK}-data"}})
        turns.append({"messages": _marked_call(at)})
    image = [
        {"type": "text", "text": f"{MARK}-caption"},
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{PIXELS}", "detail": "low"},
        },
    ]
    turns.insert(3, {"messages": [{"role": "user", "content": image}], "pinned": True})
    turns.insert(5, {"messages": [{"role": "developer", "content": f"{MARK}-developer"}]})
    return turns


def _real_turns() -> list[dict[str, Any]]:
    """Messages of real tool-using agents, each text marked; none where there is no data."""
    if realdata.DATA_DIR is None:
        return []
    found = [m for one in realdata.sessions("tau", 6) for m in one["messages"]]
    return [
        {"messages": [{**m, "content": f"{MARK}-real {m['content']}"}]}
        for m in found
        if isinstance(m.get("content"), str) and m["role"] in ("user", "assistant", "tool")
    ]


@dataclass(frozen=True)
class Overheard:
    """All that left the session keys while marked conversations were kept small."""

    logs: str
    broker: str
    events: list[dict[str, Any]]
    announcements: list[Any]
    compactions: int


@pytest.fixture(scope="module")
def overheard(
    store: EmbeddedRedis, new_server: NewServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Overheard]:
    broker, folder = new_server(), tmp_path_factory.mktemp("privacy")
    conversations = {"made-up": _marked_turns(), "real": _real_turns()}
    env = {
        "TURNMILL_BROKER_URL": broker.url,
        "TURNMILL_ARCHIVE_URL": "",
        "TURNMILL_DATA_DIR": str(folder / "data"),
    }
    worker = debug_worker(store.url, folder, env=env)
    with (
        redis.Redis.from_url(store.url) as server,
        server.pubsub() as heard,
        Monitor(broker.url) as monitor,
        Events(broker.url) as events,
        ContextClient(store.url, namespace="private", broker=broker.url) as client,
        worker,
    ):
        heard.subscribe(commits_channel(Namespace("private")))
        for session, turns in conversations.items():
            client.open(session, ROLLING, system_prompt=f"{MARK}-system")
            push_all(client, session, turns)
        for session, turns in conversations.items():
            until_settled(client, session, turns=len(turns))
        versions = sum(client.info(session).version for session in conversations)
        _ask_for_everything(client, "made-up")
        _break(server, client, "cut-off", '[{"role":"user","content":"' + MARK)
        _break(server, client, "no-list", f'"{MARK}"')
        _break(server, client, "no-role", json.dumps([{MARK: MARK}]))
        client.open("bad-context", ROLLING)
        server.set(keys_of(client, "bad-context").context, json.dumps({MARK: MARK, "pins": MARK}))
        push_all(client, "bad-context", chat(90))
        wait_until(lambda: len(events.failures()) >= 4, what="induced failures")
        with pytest.raises(TurnmillError) as told:
            client.trajectory("cut-off")
        assert MARK not in _everything_printed(told.value)
        announced = []
        while message := heard.get_message(timeout=0.2):
            announced.append(message)
        wait_until(lambda: len(events.results()) > 0)
        worker.stop()
        yield Overheard(worker.output(), monitor.text(), events.seen, announced, versions)


def _ask_for_everything(client: ContextClient, session: str) -> None:
    """Ask every question there is, with marks wherever text is taken."""
    client.checkpoint(session, f"{MARK}-message", name=f"{MARK}-checkpoint")
    client.remember(f"{MARK}-memory: Anna likes tea")
    assert client.ground(f"Who likes tea, {MARK}-query?").memories
    assert MARK in str(client.trajectory(session).turns)
    client.summarize(session)
    assert client.rollback(session, f"{MARK}-checkpoint").restored
    with pytest.raises(NoCheckpoint):
        client.rollback(session, f"{MARK}-missing")


def _break(server: redis.Redis, client: ContextClient, session: str, body: str) -> None:
    """Leave a turn in the log that was never pushed like this, and hint."""
    client.push(session, {"role": "user", "content": "fine"})
    wait_until(lambda: client.info(session).counted_seq == 1)
    keys = keys_of(client, session)
    fields = {"messages": body, "bound": "9", "turn_id": "t", "fields": "", "at": "1", "blobs": ""}
    server.xadd(keys.log, dict(fields.items()), id="2-0")
    server.hset(keys.meta, "last_seq", "2")
    client.info(session)  # has its turns counted


def test_nothing_that_left_the_sessions_keys_holds_content(overheard: Overheard) -> None:
    assert overheard.compactions > 0
    assert "DEBUG" in overheard.logs
    assert "turnmill.summarize" in overheard.broker
    assert "task-failed" in {event["type"] for event in overheard.events}
    assert len(overheard.announcements) > overheard.compactions
    for left in (overheard.logs, overheard.broker, overheard.events, overheard.announcements):
        assert MARK not in str(left)
        assert PIXELS not in str(left)


class _Telling(BaseHTTPRequestHandler):
    """A model endpoint that puts what it is sent wherever an answer takes text."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.heard.append(asked)  # type: ignore[attr-defined]
        body = json.dumps({"error": {"message": asked.decode(), "code": MARK}}).encode()
        self.send_response(500, f"{MARK} went wrong")
        self.send_header("X-Request-Id", f"{MARK}-id")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def telling() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Telling) as server:
        server.heard = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_worker_that_asks_a_model_logs_no_content_either(
    new_server: NewServer, tmp_path: Path, telling: ThreadingHTTPServer
) -> None:
    store = new_server()
    faults: list[Fault] = ["400", "malformed", "not-openai", "reset", "huge", "echo", "injected"]
    key = {"TURNMILL_MODEL_KEY": f"{MARK}-key", "OPENAI_LOG": "debug"}
    with FakeEndpoint(script=faults) as endpoint:
        asked: dict[str, list[Any]] = {
            endpoint.base_url: endpoint.requests,
            f"http://127.0.0.1:{telling.server_port}/v1": telling.heard,  # type: ignore[attr-defined]
        }
        for number, (url, heard) in enumerate(asked.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            worker = debug_worker(store.url, folder, env={**key, "TURNMILL_MODEL_URL": url})
            with ContextClient(store.url, namespace=f"model{number}") as client, worker:
                for at in range(len(faults)):
                    preset = ROLLING if at else Policy.managed(recent_runs=3, passthrough_runs=1)
                    more = {"summarizer": "openai", "model": f"model-{at}"}
                    client.open(f"s{at}", preset.model_copy(update=more))
                    push_all(client, f"s{at}", chat(80, topic=f"{MARK}-topic"))
                wait_until(lambda: len(heard) >= len(faults), what="all asked")  # noqa: B023
            assert "DEBUG" in worker.output()
            assert MARK not in worker.output()
            assert MARK in str(heard)


def test_a_damaged_context_is_not_quoted_by_a_read_and_a_good_one_prints_no_messages(
    silent: ContextClient, server: redis.Redis
) -> None:
    for session in ("good", "s"):
        silent.push(session, user(MARK))
    assert MARK not in repr(silent.read("good"))
    server.set(keys_of(silent, "s").context, json.dumps({MARK: MARK, "pins": MARK}))

    with pytest.raises(TurnmillError) as caught:
        silent.read("s")

    assert MARK not in _everything_printed(caught.value)


def _everything_printed(error: BaseException) -> str:
    """The error as logged: with its causes and their attributes, as error trackers send them."""
    seen, text = error, []
    while True:
        text += ["".join(traceback.format_exception_only(seen)), repr(seen), str(vars(seen))]
        following = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
        if following is None:
            return "\n".join(text)
        seen = following
