"""Facts and rules stand in a running system, compaction after compaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
import redis

from tests.processes import wait_until
from tests.worker.harness import (
    KEY,
    ROLLING,
    Events,
    NewWorker,
    asks,
    chat,
    keys_of,
    push_all,
    settled,
)
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.codec import encode_json
from turnmill.testing import FakeEndpoint

pytestmark = pytest.mark.worker

POLICY = Policy(
    max_tokens=2_000, strategies=("rolling", "window"), ledger_ratio=0.5, quality_threshold=0.0
)
PLANTED = (
    "xqmark-7731-kappa",
    "/srv/xqmark/conf.d/lamp-19.yaml",
    "ann.xqmark@mail.example",
    "$4,417.30",
    "https://xqmark.example/tickets/5512?view=all",
)
BEGINNING = (
    f"My customer number is {PLANTED[0]}.",
    f"The settings are in {PLANTED[1]} on that machine.",
    f"Write to {PLANTED[2]} when it is done.",
    f"Repairs came to {PLANTED[3]} in all, and my ticket is {PLANTED[4]} as you know.",
)
TALK = 12
"""Turns of chatter at once: less than what is between target and soft limit."""


def talk(client: ContextClient, session: str, at: int) -> int:
    """Chatter that names things nobody needs; returns the newest turn's seq."""
    for step in range(at * TALK, (at + 1) * TALK):
        role = "assistant" if step % 2 else "user"
        text = " ".join(
            f"Of {step * 31 + part} roses in the garden some {part} were red, I must say."
            for part in range(4)
        )
        seq = client.push(session, {"role": role, "content": text}).seq
    wait_until(lambda: settled(client, session, turns=seq), what=f"settled at {seq}")
    return seq


@pytest.fixture(params=["extractive", "openai"])
def policy(request: pytest.FixtureRequest, new_worker: NewWorker) -> Iterator[Policy]:
    """With a worker of its own; the model remembers less than the extractive summarizer."""
    with FakeEndpoint(key=KEY) as endpoint:
        new_worker("ledger", env=asks(endpoint))
        yield POLICY.model_copy(update={"summarizer": request.param, "model": "gpt-4o-mini"})


def test_many_compactions_lose_no_fact_that_fits_and_tell_nobody_but_the_agent(
    client: ContextClient, store: EmbeddedRedis, server: redis.Redis, policy: Policy
) -> None:
    client.open("s", policy)
    lost: list[str] = []
    with Events(store.url) as events:
        talk(client, "s", 0)
        for text in BEGINNING:
            last = client.push("s", {"role": "user", "content": text}).seq
        at = compactions = 0
        while compactions < 5:
            at += 1
            talk(client, "s", at)
            found = client.read("s")
            seen = json.dumps(found.messages)
            lost += [fact for fact in PLANTED if fact not in seen]
            compactions = client.info("s").compactions if found.watermark >= last else 0

    assert lost == []
    told = encode_json(list(events.seen)).decode()
    records = str(server.xrange(keys_of(client, "s").compactions))
    assert "xqmark" not in told + records


def test_rules_stand_after_several_compactions_until_they_are_revoked(
    client: ContextClient, new_worker: NewWorker
) -> None:
    new_worker("rules")
    agent = client.manager("s", ROLLING, system_prompt="You are terse.")
    agent.push({"role": "user", "content": "Hello there. Do not ever email me. How are you?"})
    agent.push({"role": "assistant", "content": "Well, thanks."})
    agent.instruct("Sundays are sacred.")
    agent.push({"role": "user", "content": "Always give weights in kilos."})

    for round_ in range(3):
        push_all(client, "s", chat(60, topic=f"parcel {round_}"))
        wait_until(partial(settled, client, "s", turns=64 + 60 * round_), what="settled")

    laid_down = agent.messages()[1]
    assert client.info("s").compactions > 1
    assert laid_down["role"] == "user"
    told = "- (turn 3) Sundays are sacred.\n- (turn 4) Always give weights in kilos."
    assert told in laid_down["content"]

    agent.revoke("3")
    assert "3" not in [rule.id for rule in agent.rules()]
    assert client.summarize("s").turns_summarized
    assert "Sundays" not in agent.messages()[1]["content"]
