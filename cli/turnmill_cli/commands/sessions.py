"""Sessions: ``turnmill open``, ``info``, ``sessions`` and ``namespaces``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill.contract.errors import TurnmillError, UnknownSession
from turnmill.contract.names import SessionId
from turnmill.contract.plural import count
from turnmill.contract.policy import OFFLINE, Policy
from turnmill.contract.results import ContextInfo, Wait
from turnmill.contract.trajectory import LostTurns
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.commands.policies import named
from turnmill_cli.options import (
    AllNamespaces,
    Connection,
    JsonFlag,
    Limit,
    PolicyOptions,
    SessionName,
    text_of,
    views_of_all,
)
from turnmill_cli.output import (
    clean,
    field_table,
    print_json,
    print_line,
    print_rows,
    print_table,
    stdout,
)

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient
    from turnmill_cli.redis_view import RedisView


# --- info -----------------------------------------------------------------------------------------


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
    absent = _absent(connection, found)
    lost = _lost(archive, found)
    if as_json:
        numbers = [each.model_dump() for each in lost]
        more = {"checkpoints": kept, "lost": numbers, "absent": absent}
        print_json({**as_dict(found), **more})
    else:
        _print_info(found, kept, lost, absent)


def _absent(connection: Connection, found: ContextInfo) -> list[str]:
    """What the policy names and workers lack; nothing where they cannot be asked."""
    from turnmill_cli.redis_view import unoffered  # noqa: PLC0415 - as it takes time

    with suppress(TurnmillError), connection.redis() as view:
        return unoffered(found.policy, view.summarizer_workers())
    return []


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


def _print_info(
    found: ContextInfo, checkpoints: int, lost: Sequence[LostTurns], absent: Sequence[str]
) -> None:
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
        "limits": f"hard {limits.hard:,}, soft {limits.soft:,}, target {limits.target:,}"
        + (f", when idle {policy.idle_limit(limits):,}" if policy.compact_when_idle_s else ""),
        "state": _state(found),
        "policy": f"{_name(found)}: {' → '.join(policy.strategies)}, "
        f"summarizer {_summarizer(policy)}, {policy.encoding}, "
        f"keeps {count(policy.recent_turns_to_keep, 'recent turn')}",
    }
    if lost:
        rows["lost"] = "; ".join(map(str, lost))
    if absent:
        rows["absent"] = "; ".join(absent)
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
    if not parts and found.limits.over(found.usage):
        parts.append("over its soft limit: nothing tried was good enough; more turns try again")
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


# --- open -----------------------------------------------------------------------------------------


def open_session(
    session: SessionName,
    options: PolicyOptions,
    connection: Connection,
    system_prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT|@FILE", help="The system prompt, or @ and its file."),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The schemas of its tools: a file with a JSON list."),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            metavar="SESSION", help="The session whose sub-agent this is: it takes over its rules."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a session, or change its policy, system prompt or tools. What is not given stays.

    A session opened with only the name of a policy follows it: `turnmill policies set` changes the
    policy of all its followers.
    """
    prompt = system_prompt
    if system_prompt and system_prompt.startswith("@"):
        prompt = text_of(Path(system_prompt[1:]), "--system-prompt")
    schemas = None if tools is None else _schemas(tools)
    with connection.client(hints=True) as client:
        policy = _chosen(client, session, options)
        client.open(session, policy, prompt, tools=schemas, parent=parent)
        found = client.info(session)
    if as_json:
        print_json(as_dict(found))
    else:
        _print_opened(session, found)


def _print_opened(session: str, found: ContextInfo) -> None:
    follows = f", child of {found.parent}" if found.parent else ""
    follows += f", policy {found.policy_name}" if found.policy_name else ""
    limits = found.limits
    print_line(
        f"opened {session}{follows}: hard limit {limits.hard:,} tokens, compacts above "
        f"{limits.soft:,} to {limits.target:,}"
    )


def _schemas(file: Path) -> Any:
    try:
        return json.loads(text_of(file, "--tools"))
    except ValueError:
        raise typer.BadParameter(f"{file}: not JSON", param_hint="--tools") from None


def _chosen(client: ContextClient, session: str, options: PolicyOptions) -> Policy | str | None:
    if not options.given:
        return None
    return options.name or options.build(
        lambda: _present_policy(client, session), lambda name: named(client, name)
    )


def _present_policy(client: ContextClient, session: str) -> Policy:
    try:
        return client.info(session).policy
    except UnknownSession:
        return Policy()


# --- sessions -------------------------------------------------------------------------------------


Shown = tuple[ContextInfo, float]
"""A session, and when it was last pushed to, in ms."""


