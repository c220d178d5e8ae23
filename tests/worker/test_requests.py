"""The request an agent works on stands in the context of a running system, word for word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, JsonMessage, push_all, settled
from turnmill import ContextClient

pytestmark = pytest.mark.worker

TASK = "Fix parse_header in http/head.py:\n\n    raise ValueError(line)\n\nKeep its name."


def work(steps: int, *, of: str) -> list[JsonMessage]:
    """Calls with their results, about 60 tokens each."""
    messages: list[JsonMessage] = []
    for at in range(steps):
        call_id = f"{of}-{at}"
        function = {"name": "run", "arguments": f'{{"command": "pytest {of}/test_{at}.py"}}'}
        call = {"id": call_id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": f"{at} passed in {of} " * 12},
        ]
    return messages


def test_the_request_stands_unchanged_after_several_compactions(
    client: ContextClient, new_worker: Callable[..., WorkerProcess]
) -> None:
    new_worker("requests")
    agent = client.manager("s", ROLLING, system_prompt="You are terse.")
    agent.push({"role": "user", "content": TASK})

    sections = []
    for round_ in range(3):
        push_all(client, "s", work(20, of=f"part{round_}"))
        wait_until(partial(settled, client, "s", turns=1 + 40 * (round_ + 1)), what="settled")
        sections.append(agent.messages()[1])

    assert client.info("s").compactions > 1
    assert sections[0] == {
        "role": "user",
        "content": f"[What the user asked for, word for word]\n(turn 1) {TASK}\n[End of request]",
    }
    assert sections == [sections[0]] * 3
