"""Two versions serve the same sessions: fields of the newer are kept, a newer major left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import SMALL, NewWorker, chat, keys_of, push_all, stored, until_settled
from tests.worker.newer_version import NewerVersion
from turnmill import ContextClient, NewerFormat
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations

pytestmark = pytest.mark.worker

POLICY = {"max_tokens": 2_000, "quality_threshold": 0.0, "tempo": 3}
RULE = {"role": "user", "content": "From now on, always answer in English."}


@pytest.fixture
def newer(tmp_path: Path) -> Callable[[str], NewerVersion]:
    """Makes a newer version that writes this format."""
    return lambda form: NewerVersion(tmp_path / f"newer-{form}", writes=form)


def context_of(server: redis.Redis, client: ContextClient, session: str) -> dict[str, Any]:
    body: Any = server.get(keys_of(client, session).context)
    found: dict[str, Any] = json.loads(body)
    return found


def test_both_versions_serve_the_same_sessions_and_nothing_is_lost(
    store: EmbeddedRedis,
    server: redis.Redis,
    silent: ContextClient,
    new_worker: NewWorker,
    newer: Callable[[str], NewerVersion],
) -> None:
    made = newer("1.9")
    messages = [RULE, *chat(159)]

    # The newer version opens the session, compacts it once, and is taken away.
    made.client(store.url, silent.namespace, "s", messages[:80], policy=POLICY)
    first = new_worker("newer", env=made.env)
    until_settled(silent, "s", turns=80)
    first.stop()
    assert context_of(server, silent, "s")["format"] == "1.9"
    assert silent.read("s").messages[0]["content"].find("English") > 0

    # This version goes on with the same session, and keeps what it does not know.
    push_all(silent, "s", messages[80:])
    before = silent.read("s").version
    second = new_worker("this")
    until_settled(silent, "s", turns=160)
    assert silent.read("s").version > before
    context = context_of(server, silent, "s")
    assert (context["mood"], context["format"]) == ("calm", "1.9")

    # Then both at once, and both clients.
    third = new_worker("newer-again", env=made.env)
    for session in ("s", "t"):
        made.client(store.url, silent.namespace, session, chat(40, topic="crate"), policy=POLICY)
        push_all(silent, session, chat(40, topic="box"))
    until_settled(silent, "s", turns=240)
    until_settled(silent, "t", turns=80)
    own = [*chat(40, topic="crate"), *chat(40, topic="box")]
    stored(server, silent, "s").assert_conserved([*messages, *own])
    stored(server, silent, "t").assert_conserved(own)
    assert_read_alike(store, silent, made)
    for worker in (first, second, third):
        assert "event='failed'" not in worker.output()


def test_a_newer_major_is_left_alone_and_other_sessions_go_on(
    store: EmbeddedRedis,
    server: redis.Redis,
    silent: ContextClient,
    new_worker: NewWorker,
    newer: Callable[[str], NewerVersion],
) -> None:
    made = newer("2.0")
    made.client(store.url, silent.namespace, "new", chat(80), policy=POLICY)
    first = new_worker("newer", env=made.env)
    wait_until(lambda: context_exists(server, silent), what="compacted by the newer version")
    first.stop()
    made.client(store.url, silent.namespace, "new", chat(80, topic="box"))
    before = stored(server, silent, "new").covered

    older = new_worker("this")
    silent.open("old", SMALL)
    push_all(silent, "old", chat(80))
    until_settled(silent, "old", turns=80)
    wait_until(lambda: "event='newer format'" in older.output(), what="the newer session met")

    assert "this worker is older" in older.output()
    assert "upgrade the workers" in older.output()
    assert older.output().count("event='newer format'") < 60  # or it would do nothing else
    assert silent.parked() == []
    assert stored(server, silent, "new").covered == before
    with pytest.raises(NewerFormat, match="this client is older"):
        silent.read("new")

    # A newer worker goes on as if nothing had been.
    new_worker("newer-again", env=made.env)
    wait_until(
        lambda: len(stored(server, silent, "new").covered) > len(before),
        within_s=60,
        what="served by the newer version",
    )
    stored(server, silent, "new").assert_conserved([*chat(80), *chat(80, topic="box")])
    assert made.client(store.url, silent.namespace, "new")


def assert_read_alike(store: EmbeddedRedis, silent: ContextClient, made: NewerVersion) -> None:
    for session in ("s", "t"):
        read = silent.read(session).messages
        assert read == made.client(store.url, silent.namespace, session)
        assert not violations(read)


def context_exists(server: redis.Redis, client: ContextClient) -> bool:
    return bool(server.exists(keys_of(client, "new").context))
