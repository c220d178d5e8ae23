"""A read's reply as values: what is known of the session, and the context made of it.

Pure; both clients and the workers decode what is stored with the functions here.

A client keeps what it knows, and the next read asks for what is new: the numbers, and the turns
from the newest known one on. If that one is there as it was, all before it are, for its chain is
made of theirs; and epoch, version and commit's id say that no commit came between. Else the whole
is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self, cast

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.estimate import file_of
from turnmill.contract.formats import as_corrupt
from turnmill.contract.image_tokens import DEFAULT_FORMULA, ImageRef
from turnmill.contract.images import refs_of
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import LogEntry, TailTurn, decode_turns
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.render import render_head
from turnmill.contract.rules import Mark
from turnmill.contract.thoughts import PROJECTED, without_thoughts
from turnmill.contract.turns import may_think
from turnmill.dialects.cache_marks import with_last_marks
from turnmill.read.context import Context
from turnmill.read.projection import Projected, project
from turnmill.read.view import META_FIELDS, View

_PICTURES: Final = META_FIELDS.index(b"pictures")
_NEXT_TURNS: Final = 4
"""Turns that may be counted before a read knows of them."""

_MOST_AWAITED: Final = 64


class KnownTurn(NamedTuple):
    """A turn of the log, as JSON: what is decoded is the caller's, who may change it.

    Attributes:
        body: its messages as pushed.
        shown: as a provider takes them, elisions applied; the same object where they are the same.
        bound: tokens of ``shown`` at most.
    """

    seq: Seq
    body: bytes
    shown: bytes
    bound: int
    pinned: bool
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A session as one read found it.

    Attributes:
        meta: the values of ``META_FIELDS``.
        view: them, with bounds for what nobody counted in the policy's tokens.
        body: the stored context.
        counts: of turns up to ``counted_seq`` of the read that asked for them.
        calls: of the turns, and of the context; nobody goes on with it but a copy.
        newest: its entry in the log; None where the log is empty.
        size: bytes of what is kept, roughly.
        is_marked: whether something in it may end a provider's cached prefix.
        is_cut: the read had to project it, and so may the next.
    """

    session: SessionId
    meta: tuple[bytes | None, ...]
    view: View
    body: bytes | None
    stored: StoredContext
    counts: Mapping[bytes, bytes]
    counted_seq: int
    turns: tuple[KnownTurn, ...]
    calls: CallTracker
    newest: Any
    size: int
    is_marked: bool
    is_cut: bool = False

    @property
    def awaited(self) -> range:
        """Turns whose counts the next read asks for: a projection takes them, nothing else does."""
        first = self.counted_seq + 1
        after = self.turns[-1].seq + 1 + _NEXT_TURNS if self.is_cut and self.turns else first
        return range(first, min(after, first + _MOST_AWAITED))

    @property
    def since(self) -> str | None:
        """Where in the log the next read begins; None if it must ask for everything."""
        return str(self.turns[-1].seq) if self.newest and _has_chain(self.newest[1]) else None

    def after(self, context: Context) -> Self:
        """The same for the next read, which may have to project what this one did."""
        is_cut = context.projection is not None
        return self if is_cut == self.is_cut else replace(self, is_cut=is_cut)

    def images(self, context: Context) -> list[ImageRef]:
        """The images a context shows; does not search a session that never had one."""
        return refs_of(context.messages) if self.meta[_PICTURES] is not None else []


def _has_chain(fields: Any) -> bool:
    """Whether a client that knows chains pushed the entry; fields as redis-py has them, or raw."""
    return b"chain" in fields


def known_turns(
    log: Sequence[LogEntry], stored: StoredContext, view: View, tracker: CallTracker
) -> Iterator[KnownTurn]:
    """Turns of the log with what is elided of them; ``tracker`` knows what came before."""
    pushed = decode_turns([entry.messages for entry in log])
    for entry, whole, turn in zip(log, pushed, _with_elisions(pushed, log, stored), strict=True):
        legal = tracker.repair(turn)
        if may_think(entry.messages) and not view.keeps_thoughts(entry.under):
            legal = without_thoughts(legal)
        yield KnownTurn(
            seq=entry.seq,
            body=entry.messages,
            shown=entry.messages if legal is whole else encode_json(list(legal)),
            bound=_bound(entry, view) if legal is turn else view.bound(legal),
            pinned=entry.pinned,
            mark=entry.mark,
        )


