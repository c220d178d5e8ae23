"""The checks of `turnmill doctor` about parked sessions and the models' endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import ENDPOINTS, SHARDS, endpoint_keys, shard_keys
from turnmill.contract.names import Namespace
from turnmill.transport import to_ms
from turnmill_cli.doctor.checks import Check
from turnmill_cli.doctor.summarizer_checks import examine_summaries
from turnmill_cli.options import Target
from turnmill_cli.output import count

__all__ = ["examine_health"]

_MINUTE_S = 60

_DOWN = (
    "is the endpoint up? It is probed by itself; until it answers, the fallback model or the "
    "extractive summarizer stands in"
)
_ADVICE = {
    "EndpointRefused": "correct TURNMILL_MODEL_KEY, the model's name or the quota, and restart the "
    "workers of summarize; the fallback model or the extractive summarizer stands in",
    "RateLimited": "sessions wait while they have room; if it lasts, set "
    "TURNMILL_MODEL_REQUESTS_PER_MINUTE and …_TOKENS_PER_MINUTE below the endpoint's limits",
}
"""What to do about a model, by its last failure's kind."""


def examine_health(target: Target) -> Iterator[Check]:
    """How many sessions are parked, who can ask a model, and how each model known is doing."""
    try:
        with target.redis() as client:
            yield _parked(client, target.checked_namespace())
            yield examine_summaries(client, target.checked_namespace())
            yield from _models(client)
    except TurnmillError:
        return  # the checks of Redis have said so


def _parked(client: Any, namespace: Namespace) -> Check:
    with client.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            pipe.zcard(shard_keys(namespace, shard).parked)
        parked = sum(pipe.execute())
    if not parked:
        return Check("parked", "ok", f"no session of namespace {namespace}")
    advice = "`turnmill parked` says why; mend it, then `turnmill retry --all`"
    return Check("parked", "warning", f"{count(parked, 'session')} of {namespace}", advice)


def _models(client: Any) -> Iterator[Check]:
    names = [name.decode() for name in client.zrange(ENDPOINTS, 0, -1)]
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(endpoint_keys(name).gate)
        pipe.time()
        *gates, now = pipe.execute()
    for raw in gates:
        fields = {name.decode(): value.decode("utf-8", "replace") for name, value in raw.items()}
        if "model" in fields:
            yield _model(fields, to_ms(now) / 1000)


def _model(fields: Mapping[str, str], now_s: float) -> Check:
    """What a gate's fields say."""

    def left_s(field: str) -> float:
        return float(fields.get(field, 0)) / 1000 - now_s

    used = ""
    if int(fields.get("minute", 0)) == int(now_s // _MINUTE_S):
        requests, tokens = int(fields["requests"]), max(int(fields["tokens"]), 0)
        used = f"; {count(requests, 'request')} and {count(tokens, 'token')} in this minute"
    kind = fields.get("error", "")
    failure = f"{kind} ({fields['why']})" if fields.get("why") else kind
    if left_s("open_until") > 0:
        state = f"breaker open for {left_s('open_until'):.0f} s more after {failure}"
    elif left_s("probe_until") > 0:
        state = f"breaker probing after {failure}"
    elif "open_until" in fields:
        state = f"breaker open until the next call probes it, after {failure}"
    elif left_s("blocked_until") > 0:
        state = f"pauses for {left_s('blocked_until'):.0f} s more after {failure}"
    else:
        last = f"; last failure {failure} {-left_s('error_at'):,.0f} s ago" if failure else ""
        found = f"{fields['place']}: breaker closed{last}{used}"
        return Check(f"model {fields['model']}", "ok", found)
    advice = _ADVICE.get(kind, _DOWN)
    found = f"{fields['place']}: {state}{used}"
    return Check(f"model {fields['model']}", "warning", found, advice)
