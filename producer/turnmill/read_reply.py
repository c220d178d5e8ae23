"""A read's reply as values: the session's numbers, its turns, and the context made of them.

Pure; both clients and the workers decode what is stored with the functions here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnmill.context import Context
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.correction import Correction
from turnmill.contract.encodings import file_of
from turnmill.contract.formats import as_corrupt
from turnmill.contract.images.token_cost import DEFAULT_FORMULA
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.render import render, render_head
from turnmill.contract.tail import TailTurn
from turnmill.projection import Projected, project
from turnmill.session_view import DEFAULT_POLICY, META_FIELDS, View, bound, to_int

__all__ = [
    "DEFAULT_POLICY",
    "META_FIELDS",
    "LogEntry",
    "View",
    "bound",
    "read_context",
    "to_int",
]

_RECEIPT_BYTES = 96
"""What a projection's receipt may have in bytes, beyond the room that is kept for its tokens."""


@as_corrupt()
def read_context(session: SessionId, reply: Sequence[Any], beside: int = 0) -> Context:
    """The context in the reply to a read of a known session, projected when it is too large.

    Raises:
        NewerFormat, CorruptContext: this version cannot read something stored, or none could.
    """
    meta, body, counts, entries, _ = reply
    view = View.of(meta)
    stored = StoredContext.parse(body)
    view = view.reliable(stored).with_beside(beside)
    log = [LogEntry.of(entry) for entry in entries]
    pushed = decode_turns([entry.messages for entry in log])
    tail = _tail(log, pushed, _with_elisions(pushed, log, stored), view, counts)
    pending = sum(turn.tokens for turn in tail if not turn.exact)
    correction = view.correction
    fits = _fitted(view, stored, tail, pending, correction)
    return Context(
        messages=fits.messages,
        session=session,
        version=stored.version,
        watermark=stored.watermark,
        last_seq=log[-1].seq if log else view.last_seq,
        tokens=correction.corrected(fits.tokens),
        exact=view.is_counted and not pending and fits.receipt is None,
        projection=fits.receipt,
        summary=stored.summary,
        events=stored.events,
        system_prompt=view.system,
        dialect=view.dialect,
        cached_head=_cached_head(view, stored, fits),
    )


def _cached_head(view: View, stored: StoredContext, fits: Projected) -> int | None:
    """Messages that stay until a commit; in a projection nothing but the system prompt does."""
    if not view.policy.cache_marks:
        return None
    return len(render_head(stored if fits.receipt is None else EMPTY, view.system))


def _fitted(
    view: View,
    stored: StoredContext,
    tail: Sequence[TailTurn],
    pending: int,
    correction: Correction,
) -> Projected:
    """All messages where they are within the hard limit, else the projection."""
    tokens = view.usage.total + pending
    limits = view.policy.limits(view.usage.system, correction.ratio)
    if tokens <= limits.hard:
        return Projected(messages=render(view.system, stored, tail), tokens=tokens, receipt=None)
    more = _RECEIPT_BYTES if file_of(view.policy.encoding) else 0
    cut = project(
        view.system,
        stored,
        tail,
        limits.model_copy(update={"hard": limits.hard - more}),
        view.bound,
        fixed_tokens=view.usage.system + view.usage.summary + view.usage.REPLY,
    )
    return replace(cut, tokens=cut.tokens + more)


def _with_elisions(
    pushed: Sequence[list[JsonMessage]], log: Sequence[LogEntry], stored: StoredContext
) -> list[list[JsonMessage]]:
    turns = list(pushed)
    if stored.elisions:
        place = {entry.seq: at for at, entry in enumerate(log)}
        for elision in stored.elisions:
            at = place[Seq(elision.seq)]
            if turns[at] is pushed[at]:
                turns[at] = list(pushed[at])
            turns[at][elision.index] = elision.message
    return turns


def _tail(
    log: Sequence[LogEntry],
    pushed: Sequence[Sequence[JsonMessage]],
    turns: Sequence[Sequence[JsonMessage]],
    view: View,
    counts: Mapping[bytes, bytes],
) -> list[TailTurn]:
    """The turns as a provider takes them, with tokens: exact where counted, else a bound."""
    tracker = CallTracker()
    thumbnail = _thumbnail(log, view)
    tail = []
    for entry, whole, turn in zip(log, pushed, turns, strict=True):
        legal = tracker.repair(turn)
        exact = entry.seq <= view.counted_seq
        tokens = int(counts.get(b"%d" % entry.seq, 0)) if exact else 0
        if not tokens:
            tokens = _bound(entry, view) if legal is turn else view.bound(legal)
        tail.append(
            TailTurn(
                seq=entry.seq,
                messages=legal,
                tokens=tokens,
                exact=exact,
                pinned=entry.pinned or entry.seq == thumbnail,
                pushed=whole,
                mark=entry.mark,
                body=entry.messages,
            )
        )
    return tail


def _thumbnail(log: Sequence[LogEntry], view: View) -> Seq | None:
    """The uncovered turn with the session's first image, if the policy keeps that image.

    A projection keeps it as a compaction does (``first_image_turn``).
    """
    is_kept = view.policy.max_history_images is not None and view.policy.keep_first_image
    if not is_kept or view.images_before:
        return None
    return next((entry.seq for entry in log if b'"type":"image_url"' in entry.messages), None)


def _bound(entry: LogEntry, view: View) -> int:
    """An upper bound of the turn as pushed: noted by the push, which did not know the policy."""
    policy = view.policy
    is_repriced = policy.image_formula != DEFAULT_FORMULA and b'"image_url"' in entry.messages
    if is_repriced or file_of(policy.encoding):
        return view.bound_body(entry.messages)
    return entry.bound