def messages_of(turns: Sequence[KnownTurn]) -> list[JsonMessage]:
    """The messages of the turns, in order."""
    decoded = decode_turns([turn.shown for turn in turns])
    return [message for turn in decoded for message in turn]


def tail(turns: Sequence[KnownTurn], view: View, counts: Mapping[bytes, bytes]) -> list[TailTurn]:
    """The turns as a provider takes them, with tokens: exact where counted, else a bound."""
    thumbnail = _thumbnail(turns, view)
    found = []
    for turn, messages in zip(turns, decode_turns([turn.shown for turn in turns]), strict=True):
        exact = turn.seq <= view.counted_seq
        tokens = int(counts.get(b"%d" % turn.seq, 0)) if exact else 0
        found.append(
            TailTurn(
                seq=turn.seq,
                messages=messages,
                tokens=tokens or turn.bound,
                exact=exact,
                pinned=turn.pinned or turn.seq == thumbnail,
                pushed=messages if turn.shown is turn.body else decode_json(turn.body),
                mark=turn.mark,
                body=turn.body,
            )
        )
    return found


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


def _thumbnail(turns: Sequence[KnownTurn], view: View) -> Seq | None:
    """The uncovered turn with the session's first image, if the policy keeps that image.

    A projection keeps it as a compaction does (``first_image_turn``).
    """
    is_kept = view.policy.max_history_images is not None and view.policy.keep_first_image
    if not is_kept or view.images_before:
        return None
    return next((turn.seq for turn in turns if b'"type":"image_url"' in turn.body), None)


def _bound(entry: LogEntry, view: View) -> int:
    """An upper bound of the turn as pushed: noted by the push, which may not know the policy."""
    policy = view.policy
    is_repriced = policy.image_formula != DEFAULT_FORMULA and b'"image_url"' in entry.messages
    is_of_another = entry.counted_by not in ("", policy.encoding)
    if is_repriced or is_of_another or file_of(policy.encoding):
        return view.bound_body(entry.messages)
    return entry.bound


_RECEIPT_BYTES = 96
"""What a projection's receipt may have in bytes, beyond the room that is kept for its tokens."""

_TURN_BYTES: Final = 500  # of what is kept with a turn beside its text
_SETTINGS: Final = (b"policy", b"system", b"tools_bound", b"tools_bytes")
"""What changes with the session's settings alone, and may be long."""

CHANGING: Final = tuple(name for name in META_FIELDS if name not in _SETTINGS)
"""What a read asks for that knows the rest."""

_PLACES: Final = tuple(map(META_FIELDS.index, CHANGING))
_SAME: Final = tuple(
    map(
        META_FIELDS.index,
        (b"epoch", b"version", b"commit_id", b"settings", b"settings_id", b"basis"),
    )
)
"""While these are the same, context, settings and what was counted are."""


@as_corrupt()
def known_in(session: SessionId, reply: Sequence[Any]) -> Known:
    """What is in the reply to a whole read of a known session.

    Raises:
        NewerFormat, CorruptContext: this version cannot read something stored, or none could.
    """
    meta, body, counts, entries, _ = reply
    stored = StoredContext.parse(body)
    view = View.of(meta).reliable(stored)
    tracker = CallTracker.after(stored)
    log = [LogEntry.of(entry) for entry in entries]
    turns = tuple(known_turns(log, stored, view, tracker))
    return Known(
        session=session,
        meta=tuple(meta),
        view=view,
        body=body,
        stored=stored,
        counts=counts,
        counted_seq=view.counted_seq,
        turns=turns,
        calls=tracker,
        newest=entries[-1] if entries else None,
        size=2 * len(body or b"") + _size(turns),
        is_marked=any(map(_has_mark, (body or b"", *(turn.shown for turn in turns)))),
    )