def sessions(
    connection: Connection,
    limit: Limit = 50,
    everywhere: AllNamespaces = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only those that wait for something, or are parked.")
    ] = False,
    over_soft: Annotated[
        bool, typer.Option("--over-soft", help="Only those over their soft or hard limit.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List sessions with turns, tokens and state, the most recently pushed first."""
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415 - slow, and the help needs none

    def wanted(found: ContextInfo) -> bool:
        is_over = found.limits.over(found.usage)
        return bool(is_over or not over_soft) and bool(waits(found) or not waiting)

    is_some = waiting or over_soft
    with connection.redis() as view:
        views = views_of_all(view) if everywhere else [view]
        listed = [(at, name, each) for each in views for name, at in each.newest_sessions()]
        listed.sort(key=lambda entry: -entry[0])
        looked_at = listed if is_some else listed[: limit or None]
        rows = [row for row in _infos(views, looked_at) if wanted(row[0])]
        now_ms = redis_now_ms(view.client)
    shown = rows[: limit or None]
    hidden = len(rows) - len(shown) if is_some else len(listed) - len(looked_at)
    print_rows(
        shown,
        _columns(now_ms, everywhere=everywhere),
        none="no such sessions" if is_some else _none_in(connection.namespace, everywhere),
        as_json=_row_as_dict if as_json else None,
        noun="session",
        style=lambda row: None if row[0].under_limit else "yellow",
    )
    if not as_json and hidden:
        stdout().print(f"… and {hidden:,} more: --limit 0 lists all", style="dim")


def _infos(
    views: Sequence[RedisView], listed: Sequence[tuple[float, SessionId, RedisView]]
) -> list[Shown]:
    """The sessions as listed, without those that have expired meanwhile."""
    found = {
        (info.namespace, info.session): info
        for each in views
        for info in each.infos([name for _, name, of in listed if of is each])
    }
    keyed = [((view.namespace, name), at) for at, name, view in listed]
    return [(found[key], at) for key, at in keyed if key in found]


def _row_as_dict(row: Shown) -> dict[str, Any]:
    return {**as_dict(row[0]), "state": state(row[0]), "last_push_ms": int(row[1])}


def waits(found: ContextInfo) -> list[str]:
    """What the session waits for, in a word or two each."""
    words = ["parked"] if found.parked_for_s is not None else []
    if found.wait is not None:
        words.append(_WAITS[found.wait.on])
    elif found.due_in_s is not None:
        words.append("due" if found.due_in_s <= 0 else "due later")
    if found.pending_for_s is not None and found.pending_for_s > 0:
        words.append("to be counted")
    return words


_WAITS = {
    "worker": "compacting",
    "turn": "waiting for its turn",
    "model": "waiting for a model",
    "batch": "batched",
}


def state(found: ContextInfo) -> str:
    """How the session is: over which limit, and what it waits for; ``ok`` for neither."""
    exceeded = found.limits.over(found.usage)
    over = [f"over-{exceeded}"] if exceeded else []
    return ", ".join([*over, *waits(found)]) or "ok"


def _columns(now_ms: int, *, everywhere: bool) -> dict[str, Any]:
    where = {"namespace": lambda row: row[0].namespace} if everywhere else {}
    return {
        **where,
        "session": lambda row: row[0].session,
        "turns": lambda row: row[0].last_seq,
        "tokens / limit": lambda row: f"{row[0].usage.total:,} / {row[0].limits.hard:,}",
        "state": lambda row: state(row[0]),
        "version": lambda row: row[0].version,
        "last push": lambda row: ago((now_ms - row[1]) / 1000),
    }


def _none_in(namespace: str, everywhere: bool) -> str:
    if everywhere:
        return "no sessions"
    return f"no sessions in namespace {namespace}; `turnmill sessions -A` lists those of all"


def ago(seconds: float) -> str:
    """``2 h ago``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


# --- namespaces -----------------------------------------------------------------------------------


def namespaces(connection: Connection, as_json: JsonFlag = False) -> None:
    """List the namespaces of this Redis, the most recently pushed to first."""
    from turnmill.connection.transport import redis_now_ms  # noqa: PLC0415 - slow, and the help needs none

    with connection.redis() as view:
        found = [_row(each) for each in views_of_all(view)]
        now_ms = redis_now_ms(view.client)
    found.sort(key=lambda row: -row["last_push_ms"])
    print_rows(
        found,
        {
            "namespace": lambda row: row["namespace"],
            "sessions": lambda row: row["sessions"],
            "parked": lambda row: row["parked"],
            "last push": lambda row: (
                ago((now_ms - row["last_push_ms"]) / 1000) if row["last_push_ms"] else "–"
            ),
        },
        none="no namespaces",
        as_json=dict if as_json else None,
        noun="namespace",
    )


def _row(view: RedisView) -> dict[str, Any]:
    sessions, parked = view.sizes("index", "parked")
    newest = view.newest_sessions(1)
    at_ms = int(newest[0][1]) if newest else 0
    return {
        "namespace": view.namespace,
        "sessions": sessions,
        "parked": parked,
        "last_push_ms": at_ms,
    }
