"""``turnmill info SESSION``: a session in numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from turnmill.contract.info import ContextInfo, Wait
from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.options import (
    DEFAULT_REDIS_URL,
    BrokerUrl,
    JsonFlag,
    NamespaceName,
    RedisUrl,
    SessionName,
    Target,
)
from turnmill_cli.output import clean, count, print_json, stdout

__all__ = ["as_dict", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(info)


def info(
    session: SessionName,
    as_json: JsonFlag = False,
    redis_url: RedisUrl = DEFAULT_REDIS_URL,
    broker_url: BrokerUrl = "",
    namespace: NamespaceName = "default",
) -> None:
    """Print a session's positions, tokens, limits and policy; never its content."""
    with Target(redis_url, broker_url, namespace).client() as client:
        found = client.info(session)
        kept = len(client.checkpoints(session))
    if as_json:
        print_json({**as_dict(found), "checkpoints": kept})
    else:
        _print_table(found, kept)


def as_dict(found: ContextInfo) -> dict[str, Any]:
    """The numbers as JSON has them."""
    return {
        **asdict(found),
        "usage": {**asdict(found.usage), "total": found.usage.total},
        "limits": found.limits.model_dump(),
        "policy": found.policy.model_dump(mode="json"),
        "under_limit": found.under_limit,
    }


def _print_table(found: ContextInfo, checkpoints: int) -> None:
    from rich.table import Table  # noqa: PLC0415

    usage, limits, policy = found.usage, found.limits, found.policy
    rows = {
        "session": f"{found.session} in {found.namespace}",
        "turns": f"{found.last_seq:,} pushed, {found.counted_seq:,} counted, "
        f"{found.turns_in_log:,} in the log, {found.turns_covered:,} on the way to the archive",
        "holds": f"{count(found.interactions, 'interaction')} and {count(found.images, 'image')} "
        "word for word",
        "context": f"version {found.version}, summary to turn {found.watermark}, "
        f"{count(found.compactions, 'compaction')}",
        "tokens": f"{usage.total:,} = system {usage.system:,} + summary {usage.summary:,} + "
        f"tail {usage.tail:,} + pending {usage.pending:,} + reply {usage.REPLY}",
        "whole": f"{count(found.history_tokens, 'token')} counted from the first turn on",
        "quality": "not scored yet"
        if found.quality is None
        else f"{found.quality:.2f} at the last compaction",
        "back to": count(checkpoints, "checkpoint"),
        "limits": f"hard {limits.hard:,}, soft {limits.soft:,}, target {limits.target:,}",
        "state": _state(found),
        "policy": f"{_name(found)}: {' → '.join(policy.strategies)}, "
        f"summarizer {_summarizer(policy)}, {policy.encoding}, "
        f"keeps {count(policy.recent_turns_to_keep, 'recent turn')}",
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    stdout().print(table, markup=False)


def _summarizer(policy: Policy) -> str:
    """Who is asked for summaries, in order; an empty model is the workers' own."""
    if policy.summarizer == OFFLINE:
        return policy.summarizer
    words = [clean(policy.model) or "the workers' model"]
    if policy.fallback_model:
        words.append(f"then {clean(policy.fallback_model)}")
    if policy.batch:
        words.append("in batches while there is time")
    return f"{policy.summarizer} ({', '.join(words)})"


def _name(found: ContextInfo) -> str:
    changed = count(found.settings, "change")
    return f"{clean(found.policy_name) or 'its own'} ({changed})"


def _state(found: ContextInfo) -> str:
    parts = [] if found.under_limit else ["over its hard limit: reads project"]
    if found.pending_for_s is not None:
        parts.append(f"waits {max(found.pending_for_s, 0):.1f} s to be counted")
    if found.wait is not None:
        parts.append(_wait(found, found.wait))
    elif found.due_in_s is not None:
        due = found.due_in_s
        parts.append(f"compaction due in {due:.1f} s" if due > 0 else "compaction due")
    if found.parked_for_s is not None:
        parts.append(f"parked for {found.parked_for_s:,.0f} s: `turnmill retry` tries it again")
    if found.failures:
        parts.append(f"{count(found.failures, 'compaction')} failed in a row")
    return "; ".join(parts) or "nothing to do"


def _wait(found: ContextInfo, wait: Wait) -> str:
    """What a session that is due waits for, and until when."""
    due = found.due_in_s or 0.0
    again = f"in {due:.0f} s" if due > 0 else "now"
    since = "" if wait.for_s is None else f"; has waited {wait.for_s:,.0f} s"
    match wait.on:
        case "worker":
            return f"a worker is compacting it{since}"
        case "turn":
            return f"waits for its turn in the queue summarize{since}"
        case "batch":
            return f"awaits its summary from a batch, looked for {again}{since}"
        case "model":
            failed = clean(", ".join(dict.fromkeys(wait.failed))) or "its model failed"
            tries = f"try {wait.tries} of {found.policy.model_attempts}"
            return f"deferred ({failed}, {tries}), tried again {again}{since}"
