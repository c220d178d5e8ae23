"""``turnmill history SESSION``: its compactions, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from turnmill.contract.context import Receipt
from turnmill.contract.errors import NotPermitted
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.trajectory import CommittedContext, LostTurns
from turnmill_cli.options import Connection, JsonFlag, SessionName, Timeout
from turnmill_cli.output import count, print_json, print_line, when
from turnmill_cli.progress import asking

__all__ = ["history", "receipt_line"]

_NO_COMPACTION = ("rollback", "erase")


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
        print_json([_as_dict(step) for step in steps])
        return
    if not steps:
        print_line(f"{session} was never compacted")
    else:
        _print(steps)
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


def _as_dict(step: Step) -> dict[str, Any]:
    each, receipts = step
    return {
        "at_ms": each.at_ms,
        **each.record.model_dump(mode="json"),
        "receipts": [receipt.model_dump(mode="json") for receipt in receipts],
    }


def _print(steps: Sequence[Step]) -> None:
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