@as_corrupt()
def known_since(before: Known, reply: Sequence[Any]) -> Known | None:
    """What was known with what is new in a reply; None if the whole must be read.

    Raises:
        NewerFormat, CorruptContext: as ``known_in``.
    """
    found, entries, *asked, _ = reply
    meta = list(before.meta)
    for place, value in zip(_PLACES, found, strict=True):
        meta[place] = value
    if any(meta[at] != before.meta[at] for at in _SAME) or not entries:
        return None
    # A turn of the same chain could have been erased, had there been no commit.
    if tuple(entries[0]) != tuple(before.newest):
        return None
    view = View.of(meta).reliable(before.stored)
    new: dict[str, Any] = {"meta": tuple(meta), "view": view}
    if asked:
        fresh = zip(before.awaited, asked[0], strict=True)
        found = {b"%d" % seq: count for seq, count in fresh if count is not None}
        new["counts"] = {**before.counts, **found}
        new["counted_seq"] = max(before.counted_seq, min(view.counted_seq, before.awaited[-1]))
    if len(entries) == 1:
        return replace(before, **new)
    tracker = before.calls.copy()
    log = [LogEntry.of(entry) for entry in entries[1:]]
    turns = tuple(known_turns(log, EMPTY, view, tracker))
    return replace(
        before,
        **new,
        turns=before.turns + turns,
        calls=tracker,
        newest=entries[-1],
        size=before.size + _size(turns),
        is_marked=before.is_marked or any(_has_mark(turn.shown) for turn in turns),
    )


@as_corrupt()
def read_context(known: Known, beside: int = 0) -> Context | None:
    """The context, projected when it is too large; None if counts that it takes are not known.

    Raises:
        NewerFormat, CorruptContext: this version cannot read something stored, or none could.
    """
    # What is kept for the next read must not be in the caller's hands.
    stored = StoredContext.parse(known.body) if known.stored.pins else known.stored
    view = known.view.with_beside(beside) if beside else known.view
    pending = sum(turn.bound for turn in known.turns if turn.seq > view.counted_seq)
    fits = _fitted(view, known, stored, pending)
    if fits is None:
        return None
    return Context(
        messages=fits.messages,
        session=known.session,
        version=stored.version,
        watermark=stored.watermark,
        last_seq=known.turns[-1].seq if known.turns else view.last_seq,
        tokens=view.correction.corrected(fits.tokens),
        exact=view.is_counted and not pending and fits.receipt is None,
        projection=fits.receipt,
        summary=stored.summary,
        events=stored.events,
        system_prompt=view.system,
        dialect=view.dialect,
        cached_head=_cached_head(view, stored, fits),
        prefix=PROJECTED if fits.receipt else view.prefix,
    )


def whole_context(known: Known, beside: int = 0) -> Context:
    """The context of a session that was just read whole; raises as ``read_context``."""
    return cast("Context", read_context(known, beside))  # no count that it takes was left out


def _cached_head(view: View, stored: StoredContext, fits: Projected) -> int | None:
    """Messages that stay until a commit; in a projection nothing but the system prompt does."""
    if not view.policy.cache_marks:
        return None
    return len(render_head(stored if fits.receipt is None else EMPTY, view.system))


def _fitted(view: View, known: Known, stored: StoredContext, pending: int) -> Projected | None:
    """All messages where they are within the hard limit, else the projection."""
    tokens = view.usage.total + pending
    limits = view.policy.limits(view.usage.system, view.correction.ratio)
    if tokens <= limits.hard:
        messages = [*render_head(stored, view.system), *messages_of(known.turns)]
        return Projected(messages=_marked(messages, view, known), tokens=tokens, receipt=None)
    if view.counted_seq > known.counted_seq:
        return None
    more = _RECEIPT_BYTES if file_of(view.policy.encoding) else 0
    cut = project(
        view.system,
        stored,
        tail(known.turns, view, known.counts),
        limits.model_copy(update={"hard": limits.hard - more}) if more else limits,
        view.bound,
        fixed_tokens=view.usage.system + view.usage.summary + view.usage.REPLY,
        head_tokens=view.usage.summary,
    )
    messages = _marked(cut.messages, view, known)
    return replace(cut, messages=messages, tokens=cut.tokens + more)


def _marked(messages: list[JsonMessage], view: View, known: Known) -> list[JsonMessage]:
    """The messages with as many cache marks as a provider takes; few sessions have any."""
    return with_last_marks(messages) if known.is_marked and view.dialect == "chat" else messages


def _size(turns: Sequence[KnownTurn]) -> int:
    return sum(_TURN_BYTES + len(turn.shown) for turn in turns)


def _has_mark(body: bytes) -> bool:
    return b'"cache_control"' in body
