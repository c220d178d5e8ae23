"""The cut a read applies when a context is over its hard limit: deterministic, and never written.

Promise 3: a read never exceeds the hard limit, whether or not a worker has ever run. Oldest turns
go first, never splitting a tool call from its results, pinned turns last. The cut moves in steps:
replaying the log from the watermark, it jumps to the target each time the hard limit is crossed,
so between two jumps every read is a byte-identical prefix of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnmill.contract.context import JsonMessage, Receipt, StoredContext, TailTurn
from turnmill.contract.legality import segments
from turnmill.contract.policy import Limits
from turnmill.contract.render import receipt_message, render
from turnmill.contract.shorten import shorten

__all__ = ["Projected", "project"]

Count = Callable[[Sequence[JsonMessage]], int]

_RECEIPT_TOKENS = 48
"""Room kept for the receipt: its text and the message around it, generously."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What fits: messages under the hard limit, and the receipt for what does not."""

    messages: list[JsonMessage]
    tokens: int
    receipt: Receipt


def project(
    system: str,
    stored: StoredContext,
    tail: Sequence[TailTurn],
    limits: Limits,
    count: Count,
    *,
    fixed_tokens: int,
) -> Projected:
    """The context cut to its hard limit.

    ``fixed_tokens`` are those of the system prompt, the stored context and the reply's opening;
    the turns carry their own. ``count`` gives an upper bound for any list of messages, with the
    reply's opening, and is asked only when messages must be shortened inside.
    """
    fixed = fixed_tokens + _RECEIPT_TOKENS
    kept, dropped = _keep_newest(tail, fixed, limits)
    receipt = _receipt(dropped)
    messages = render(system, stored, kept, receipt if dropped else None)
    tokens = fixed + sum(turn.tokens for turn in kept)
    if tokens <= limits.hard:
        return Projected(messages=messages, tokens=tokens, receipt=receipt)
    return _squeeze(system, messages, limits, count, receipt)


def _keep_newest(
    tail: Sequence[TailTurn], fixed: int, limits: Limits
) -> tuple[list[TailTurn], list[TailTurn]]:
    kept: list[list[TailTurn]] = []
    dropped: list[TailTurn] = []
    total = fixed
    groups, _ = segments(tail, [turn.messages for turn in tail])
    for group in groups:
        kept.append(group)
        total += sum(turn.tokens for turn in group)
        if total <= limits.hard:
            continue
        for old in list(kept[:-1]):
            if total <= limits.target:
                break
            if not any(turn.pinned for turn in old):
                kept.remove(old)
                dropped += old
                total -= sum(turn.tokens for turn in old)
    return [turn for group in kept for turn in group], dropped


def _receipt(dropped: Sequence[TailTurn]) -> Receipt:
    seqs: list[int] = [turn.seq for turn in dropped] or [0]
    return Receipt(
        by="projection",
        first_seq=min(seqs),
        last_seq=max(seqs),
        turns=len(dropped),
        tokens=sum(turn.tokens for turn in dropped),
    )


def _squeeze(
    system: str, messages: list[JsonMessage], limits: Limits, count: Count, receipt: Receipt
) -> Projected:
    """Shorten inside what is left; when even that is too much, leave only the newest receipt."""
    before = count(messages)
    at = 1 if system else 0
    budget = limits.hard - (before - count(messages[at:]))
    body = shorten(messages[at:], budget, count)
    if body is None:
        gone = receipt.model_copy(update={"turns": max(receipt.turns, 1), "tokens": before})
        body = [receipt_message(gone)]
    shortened = [*messages[:at], *body]
    tokens = count(shortened)
    if not receipt.turns:
        receipt = receipt.model_copy(update={"tokens": max(before - tokens, 0)})
    return Projected(messages=shortened, tokens=tokens, receipt=receipt)
