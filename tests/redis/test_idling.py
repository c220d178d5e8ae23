"""Sessions that fall quiet are compacted before their prompt cache expires, if a policy says so."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.processes import wait_until
from tests.redis.conftest import Worker
from turnmill import ContextClient, InvalidPolicy, Policy
from turnmill.connection.transport import redis_now_ms
from turnmill_worker.store.sweep_lists import RedisSweepLists

POLICY = Policy(max_tokens=2_000, compact_when_idle_s=270)
BETWEEN, SOFT = 1_400, 1_600
"""Tokens above the limit of quiet sessions, 1,300, and the limit of all others."""

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


class Agent:
    """An agent, and a worker whose stages are run by hand."""

    def __init__(self, client: ContextClient, worker: Worker, raw: redis.Redis) -> None:
        self.client, self.worker, self.raw = client, worker, raw
        self.ref, self.keys = worker.ref("s"), worker.keys("s")
        self._said = 0

    def say(self, tokens: int = 0) -> None:
        """Push at least one turn, until there are more than so many tokens."""
        while True:
            at, self._said = self._said, self._said + 1
            text = f"Parcel {at}: Anna wants number {at * 17} brought to street {at * 7} by noon."
            self.client.push("s", {"role": "assistant" if at % 2 else "user", "content": text})
            self.worker.pipeline.estimate(self.ref)
            if self.client.info("s").usage.total > tokens:
                return

    @property
    def waits_s(self) -> float | None:
        """For how long it is not due, from now on; None when it is on no list."""
        at: Any = self.raw.zscore(self.keys.due, "s")
        return None if at is None else (at - redis_now_ms(self.raw)) / 1000

    def work(self) -> str:
        return self.worker.pipeline.summarize(self.ref).outcome


@pytest.fixture
def agent(client: ContextClient, worker: Worker, redis_client: redis.Redis) -> Agent:
    return Agent(client, worker, redis_client)


def test_a_quiet_session_is_compacted_to_its_target_once(agent: Agent) -> None:
    agent.client.open("s", POLICY.model_copy(update={"compact_when_idle_s": 0.4}))
    agent.say(BETWEEN)
    assert agent.work() == "deferred"  # a hint that comes early

    wait_until(lambda: (agent.waits_s or 0) < 0)
    assert agent.work() == "committed"

    info = agent.client.info("s")
    assert info.usage.total <= info.limits.target
    assert agent.waits_s is None
    assert agent.work() == "skipped"
    assert agent.waits_s is None


def test_the_time_begins_anew_with_each_push(agent: Agent) -> None:
    agent.client.open("s", POLICY.model_copy(update={"compact_when_idle_s": 2.0}))
    agent.say(BETWEEN)
    wait_until(lambda: (agent.waits_s or 0) < 1.5)

    agent.client.push("s", {"role": "user", "content": "one more"})  # nobody counts it yet
    wait_until(lambda: (agent.waits_s or 0) < 0)
    assert agent.work() == "skipped"

    before = agent.waits_s or 0
    assert 0 < before < 2
    agent.say()
    assert before < (agent.waits_s or 0) < 2


def test_an_open_call_is_waited_for(agent: Agent) -> None:
    agent.client.open("s", POLICY)
    agent.say(BETWEEN)
    agent.client.push("s", {"role": "assistant", "content": None, "tool_calls": [CALL]})
    agent.worker.pipeline.estimate(agent.ref)
    assert agent.waits_s is None
    assert agent.work() == "skipped"
    assert agent.waits_s is None

    agent.client.push("s", {"role": "tool", "tool_call_id": "c1", "content": "seen"})
    agent.worker.pipeline.estimate(agent.ref)

    assert agent.waits_s == pytest.approx(270, abs=5)


def test_a_session_above_its_soft_limit_waits_for_nothing(agent: Agent) -> None:
    agent.client.open("s", POLICY)
    agent.say(BETWEEN)
    assert agent.waits_s == pytest.approx(270, abs=5)

    agent.say(SOFT)

    assert (agent.waits_s or 0) <= 0
    assert agent.work() == "committed"


def test_what_the_policy_no_longer_wants_does_not_come(agent: Agent) -> None:
    agent.client.open("s", POLICY)
    agent.say(BETWEEN)

    agent.client.open("s", Policy(max_tokens=2_000))
    agent.worker.pipeline.estimate(agent.ref)

    assert agent.waits_s is None


def test_the_sweep_leaves_a_long_silence_alone(agent: Agent, redis_client: redis.Redis) -> None:
    agent.client.open("s", Policy.when_idle("anthropic-1h", max_tokens=2_000))
    agent.say(BETWEEN)

    RedisSweepLists(redis_client).drop_expired(agent.ref.namespace)

    assert agent.waits_s == pytest.approx(3_420, abs=5)


def test_its_limit_lies_between_the_two_others() -> None:
    limits = Policy(max_tokens=1_000).limits(0)
    assert Policy().idle_limit(limits) == 650
    assert Policy(idle_ratio=0.7).idle_limit(limits) == pytest.approx(700, abs=1)
    with pytest.raises(InvalidPolicy, match=r"idle_ratio 0\.5 must lie in"):
        Policy(idle_ratio=0.5)
    with pytest.raises(InvalidPolicy, match="no cache 'mine'"):
        Policy.when_idle("mine")
