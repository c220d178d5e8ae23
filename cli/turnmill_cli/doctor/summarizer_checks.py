"""The check of `turnmill doctor` that sessions get summaries by whom their policies name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from turnmill.contract.codec import decode_json
from turnmill.contract.keys import SHARDS, SUMMARIZERS, SUMMARIZERS_MS, session_keys, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.policy import OFFLINE
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
_UNKNOWN = (
    "correct the summarizer of the policy, or install the package that offers it for each worker "
    "of summarize and restart it; until then the extractive summarizer stands in"
)


def examine_summaries(client: Any, namespace: Namespace) -> Check:
    """Whether workers can ask a model, where sessions' policies want one."""
    names, looked_at = _named(client, namespace)
    asking = len(names)
    if not asking:
        found = f"no model is asked for by the newest sessions of {namespace} ({looked_at:,})"
        return Check("summaries", "ok", found)
    asked = f"{asking:,} of the {count(looked_at, 'newest session')} of {namespace} "
    asked += "asks for a model" if asking == 1 else "ask for a model"
    workers = _workers(client)
    problems = [(each, _problem(each, name)) for each in workers for name in sorted({*names})]
    unable = {each["node"]: problem for each, problem in problems if problem}
    if not workers:
        found = f"{asked}; no worker of summarize is there to say whether it can ask one"
        return Check("summaries", "warning", found, "start one, with TURNMILL_MODEL_KEY set")
    if unable:
        what = f"{len(unable):,} of {count(len(workers), 'worker')} of summarize cannot ask one"
        advice = _UNKNOWN if any(map(_is_unknown, unable.values())) else _ADVICE
        return Check("summaries", "warning", f"{asked}; {what}: {_listed(unable)}", advice)
    return Check("summaries", "ok", f"{asked}; {count(len(workers), 'worker')} can ask one")


def _named(client: Any, namespace: Namespace) -> tuple[list[str], int]:
    """Whom the newest sessions ask beside the offline one, and how many were looked at."""
    with client.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            pipe.zrevrange(shard_keys(namespace, shard).index, 0, NEWEST - 1)
        names = [SessionId(name.decode()) for reply in pipe.execute() for name in reply]
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hget(session_keys(namespace, name).meta, "policy")
        policies = pipe.execute()
    return [name for name in map(_summarizer, policies) if name != OFFLINE], len(names)


def _summarizer(policy: bytes | None) -> str:
    try:
        return str(decode_json(policy or b"{}").get("summarizer", OFFLINE))
    except (AttributeError, ValueError):  # the session's next job says so
        return OFFLINE


def _problem(worker: Mapping[str, Any], name: str) -> str:
    """Why the worker cannot ask the summarizer of this name, or ``""``."""
    offered = worker.get("summarizers")
    if offered is None:  # of an older release, which says it of the one there was
        return str(worker.get("problem", ""))
    return str(offered.get(name, f"{_NONE}{name!r}, but {', '.join(sorted(offered))}"))


_NONE = "it has no summarizer "


def _is_unknown(problem: str) -> bool:
    return problem.startswith(_NONE)


def _workers(client: Any) -> list[dict[str, Any]]:
    since_ms = redis_now_ms(client) - SUMMARIZERS_MS
    return [json.loads(entry) for entry in client.zrangebyscore(SUMMARIZERS, since_ms, "+inf")]


def _listed(unable: Mapping[str, str]) -> str:
    named = [f"{node} ({problem})" for node, problem in list(unable.items())[:MOST_NAMED]]
    more = len(unable) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
