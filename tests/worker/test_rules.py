"""A rule said early stands in the context of a running system, compaction after compaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, chat, push_all, settled
from turnmill import ContextClient

pytestmark = pytest.mark.worker


def test_rules_stand_after_several_compactions_until_they_are_revoked(
    client: ContextClient, new_worker: Callable[..., WorkerProcess]
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
