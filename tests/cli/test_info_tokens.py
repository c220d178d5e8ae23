"""What `turnmill info` says of tools, and of the provider's tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tests.cli.commands import Ran
from tests.redis.conftest import Worker
from turnmill import ContextClient, Policy

TOOL = {"name": "look", "description": "Looks around.", "input_schema": {"type": "object"}}


def test_tools_and_what_usage_taught_are_shown(
    client: ContextClient, redis_client: redis.Redis, turnmill: Callable[..., Ran]
) -> None:
    worker = Worker(redis_client, client.namespace)
    client.open("s", Policy(), "You are terse.", tools=[TOOL])
    client.push("s", {"role": "user", "content": "word " * 800})
    worker.pipeline.estimate(worker.ref("s"))
    counted = client.read("s").tokens

    client.push("s", {"role": "assistant", "content": "Yes."}, usage=round(counted * 1.25))
    worker.pipeline.estimate(worker.ref("s"))

    said, told = turnmill("info", "s").stdout, turnmill("info", "s", "--json").json
    assert f"tools {client.info('s').tools_tokens:,}" in said
    assert "times 1.25 as 1 call told, 0% too high at most" in " ".join(said.split())
    assert told["correction"] == {
        "ratio": pytest.approx(1.25, abs=0.001),
        "error": 0,
        "calls": 1,
    }
