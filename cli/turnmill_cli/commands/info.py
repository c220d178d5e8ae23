"""``turnmill info SESSION``: a session in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from turnmill.contract.errors import TurnmillError
from turnmill.contract.policy import OFFLINE, Policy
from turnmill.contract.results import ContextInfo, Wait
from turnmill.contract.trajectory import LostTurns
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.options import Connection, JsonFlag, SessionName
from turnmill_cli.output import clean, count, field_table, print_json, print_table

__all__ = ["as_dict", "info"]


def info(
    session: SessionName,
    connection: Connection,
    archive: ArchiveDatabase,
    as_json: JsonFlag = False,
) -> None:
    """Print a session's positions, tokens, limits and policy; never its content.

    Where the archive is on this machine, it says what Redis once lost of the session, too.
    """
    with connection.client() as client:
        found = client.info(session)
        kept = len(client.checkpoints(session))
    lost = _lost(archive, found)
    if as_json:
        numbers = [each.model_dump() for each in lost]
        print_json({**as_dict(found), "checkpoints": kept, "lost": numbers})
    else:
        _print_table(found, kept, lost)


def _lost(archive: ArchiveDatabase, found: ContextInfo) -> list[LostTurns]:
    """What the archive keeps of states that Redis lost; nothing where it cannot be asked."""
    try:
        if not archive.url or archive.is_absent:
            return []
        from turnmill_worker.ports.values import SessionRef  # noqa: PLC0415 - needs the extra worker

        with archive.open() as opened:
            kept = opened.branches(SessionRef(found.namespace, found.session))
    except TurnmillError:  # `turnmill doctor` says why
        return []
    return [LostTurns.model_validate(each.numbers) for each in kept]


def as_dict(found: ContextInfo) -> dict[str, Any]:
    """The numbers as JSON has them."""
    told = found.correction
    return {
        **asdict(found),
        "usage": {**asdict(found.usage), "total": found.usage.total},
        "limits": found.limits.model_dump(),
        "policy": found.policy.model_dump(mode="json"),
        "correction": {"ratio": told.ratio, "error": told.error, "calls": len(told.ratios)},
        "under_limit": found.under_limit,
    }


def _print_table(found: ContextInfo, checkpoints: int, lost: Sequence[LostTurns]) -> None:
    usage, limits, policy = found.usage, found.limits, found.policy
    rows = {
        "session": f"{found.session} in {found.namespace}",
        "turns": f"{found.last_seq:,} pushed, {found.counted_seq:,} counted, "
        f"{found.turns_in_log:,} in the log, {found.turns_covered:,} on the way to the archive",
        "holds": f"{count(found.interactions, 'interaction')} and {count(found.images, 'image')} "
        "word for word",
        "context": f"version {found.version}, summary to turn {found.watermark}, "
        f"{count(found.compactions, 'compaction')}",
        "tokens": f"{usage.total:,} = system {usage.system - found.tools_tokens:,} + "
        f"tools {found.tools_tokens:,} + summary {usage.summary:,} + "
        f"tail {usage.tail:,} + pending {usage.pending:,} + reply {usage.REPLY}",
        "counted": _counted(found),
        "whole": f"{count(found.history_tokens, 'token')} counted since the first turn",
        "quality": "not scored yet"
        if found.quality is None
        else f"{found.quality:.2f} at the last compaction",
        "checkpoints": f"{checkpoints:,} to go back to",
        "limits": f"hard {limits.hard:,}, soft {limits.soft:,}, target {limits.target:,}",
        "state": _state(found),
        "policy": f"{_name(found)}: {' → '.join(policy.strategies)}, "
        f"summarizer {_summarizer(policy)}, {policy.encoding}, "
        f"keeps {count(policy.recent_turns_to_keep, 'recent turn')}",
    }
    if lost:
        rows["lost"] = "; ".join(map(str, lost))
    table = field_table()
    table.columns[0].style = "bold"
    for name, value in rows.items():
        table.add_row(name, value)
    print_table(table)


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


def _counted(found: ContextInfo) -> str:
    """By what tokens were counted, and what the agent told of its provider's."""
    known, basis = found.correction, found.basis or "nobody yet"
    if known.error is None:
        if known.ratio == 1:
            return basis
        return f"{basis}, times {known.ratio:g} for the model: a guess until pushes tell `usage=`"
    calls = count(len(known.ratios), "call")
    return f"{basis}, times {known.ratio:.2f} as {calls} told, {known.error:.0%} too high at most"


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
            return f"waits for a batch with its summary, next look {again}{since}"
        case "model":
            failed = clean(", ".join(dict.fromkeys(wait.failed))) or "its model failed"
            tries = f"try {wait.tries} of {found.policy.model_attempts}"
            return f"deferred ({failed}, {tries}), tried again {again}{since}"
