"""`turnmill top` and `turnmill usage`: all namespaces at a glance, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import SessionId

BY_MODEL = {"model": "m", "prompt_tokens": 300, "completion_tokens": 40, "cost_usd": 0.25}
BY_OTHER = {"model": "x", "prompt_tokens": 10, "completion_tokens": 1, "failed": ["RateLimited"]}
OFFLINE = {"model": "extractive", "cost_usd": 0.0}
DAY_MS = 86_400_000


@pytest.fixture
def compacted(client: ContextClient, redis_client: redis.Redis) -> ContextClient:
    """A session with three compactions, of which one was long ago."""
    redis_client.flushall()  # of all namespaces, those of other tests too
    client.push("s", {"role": "user", "content": "private words"})
    keys = session_keys(client.namespace, SessionId("s"))
    seconds, _ = redis_client.time()
    now_ms = seconds * 1000
    for ago_ms, more in ((40 * DAY_MS, OFFLINE), (2000, BY_MODEL), (1000, BY_OTHER)):
        sizes = {"strategy": "rolling", "tokens_before": 1000, "tokens_after": 400}
        record = json.dumps({"session": "s", **sizes, **more})
        redis_client.xadd(keys.compactions, {"record": record}, id=f"{now_ms - ago_ms}-0")
    return client


def test_top_shows_the_fleet_once(turnmill: Callable[..., Ran], compacted: ContextClient) -> None:
    found: dict[str, Any] = turnmill("top", "--once", "--json").json
    table = turnmill("top", "--once").stdout

    assert found["sessions"]["all"] >= 1
    assert {"estimate", "compact", "summarize", "archive"} == set(found["queues"])
    assert found["compactions"]["by_writer"] == {"m": 1, "x": 1}
    assert found["compactions"]["failed_before"] == {"RateLimited": 1}
    assert found["bill"]["tokens_saved"] == 1200
    assert (found["bill"]["cost_usd"], found["bill"]["unpriced"]) == (0.25, 1)
    assert "$0.2500 + 1 unpriced" in table
    assert "private" not in table
    assert compacted.info("s").last_seq == 1


def test_usage_is_summed_up_by_what_is_asked_for(
    turnmill: Callable[..., Ran], compacted: ContextClient
) -> None:
    by_day = turnmill("usage", "--json").json
    by_model = turnmill("usage", "--by", "namespace,model", "-A", "--json").json
    unknown = turnmill("usage", "--by", "weather")

    assert [row["compactions"] for row in by_day] == [1, 2]
    assert {row["namespace"] for row in by_day} == {compacted.namespace}
    assert by_day[1]["prompt_tokens"] == 310
    costs = {(row["namespace"], row["model"]): row["cost_usd"] for row in by_model}
    assert costs[compacted.namespace, "m"] == 0.25
    assert unknown.exit_code == 2
    assert "no weather, but namespace, day, session, model" in unknown.stderr
    assert "no compactions" in turnmill("usage", "-n", "nobody-here").stdout
