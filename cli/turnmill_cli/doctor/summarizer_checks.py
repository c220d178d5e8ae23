"""The check of `turnmill doctor` that sessions which ask for a model get one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnmill.contract.codec import decode_json
from turnmill.contract.keys import SHARDS, SUMMARIZERS, SUMMARIZERS_MS, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.transport import redis_now_ms
from turnmill_cli.doctor.checks import Check
from turnmill_cli.output import count

__all__ = ["examine_summaries"]

NEWEST = 16
"""Sessions per shard whose policies are looked at: those that were pushed to last."""

MOST_NAMED = 3

_ADVICE = (
    "set TURNMILL_MODEL_KEY, and TURNMILL_MODEL_URL for another endpoint than OpenAI's, for each "
    "worker of summarize and restart it; until then the extractive summarizer stands in"
)


def examine_summaries(client: Any, namespace: Namespace) -> Check:
    """Whether workers can ask a model, where sessions' policies want one."""
    asking, looked_at = _asking(client, namespace)
    if not asking:
        found = f"no model is asked for by the newest sessions of {namespace} ({looked_at:,})"
        return Check("summaries", "ok", found)
    asked = f"{asking:,} of the {count(looked_at, 'newest session')} of {namespace} "
    asked += "asks for a model" if asking == 1 else "ask for a model"
    workers = _workers(client)
    unable = [each for each in workers if each.get("problem")]
    if not workers:
        found = f"{asked}; no worker of summarize is there to say whether it can ask one"
        return Check("summaries", "warning", found, "start one, with TURNMILL_MODEL_KEY set")
    if unable:
        what = f"{len(unable):,} of {count(len(workers), 'worker')} of summarize cannot ask one"
        return Check("summaries", "warning", f"{asked}; {what}: {_named(unable)}", _ADVICE)
    return Check("summaries", "ok", f"{asked}; {count(len(workers), 'worker')} can ask one")


def _asking(client: Any, namespace: Namespace) -> tuple[int, int]:
    """How many of the newest sessions ask for a model, and how many were looked at."""
    with client.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            pipe.zrevrange(shard_keys(namespace, shard).index, 0, NEWEST - 1)
        names = [SessionId(name.decode()) for reply in pipe.execute() for name in reply]
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hget(session_keys(namespace, name).meta, "policy")
        policies = pipe.execute()
    return sum(map(_asks, policies)), len(names)


def _asks(policy: bytes | None) -> bool:
    try:
        return policy is not None and decode_json(policy).get("summarizer") == "openai"
    except (AttributeError, ValueError):  # the session's next job says so
        return False


def _workers(client: Any) -> list[dict[str, str]]:
    since_ms = redis_now_ms(client) - SUMMARIZERS_MS
    return [json.loads(entry) for entry in client.zrangebyscore(SUMMARIZERS, since_ms, "+inf")]


def _named(unable: Sequence[dict[str, str]]) -> str:
    named = [f"{each['node']} ({each['problem']})" for each in unable[:MOST_NAMED]]
    more = len(unable) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
