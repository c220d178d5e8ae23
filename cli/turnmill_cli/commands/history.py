"""What compactions did to a session: ``turnmill history``, ``diff`` and ``rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from pydantic import BaseModel

from turnmill.contract.context import (
    EMPTY,
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
from turnmill.contract.render import changed_in
from turnmill.contract.rules import Rule
from turnmill.contract.trajectory import CommittedContext, LostTurns
from turnmill_cli.commands.erase import spans
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import (
    CommandFailed,
    clean,
    count,
    number_column,
    plain_table,
    print_json,
    print_line,
    print_table,
    when,
)
from turnmill_cli.progress import asking

# --- history --------------------------------------------------------------------------------------

_NO_COMPACTION = ("rollback", "erase", "fork")


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
    return record.cost_usd is None and record.strategy not in _NO_COMPACTION


def receipt_line(receipt: Receipt) -> str:
    """A receipt in words."""
    what = f"left out {count(receipt.turns, 'turn')}" if receipt.turns else "shortened"
    return (
        f"{receipt.by}: {what} of {receipt.first_seq:,}-{receipt.last_seq:,}, "
        f"{count(receipt.tokens, 'token')}"
    )


def _sum(steps: Sequence[Step]) -> str:
    records = [each.record for each, _ in steps if each.record.strategy not in _NO_COMPACTION]
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

Value = TypeVar("Value", bound=BaseModel)


class Part(NamedTuple):
    """Values only one of two contexts has, and each as a line."""

    removed: tuple[tuple[BaseModel, str], ...]
    added: tuple[tuple[BaseModel, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The differences.

    Attributes:
        summary: lines of a unified diff; empty when the texts are the same.
        ledger: facts shown that came (``+``) or went (``-``), a line each with its turn.
        parts: receipts, events, elisions, pins, rules and requests by name; those without a
            difference, too.
    """

    summary: tuple[str, ...]
    ledger: tuple[str, ...]
    parts: dict[str, Part]

    def __bool__(self) -> bool:
        told = self.summary or self.ledger
        return bool(told or any(any(part) for part in self.parts.values()))


def changes(old: StoredContext, new: StoredContext) -> Changes:
    """What is in one and not in the other."""
    lines = unified_diff(
        old.summary.splitlines(),
        new.summary.splitlines(),
        f"version {old.version}",
        f"version {new.version}",
        lineterm="",
        n=1,
    )
    return Changes(
        summary=tuple(lines),
        ledger=(
            *(f"- {fact}" for fact in _facts(old.ledger) if fact not in _facts(new.ledger)),
            *(f"+ {fact}" for fact in _facts(new.ledger) if fact not in _facts(old.ledger)),
        ),
        parts={
            "receipts": _part(old.receipts, new.receipts, receipt_line),
            "events": _part(old.events, new.events, _event_line),
            "elisions": _part(old.elisions, new.elisions, _elision_line),
            "pins": _part(old.pins, new.pins, _pin_line),
            "rules": _part(old.rules, new.rules, _rule_line),
            "requests": _part(old.requests, new.requests, _request_line),
        },
    )


def _facts(ledger: str) -> dict[str, None]:
    """The facts shown, each behind its turn and speaker."""
    rows = (line.partition(": ") for line in ledger.splitlines())
    return {f"{opening}: {fact}": None for opening, _, own in rows for fact in own.split("; ")}


def _part(old: Sequence[Value], new: Sequence[Value], line: Callable[[Value], str]) -> Part:
    def only(some: Iterable[Value], others: Sequence[Value]) -> tuple[tuple[Value, str], ...]:
        return tuple((value, line(value)) for value in some if value not in others)

    return Part(only(old, new), only(new, old))


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
    changed = changes(*(side.context if side else EMPTY for side in sides))
    if as_json:
        print_json(_diff_as_dict(sides, changed))
    elif not found:
        print_line(f"{session} was never compacted")
    else:
        _print_changes(session, sides, changed)


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


def _diff_as_dict(sides: Sequence[CommittedContext | None], changed: Changes) -> dict[str, Any]:
    def values(part: Part) -> dict[str, list[Any]]:
        return {
            name: [value.model_dump(mode="json") for value, _ in found]
            for name, found in part._asdict().items()
        }

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
        "summary": list(changed.summary),
        "ledger": list(changed.ledger),
        **{name: values(part) for name, part in changed.parts.items()},
    }


def _print_changes(
    session: str, sides: Sequence[CommittedContext | None], changed: Changes
) -> None:
    print_line(session, "bold")
    for side in sides:
        print_line(f"  {_headline(side)}")
    if not changed:
        print_line("no difference but the turns covered", "dim")
    for title, lines in (("summary", changed.summary), ("ledger", changed.ledger)):
        if lines:
            print_line(f"\n{title}", "bold")
        for line in lines:
            print_line(line, _STYLES.get(line[:1], ""))
    for name, part in changed.parts.items():
        if any(part):
            print_line(f"\n{name}", "bold")
        for sign, found in (("-", part.removed), ("+", part.added)):
            for _, line in found:
                print_line(f"{sign} {line}", _STYLES[sign])


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
    if as_json:
        print_json([{"id": rule.id, **rule.model_dump(mode="json")} for rule in found])
    elif not found:
        print_line("no rules")
    else:
        table = plain_table("id", number_column("turn"), "rule")
        for rule in found:
            text = clean(rule.text + changed_in(rule))
            table.add_row(rule.id, f"{rule.seq:,}", text)
        print_table(table)
