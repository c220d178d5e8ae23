"""What compactions did to a session: ``turnmill history``, ``diff`` and ``rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Annotated, Any, NamedTuple

import typer

from turnmill.contract.context import (
    EMPTY,
    NO_COMPACTION,
    Elision,
    OpenRequest,
    PinnedTurn,
    Receipt,
    StoredContext,
    SummaryEvent,
)
from turnmill.contract.errors import NotPermitted
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Version
from turnmill.contract.plural import count
from turnmill.contract.render import changed_in
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import CommittedContext, LostTurns
from turnmill_cli.commands.erase import spans
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import (
    CommandFailed,
    dumped,
    items_line,
    print_json,
    print_line,
    print_rows,
    when,
)
from turnmill_cli.progress import asking

# --- history --------------------------------------------------------------------------------------


class _Recorded(NamedTuple):
    """A commit as Redis remembers it: without the context, and so without receipts."""

    at_ms: int
    record: Compaction


Step = tuple[CommittedContext | _Recorded, tuple[Receipt, ...]]
"""A commit, and the receipts that are new in it."""


def history(
    session: SessionName,
    connection: Connection,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """List a session's compactions: what each removed, what it saved, and what it cost."""
    lost: Sequence[LostTurns] = ()
    try:
        with connection.client(hints=True) as client, asking(timeout):
            found = client.trajectory(session, timeout_s=timeout)
        steps, lost = list(_steps(found.compactions)), found.lost
    except NotPermitted:  # who may only look cannot ask a worker for what is in the archive
        steps = list(_in_redis(connection, session))
    if as_json:
        print_json([_step_as_dict(step) for step in steps])
        return
    if not steps:
        print_line(f"{session} was never compacted")
    else:
        _print_steps(steps)
    for each in lost:
        print_line(f"{each}: `turnmill archive lost {session} --branch {each.branch}` prints them")


def _steps(found: Sequence[CommittedContext]) -> Iterator[Step]:
    known: tuple[Receipt, ...] = ()
    for each in found:
        now = each.context.receipts
        yield each, tuple(receipt for receipt in now if receipt not in known)
        known = now


def _in_redis(connection: Connection, session: str) -> Iterator[Step]:
    with connection.redis() as view:
        for at_ms, record in view.compactions(session):
            yield _Recorded(at_ms, Compaction.model_validate(record)), ()


def _step_as_dict(step: Step) -> dict[str, Any]:
    each, receipts = step
    return {
        "at_ms": each.at_ms,
        **each.record.model_dump(mode="json"),
        "receipts": [receipt.model_dump(mode="json") for receipt in receipts],
    }


def _print_steps(steps: Sequence[Step]) -> None:
    print_line(
        f"{'when':<19}  {'ver':>4}  {'strategy':<10}  {'tokens':<18}  {'quality':>7}", "bold"
    )
    for each, receipts in steps:
        record = each.record
        tokens = f"{_before(record)} → {record.tokens_after:,}"
        quality = "" if record.quality is None else f"{record.quality:.2f}"
        print_line(
            f"{when(each.at_ms)}  {record.version:>4}  {record.strategy:<10}  {tokens:<18}  "
            f"{quality:>7}"
        )
        failed = [f"failed before: {why}" for why in record.failed]
        lines = (
            _covered(record),
            _rules(record),
            *failed,
            items_line(record.items),
            _billed(record),
            *map(receipt_line, receipts),
        )
        for line in filter(None, lines):
            print_line(f"    {line}", "dim")
    print_line(_sum(steps), "dim")


def _before(record: Compaction) -> str:
    # A rollback replaces a context it did not count.
    return f"{record.tokens_before:,}" if record.tokens_before else "–"


def _rules(record: Compaction) -> str:
    changed = ((record.rules_added, "added"), (record.rules_ended, "ended"))
    return ", ".join(f"{count(number, 'rule')} {word}" for number, word in changed if number)


def _covered(record: Compaction) -> str:
    parts = []
    if record.turns:
        parts.append(f"turns {record.from_watermark + 1:,}-{record.watermark:,} covered")
    if record.elided:
        parts.append(f"{count(record.elided, 'message')} now shortened")
    if record.strategy == "rollback":
        parts.append(f"back to turn {record.last_seq:,}")
    if record.strategy == "fork":
        parts.append(f"begun as another session was after turn {record.last_seq:,}")
    if record.strategy == "child":
        parts.append("begun as another session's child, with its user's words")
    if record.strategy == "erase":
        parts.append("words were erased: `turnmill archive erasures` says of which turns")
    if record.model:
        parts.append(f"by {record.model}")
    return ", ".join(parts) or "nothing covered"


