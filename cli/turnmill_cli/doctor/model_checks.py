"""The checks of `turnmill doctor` about models: who can ask one, and how each is doing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.policy import OFFLINE
from turnmill_cli.doctor.check import Check
from turnmill_cli.output import count
from turnmill_cli.redis_view import RedisView

__all__ = ["check_models", "check_summaries"]

NEWEST = 16
"""Sessions per shard whose policies are looked at: those that were pushed to last."""

MOST_NAMED = 3
_MINUTE_S = 60

_NO_MODEL = (
    "set TURNMILL_MODEL_KEY for each worker of the queue summarize and restart it; for another "
    "endpoint than OpenAI's, set TURNMILL_MODEL_URL too. Until then, the extractive summarizer is "
    "used instead"
)
_UNKNOWN = (
    "correct the summarizer of the policy, or install the package that offers it for each worker "
    "of the queue summarize and restart it. Until then, the extractive summarizer is used instead"
)
_NOT_OFFERED = "it has no summarizer "
_DOWN = (
    "is the endpoint up? It is tried again by itself; until it answers, the fallback model or the "
    "extractive summarizer is used instead"
)
_ADVICE = {
    "EndpointRefused": "correct TURNMILL_MODEL_KEY, the model's name or the quota, and restart the "
    "workers of the queue summarize; until then, the fallback model or the extractive summarizer "
    "is used instead",
    "RateLimited": "sessions wait while they have room. If this lasts, set "
    "TURNMILL_MODEL_REQUESTS_PER_MINUTE and TURNMILL_MODEL_TOKENS_PER_MINUTE below the limits of "
    "the endpoint",
}
"""What to do about a model, by the kind of its last failure."""


def check_summaries(view: RedisView) -> Check:
    """Whether workers can ask the summarizers that policies of sessions name."""
    newest = [name for name, _ in view.newest_sessions(NEWEST)]
    named = [name for name in view.summarizers_of(newest) if name != OFFLINE]
    asking = len(named)
    if not asking:
        found = f"no session of {view.namespace} asks for a model ({len(newest):,} looked at)"
        return Check("summaries", "ok", found)
    asked = f"{asking:,} of the {count(len(newest), 'newest session')} of {view.namespace} "
    asked += "asks for a model" if asking == 1 else "ask for a model"
    workers = view.summarizer_workers()
    problems = (
        (each["node"], _problem(each, name)) for each in workers for name in sorted({*named})
    )
    unable = {node: problem for node, problem in problems if problem}
    if not workers:
        found = f"{asked}; no worker consumes the queue summarize"
        return Check("summaries", "warning", found, "start one, with TURNMILL_MODEL_KEY set")
    if unable:
        what = f"{len(unable):,} of {count(len(workers), 'worker')} of summarize cannot ask one"
        unknown = any(problem.startswith(_NOT_OFFERED) for problem in unable.values())
        advice = _UNKNOWN if unknown else _NO_MODEL
        return Check("summaries", "warning", f"{asked}; {what}: {_listed(unable)}", advice)
    return Check("summaries", "ok", f"{asked}; {count(len(workers), 'worker')} can ask one")


def _problem(worker: Mapping[str, Any], name: str) -> str:
    """Why the worker cannot ask the summarizer of this name, or ``""``."""
    offered = worker.get("summarizers")
    if offered is None:  # of an older release, which says it of the one there was
        return str(worker.get("problem", ""))
    return str(offered.get(name, f"{_NOT_OFFERED}{name!r}, but {', '.join(sorted(offered))}"))


def _listed(unable: Mapping[str, str]) -> str:
    named = [f"{node} ({problem})" for node, problem in list(unable.items())[:MOST_NAMED]]
    more = len(unable) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def check_models(view: RedisView) -> Iterator[Check]:
    """How each model that was ever asked is doing."""
    now_s = redis_now_ms(view.client) / 1000
    return (_model(gate, now_s) for gate in view.model_gates() if "model" in gate)


def _model(gate: Mapping[str, str], now_s: float) -> Check:
    def left_s(field: str) -> float:
        return float(gate.get(field, 0)) / 1000 - now_s

    used = ""
    if int(gate.get("minute", 0)) == int(now_s // _MINUTE_S):
        requests, tokens = int(gate["requests"]), max(int(gate["tokens"]), 0)
        used = f"; {count(requests, 'request')} and {count(tokens, 'token')} in this minute"
    kind = gate.get("error", "")
    failure = f"{kind} ({gate['why']})" if gate.get("why") else kind
    if left_s("open_until") > 0:
        state = f"breaker open for another {left_s('open_until'):.0f} s after {failure}"
    elif left_s("probe_until") > 0:
        state = f"breaker probing after {failure}"
    elif "open_until" in gate:
        state = f"breaker open until the next call probes it, after {failure}"
    elif left_s("blocked_until") > 0:
        state = f"pauses for another {left_s('blocked_until'):.0f} s after {failure}"
    else:
        last = f"; last failure {failure} {-left_s('error_at'):,.0f} s ago" if failure else ""
        found = f"{gate['place']}: breaker closed{last}{used}"
        return Check(f"model {gate['model']}", "ok", found)
    found = f"{gate['place']}: {state}{used}"
    return Check(f"model {gate['model']}", "warning", found, _ADVICE.get(kind, _DOWN))
