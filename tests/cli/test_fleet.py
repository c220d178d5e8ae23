"""`turnmill top` and `turnmill usage`: all namespaces at a glance, and what they cost."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from tests.cli.commands import Ran
from tests.processes import wait_until
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
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
    assert "1,200 saved in each later call, 310 read and 41 written by models" in table
    assert "$0.2500 + 1 unpriced spent" in table
    assert "private" not in table
    assert compacted.info("s").last_seq == 1


@pytest.mark.usefixtures("compacted")
def test_a_narrow_terminal_breaks_no_number_from_its_name(
    turnmill: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    top = turnmill("top", "--once").stdout
    usage = turnmill("usage", "--by", "namespace,day,session,model").stdout

    assert all(len(line) <= 80 for line in (top + usage).splitlines())
    assert re.search(r"later 0, *\n +over_soft 0, over_hard 0 *\n", top)
    assert re.search(r"20\d\d-\d\d-\d\d .* \$0\.2500\n", usage)


def test_top_tells_how_many_turns_come_and_for_how_long_messages_wait(
    turnmill: Callable[..., Ran], compacted: ContextClient, redis_server: EmbeddedRedis
) -> None:
    with ContextClient(redis_server.url, namespace="hinting") as hinting:
        hinting.push("s", {"role": "user", "content": "nobody counts this"})
        wait_until(lambda: hinting.hints.published == 1, what="a hint")
    with ThreadPoolExecutor(1) as beside:
        looking = beside.submit(turnmill, "top", "--once", "--json")
        while not looking.done():  # more to one that was there, and others that are new
            compacted.push("s", {"role": "user", "content": "more"})
            time.sleep(0.05)
            compacted.push(f"new-{time.monotonic()}", {"role": "user", "content": "one"})
    found = looking.result().json
    table = turnmill("top", "--once").stdout

    assert 200 < found["turns_per_minute"] < 2_400  # of some 2,000 at the fastest
    assert found["queues"]["estimate"] == 1
    assert 1 <= found["queues_oldest_s"]["estimate"] < 60
    assert found["queues_oldest_s"]["archive"] == 0
    assert re.search(r"queues +estimate 1 \(\d+\.\d s\), compact 0, ", table)
    assert " 0 turns a minute" in table


def test_a_message_that_does_not_say_when_it_was_sent_has_no_age(
    turnmill: Callable[..., Ran], compacted: ContextClient, redis_client: redis.Redis
) -> None:
    assert compacted
    redis_client.lpush("compact", json.dumps({"headers": {}, "body": ""}))

    assert "compact 1 (age not known)" in turnmill("top", "--once").stdout


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
    assert (
        "no compactions in namespace nobody-here; `turnmill usage -A`"
        in turnmill("usage", "-n", "nobody-here").stdout
    )