def _billed(record: Compaction) -> str:
    """Tokens and price of all models asked, also of refused texts; ``""`` if no model was asked."""
    if not record.prompt_tokens and not _unpriced(record):
        return ""
    price = "price not known" if record.cost_usd is None else f"${record.cost_usd:.4f}"
    return f"{record.prompt_tokens:,} + {record.completion_tokens:,} tokens billed, {price}"


def _unpriced(record: Compaction) -> bool:
    # These have no price because nobody was asked.
    return record.cost_usd is None and record.strategy not in NO_COMPACTION


def receipt_line(receipt: Receipt) -> str:
    """A receipt in words."""
    what = f"left out {count(receipt.turns, 'turn')}" if receipt.turns else "shortened"
    return (
        f"{receipt.by}: {what} of {receipt.first_seq:,}-{receipt.last_seq:,}, "
        f"{count(receipt.tokens, 'token')}"
    )


def _sum(steps: Sequence[Step]) -> str:
    records = [each.record for each, _ in steps if each.record.strategy not in NO_COMPACTION]
    back = sum(each.record.strategy == "rollback" for each, _ in steps)
    saved = sum(r.tokens_before - r.tokens_after for r in records if r.tokens_before)
    costs = [r.cost_usd for r in records if r.cost_usd is not None]
    # A managed view may say more than the turns it was made of took.
    text = f"{count(len(records), 'compaction')}, "
    text += f"{count(abs(saved), 'token')} {'freed' if saved >= 0 else 'added'}"
    text += f", {count(back, 'rollback')}" if back else ""
    text += f", ${sum(costs):.4f}" if any(costs) else ""
    unknown = sum(map(_unpriced, records))
    return text + (f", {count(unknown, 'compaction')} of unknown price" if unknown else "")


# --- what changed between two committed contexts --------------------------------------------------

Told = Mapping[str, Any]
"""Values as JSON has them, each under the line that tells it."""


def summary_diff(old: StoredContext, new: StoredContext) -> list[str]:
    """Lines of a unified diff of the summaries; none when they are the same."""
    return list(
        unified_diff(
            old.summary.splitlines(),
            new.summary.splitlines(),
            f"version {old.version}",
            f"version {new.version}",
            lineterm="",
            n=1,
        )
    )


def changes(old: StoredContext, new: StoredContext) -> dict[str, tuple[Told, Told]]:
    """What is only in the old one and only in the new one, by part; the summary aside."""
    before, after = _told_parts(old), _told_parts(new)
    return {
        name: (_only(before[name], after[name]), _only(after[name], before[name]))
        for name in before
    }


def _only(some: Told, others: Told) -> Told:
    return {line: value for line, value in some.items() if line not in others}


def _told_parts(context: StoredContext) -> dict[str, Told]:
    parts: dict[str, tuple[Sequence[Any], Callable[[Any], str]]] = {
        "receipts": (context.receipts, receipt_line),
        "events": (context.events, _event_line),
        "elisions": (context.elisions, _elision_line),
        "pins": (context.pins, _pin_line),
        "rules": (context.rules, _rule_line),
        "requests": (context.requests, _request_line),
    }
    told = {
        name: {line(value): dumped(value) for value in values}
        for name, (values, line) in parts.items()
    }
    return {"ledger": _facts(context.ledger), **told}


def _facts(ledger: str) -> dict[str, None]:
    """The facts shown, each behind its turn and speaker."""
    rows = (line.partition(": ") for line in ledger.splitlines())
    return {f"{opening}: {fact}": None for opening, _, own in rows for fact in own.split("; ")}


def _event_line(event: SummaryEvent) -> str:
    last = f"-{event.last_iteration}" if event.last_iteration != event.iteration else ""
    return (
        f"iteration {event.iteration}{last}, turns {event.first_seq}-{event.last_seq}: "
        f"{' '.join(event.text.split())}"
    )


def _elision_line(elision: Elision) -> str:
    return (
        f"turn {elision.seq}, message {elision.index}: {elision.tokens_before:,} → "
        f"{elision.tokens_after:,} tokens"
    )


def _rule_line(rule: Rule) -> str:
    return f"{rule.id}: {' '.join(rule.text.split())}{changed_in(rule)}"


def _request_line(request: OpenRequest) -> str:
    answered = ", answered" if request.earlier else ""
    return f"turn {request.seq}{answered}: {' '.join(request.text.split())}"


