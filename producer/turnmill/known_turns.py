"""What a read found, turns as reads show them, so that the next read only has to add to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

from turnmill.context import Context
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.encodings import file_of
from turnmill.contract.images.references import refs_of
from turnmill.contract.images.token_cost import DEFAULT_FORMULA, ImageRef
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import LogEntry, decode_turns
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.rules import Mark
from turnmill.contract.tail import TailTurn
from turnmill.session_view import META_FIELDS, View

__all__ = ["Known", "KnownTurn", "known_turns", "messages_of", "tail"]


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
        open_calls: of the newest turn.
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
    open_calls: tuple[str, ...]
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
