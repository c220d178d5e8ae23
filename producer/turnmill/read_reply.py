"""A read's reply as values: the session's numbers, its turns, and the context made of them.

Pure; both clients and the workers decode what is stored with the functions here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from turnmill.context import Context
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.correction import Correction
from turnmill.contract.formats import as_corrupt
from turnmill.contract.images.token_cost import DEFAULT_FORMULA, FORMULAS, ImageFormula
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.render import render, render_head
from turnmill.contract.tail import TailTurn
from turnmill.contract.token_counters import CountMessages
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


@as_corrupt()
def read_context(session: SessionId, reply: Sequence[Any]) -> Context:
    """The context in the reply to a read of a known session, projected when it is too large.

    Raises:
        NewerFormat, CorruptContext: this version cannot read something stored, or none could.
    """
    meta, body, counts, entries, _ = reply
    view = View.of(meta)
    stored = StoredContext.parse(body)
    formula = FORMULAS[view.policy.image_formula]
    if view.is_of_another_basis:
        view, counts = view.by_bounds(stored), {}
    log = [LogEntry.of(entry) for entry in entries]
    pushed = decode_turns([entry.messages for entry in log])
    tail = _tail(log, pushed, _with_elisions(pushed, log, stored), view, counts, formula)
    pending = sum(turn.tokens for turn in tail if not turn.exact)
    correction = view.correction
    fits = _fitted(view, stored, tail, pending, formula, correction)
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
    formula: ImageFormula,
    correction: Correction,
) -> Projected:
    """All messages where they are within the hard limit, else the projection."""
    tokens = view.usage.total + pending
    limits = view.policy.limits(view.usage.system, correction.ratio)
    if tokens <= limits.hard:
        return Projected(messages=render(view.system, stored, tail), tokens=tokens, receipt=None)
    return project(
        view.system,
        stored,
        tail,
        limits,
        _bound_by(formula),
        fixed_tokens=view.usage.system + view.usage.summary + view.usage.REPLY,
    )


@cache
def _bound_by(formula: ImageFormula) -> CountMessages:
    """The same function for every read: what a projection found is remembered by it."""
    return partial(bound, formula=formula)


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
    formula: ImageFormula,
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
            weighed = legal is turn and not _is_repriced(entry, formula)
            tokens = entry.bound if weighed else bound(legal, formula)
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


def _is_repriced(entry: LogEntry, formula: ImageFormula) -> bool:
    """Whether the turn has images and the formula is not the default, by which a push counts."""
    return formula is not FORMULAS[DEFAULT_FORMULA] and b'"image_url"' in entry.messages