def _pin_line(pin: PinnedTurn) -> str:
    roles = ", ".join(str(message.get("role")) for message in pin.messages)
    return f"turn {pin.seq}: {roles}"


# --- diff -----------------------------------------------------------------------------------------

_STYLES = {"+": "green", "-": "red", "@": "cyan"}

OldVersion = Annotated[
    int | None,
    typer.Argument(metavar="V1", min=0, help="A version. 0 is the start.", show_default=False),
]
NewVersion = Annotated[
    int | None,
    typer.Argument(metavar="V2", min=0, help="Another version.", show_default=False),
]


def diff(
    session: SessionName,
    connection: Connection,
    old: OldVersion = None,
    new: NewVersion = None,
    as_json: JsonFlag = False,
    timeout: Timeout = 30.0,
) -> None:
    """Show what changed between two contexts: summary, facts, rules, requests, receipts and more.

    Without V2 it is the newest, and without V1 the one before V2. `turnmill history` lists them.
    """
    with connection.client(hints=True) as client, asking(timeout):
        found = client.trajectory(session, timeout_s=timeout).compactions
    commits = {each.context.version: each for each in found}
    newest = max(commits, default=0) if new is None else new
    before = max((each for each in commits if each < newest), default=0) if old is None else old
    sides = [_side(session, commits, version) for version in (before, newest)]
    if as_json:
        print_json(_diff_as_dict(sides))
    elif not found:
        print_line(f"{session} was never compacted")
    else:
        _print_changes(session, sides)


def _side(
    session: str, commits: Mapping[Version, CommittedContext], version: int
) -> CommittedContext | None:
    """The commit of this version; None for version 0, before the first.

    Raises:
        CommandFailed: there is none; says which there are.
    """
    if version and Version(version) not in commits:
        known = spans([0, *sorted(commits)])
        raise CommandFailed(f"no version {version} of {session!r}; there are {known}")
    return commits.get(Version(version))


def _context(side: CommittedContext | None) -> StoredContext:
    return side.context if side else EMPTY


def _diff_as_dict(sides: Sequence[CommittedContext | None]) -> dict[str, Any]:
    old, new = map(_context, sides)
    parts = changes(old, new)
    removed, added = parts.pop("ledger")
    versions = [
        {
            "version": _context(side).version,
            "watermark": _context(side).watermark,
            "at_ms": side.at_ms if side else None,
            "strategy": _context(side).strategy,
            "tokens": side.record.tokens_after if side else None,
        }
        for side in sides
    ]
    return {
        "versions": versions,
        "summary": summary_diff(old, new),
        "ledger": [*(f"- {fact}" for fact in removed), *(f"+ {fact}" for fact in added)],
        **{
            name: {"removed": list(went.values()), "added": list(came.values())}
            for name, (went, came) in parts.items()
        },
    }


def _print_changes(session: str, sides: Sequence[CommittedContext | None]) -> None:
    old, new = map(_context, sides)
    print_line(session, "bold")
    for side in sides:
        print_line(f"  {_headline(side)}")
    found = {"summary": summary_diff(old, new)} | {
        name: [*(f"- {line}" for line in went), *(f"+ {line}" for line in came)]
        for name, (went, came) in changes(old, new).items()
    }
    if not any(found.values()):
        print_line("no difference but the turns covered", "dim")
    for title, lines in found.items():
        if lines:
            print_line(f"\n{title}", "bold")
        for line in lines:
            print_line(line, _STYLES.get(line[:1], ""))


def _headline(side: CommittedContext | None) -> str:
    if side is None:
        return "version 0: nothing compacted yet"
    context = side.context
    return (
        f"version {context.version}: {context.strategy}, {when(side.at_ms)}, turns to "
        f"{context.watermark:,} covered, {side.record.tokens_after:,} tokens"
    )


# --- rules ----------------------------------------------------------------------------------------


def rules(session: SessionName, connection: Connection, as_json: JsonFlag = False) -> None:
    """List the user's rules in force, oldest first, word for word.

    Workers find them when they cover a turn; marked ones are there at once.
    """
    with connection.client() as client:
        found = client.rules(session)
    print_rows(
        found,
        {
            "id": lambda rule: rule.id,
            "turn": lambda rule: rule.seq,
            "rule": lambda rule: rule.text + changed_in(rule),
        },
        none="no rules",
        as_json=(lambda rule: {"id": rule.id, **dumped(rule)}) if as_json else None,
    )
