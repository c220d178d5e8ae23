"""A job's outcome is its result, as `turnmill.contract.job_outcomes` says; Flower shows it.

`stale` and `leased` need two workers: test_races.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import (
    ROLLING,
    Events,
    grown,
    in_one_shard,
    keys_of,
    plain_celery,
    send,
    user,
)
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.jobs import COMPACT, ESTIMATE, SUMMARIZE
from turnmill.hint.thrifty_broker import SENT

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


def test_estimated_says_how_many_sessions_it_was_about(
    store: EmbeddedRedis, listening: Events, namespace: str
) -> None:
    names = in_one_shard(f"t-{namespace}", 3)
    with ContextClient(store.url, namespace=namespace, broker=SilentWaker()) as silent:
        silent.push_many([(name, user("Hi.")) for name in names])

    send(store.url, ESTIMATE, namespace, names[0])

    done = _outcome(listening, names[0], "estimated")
    assert (done.sessions, done.turns) == (3, 3)


def test_committed_tells_the_story_of_a_compaction(
    client: ContextClient, listening: Events, session: str
) -> None:
    grown(client, session, 120, policy=ROLLING)

    assert _outcome(listening, session, "needs-summary").strategy == "rolling"
    done = _outcome(listening, session, "committed")
    assert (done.version, done.strategy) == (1, "rolling")
    assert (done.turns or 0) > 0
    assert (done.tokens_after or 0) < (done.tokens_before or 0)


@pytest.mark.parametrize("task", [COMPACT, SUMMARIZE])
def test_skipped_when_the_session_is_small_enough(
    task: str, client: ContextClient, store: EmbeddedRedis, listening: Events, session: str
) -> None:
    client.push(session, user("Nothing to compact here."))
    done = _outcome(listening, session, "estimated")
    assert (done.turns, done.tokens) == (1, client.info(session).usage.tail)

    send(store.url, task, client.namespace, session)

    assert _outcome(listening, session, "skipped").turns is None


@pytest.mark.parametrize("task", [ESTIMATE, COMPACT, SUMMARIZE])
def test_unknown_for_a_session_nobody_opened(
    task: str, store: EmbeddedRedis, namespace: str, listening: Events, session: str
) -> None:
    send(store.url, task, namespace, session)

    _outcome(listening, session, "unknown")


def test_a_job_says_how_long_its_message_waited(
    store: EmbeddedRedis, namespace: str, listening: Events, session: str
) -> None:
    earlier_ms = int(time.time() * 1000) - 30_000
    with plain_celery(store.url) as app:
        headers = {SENT: earlier_ms}
        app.send_task(COMPACT, args=(namespace, session), queue="compact", headers=headers)

    assert 30 <= (_outcome(listening, session, "unknown").waited_s or 0) < 50


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
