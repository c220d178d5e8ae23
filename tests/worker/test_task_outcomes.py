"""A job's outcome is its result, as `turnmill.contract.job_outcomes` says; Flower shows it.

`stale` and `leased` need two workers: test_races.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import (
    ROLLING,
    SMALL,
    Events,
    chat,
    in_one_shard,
    keys_of,
    push_all,
    send,
    settled,
)
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.jobs import COMPACT, ESTIMATE, SUMMARIZE

pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("worker")]


@pytest.fixture(scope="module")
def listening(store: EmbeddedRedis) -> Iterator[Events]:
    with Events(store.url) as events:
        yield events


@pytest.fixture
def session(namespace: str) -> str:
    """A name of its own: results say their session, not their namespace."""
    return f"s-{namespace}"


def _outcome(events: Events, session: str, wanted: str) -> Outcome:
    wait_until(lambda: wanted in events.outcomes(session), what=f"outcome {wanted}")
    return next(
        Outcome.model_validate(one) for one in events.results(session) if one["outcome"] == wanted
    )


def test_estimated_says_how_many_turns_and_tokens(
    client: ContextClient, listening: Events, session: str
) -> None:
    client.push(session, {"role": "user", "content": "Count me."})

    done = _outcome(listening, session, "estimated")

    assert done.turns == 1
    assert done.tokens == client.info(session).usage.tail


def test_estimated_says_how_many_sessions_it_was_about(
    store: EmbeddedRedis, listening: Events, namespace: str
) -> None:
    names = in_one_shard(f"t-{namespace}", 3)
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as silent:
        silent.push_many([(name, {"role": "user", "content": "Hi."}) for name in names])

    send(store.url, ESTIMATE, namespace, names[0])

    done = _outcome(listening, names[0], "estimated")
    assert (done.sessions, done.turns) == (3, 3)


def test_a_hint_of_several_sessions_is_about_all_of_them(
    store: EmbeddedRedis, listening: Events, namespace: str
) -> None:
    names = [f"several-{namespace}-{at}" for at in range(5)]
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as silent:
        silent.push_many([(name, {"role": "user", "content": "Hi."}) for name in names])

    send(store.url, ESTIMATE, namespace, names[0], names[1:])

    done = _outcome(listening, names[0], "estimated")
    assert (done.sessions, done.turns) == (5, 5)


def test_committed_tells_the_story_of_a_compaction(
    client: ContextClient, listening: Events, session: str
) -> None:
    client.open(session, ROLLING)
    push_all(client, session, chat(120))
    wait_until(lambda: settled(client, session, turns=120))

    done = _outcome(listening, session, "committed")

    assert done.version == 1
    assert done.strategy == "rolling"
    assert done.turns is not None
    assert done.turns > 0
    assert done.tokens_before is not None
    assert done.tokens_after is not None
    assert done.tokens_after < done.tokens_before


def test_needs_summary_hands_the_plan_on(
    client: ContextClient, listening: Events, session: str
) -> None:
    client.open(session, ROLLING)
    push_all(client, session, chat(120))

    assert _outcome(listening, session, "needs-summary").strategy == "rolling"


@pytest.mark.parametrize("task", [COMPACT, SUMMARIZE])
def test_skipped_when_the_session_is_small_enough(
    task: str, client: ContextClient, store: EmbeddedRedis, listening: Events, session: str
) -> None:
    client.push(session, {"role": "user", "content": "Nothing to compact here."})
    _outcome(listening, session, "estimated")

    send(store.url, task, client.namespace, session)

    assert _outcome(listening, session, "skipped").turns is None


def test_no_plan_when_everything_is_pinned(
    client: ContextClient, listening: Events, session: str
) -> None:
    client.open(session, SMALL)
    client.push_many((session, {"messages": [message], "pinned": True}) for message in chat(60))

    _outcome(listening, session, "no-plan")

    assert client.info(session).version == 0


@pytest.mark.parametrize("task", [ESTIMATE, COMPACT, SUMMARIZE])
def test_unknown_for_a_session_nobody_opened(
    task: str, store: EmbeddedRedis, namespace: str, listening: Events, session: str
) -> None:
    send(store.url, task, namespace, session)

    _outcome(listening, session, "unknown")


def test_leased_while_somebody_else_has_the_session(
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    listening: Events,
    session: str,
) -> None:
    client.open(session, Policy(max_tokens=2_000))
    server.set(keys_of(client, session).lease, "somebody", px=60_000)

    send(store.url, COMPACT, client.namespace, session)

    _outcome(listening, session, "leased")


def test_no_task_fails_on_the_way(listening: Events) -> None:
    assert listening.failures() == []
