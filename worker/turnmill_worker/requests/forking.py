"""Forks, and going back before a turn: a session begins, or goes on, as one was at a turn.

What is read at that turn is made of the newest context that was committed when no later turn was
known, and of the turns after it. A fork has its own copy of all rows of its past, so that neither
side depends on the other; images are stored once, and counted. Who erases turns of a session finds
its forks by ``Fork``, which is noted before the past is read: a fork that is not there yet when
its parent is erased begins until ``until_ms`` or never.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from turnmill.contract.codec import decode_json
from turnmill.contract.context import StoredContext
from turnmill.contract.errors import (
    InvalidInput,
    NoCheckpoint,
    SessionBusy,
    TurnmillError,
    UnknownSession,
)
from turnmill.contract.estimate import Counters
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import MAX_SEQ, Seq, Version
from turnmill.contract.results import Forked, RollbackResult
from turnmill_worker.compaction.snapshot import blobs_shown
from turnmill_worker.ports.protocols import Archive, States
from turnmill_worker.ports.values import (
    ArchivedTurn,
    Batch,
    Begun,
    Blob,
    Fork,
    Restored,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.requests.earlier_turns import EarlierTurns
from turnmill_worker.requests.erasure import Incarnation, Incarnations
from turnmill_worker.requests.rollback import ATTEMPTS, Rollback

WITHIN_MS = 30_000
"""A fork begins this long after it was noted, or never."""

IDS = 10_000
"""Ids of so many turns are remembered, as a push does."""

AT_ONCE = 800
"""Turns stored in one transaction."""


class Point(NamedTuple):
    """A place in a conversation: its turns up to there, and the context that was made of some."""

    seq: Seq
    kept: Sequence[ArchivedTurn]
    stored: StoredContext


class Life(NamedTuple):
    """A session as it is now: what Redis has, and everything there is of it, by seq."""

    ref: SessionRef
    past: SessionInRedis
    life: Incarnation

    @property
    def turns(self) -> list[ArchivedTurn]:
        """All turns, also those set aside."""
        return self.past.with_archived(self.life.archived)


class Make(Protocol):
    """Says how a session begins."""

    def __call__(self, now: Life, *, fork: Fork) -> Begun:
        """Of what another one is now."""


class Forking:
    """Begins sessions as forks of others, and takes sessions back to before a turn."""

    def __init__(self, states: States, archive: Archive | None, counters: Counters) -> None:
        self._states = states
        self._archive = archive
        self._lives = Incarnations(states, archive)
        self._turns = EarlierTurns(states, archive, counters)
        self._checkpoints = Rollback(states, archive, counters)

    def fork(self, ref: SessionRef, new: SessionRef, at: str | int | None) -> Forked:
        """Begin ``new`` as the session was at a turn, by seq or id; a checkpoint, a version; now.

        A checkpoint, a version and now may be amid a batch of calls: then it is before the batch.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: ``new`` is there; no such turn is in the conversation, or calls are open.
            NoCheckpoint: what was known then is nowhere any more.
            SessionBusy: the session changed at every attempt.
        """
        return self.begin(ref, new, partial(self._begun, new=new, at=at))

    def begin(self, ref: SessionRef, new: SessionRef, make: Make) -> Forked:
        """Begin ``new`` as ``make`` says, which is asked again when the session changed meanwhile.

        Raises:
            UnknownSession, InvalidInput, SessionBusy: as ``fork``, and what ``make`` raises.
        """
        for _ in range(ATTEMPTS):
            if self._states.past(new) is not None:
                raise InvalidInput(f"there is a session {new.session!r}: a fork begins a new one")
            until_ms = self._states.now_ms() + WITHIN_MS
            fork = Fork(
                new.session, f"{until_ms - WITHIN_MS}{secrets.randbelow(1000):03}", until_ms
            )
            self._note(ref, fork)
            try:
                now = self._life(ref)
                begun = make(now, fork=fork)
                is_begun = self._states.fork(now.past, begun)
            except TurnmillError:
                self._withdraw(ref, new, fork)
                raise
            if is_begun:
                version, seq = begun.state.stored.version, begun.state.seq
                return Forked(session=new.session, of=ref.session, seq=seq, version=version)
            self._withdraw(ref, new, fork)
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def rewind(self, ref: SessionRef, at: str | int) -> RollbackResult:
        """Take the session back to before a turn; that and later ones are set aside, marked.

        Raises:
            As ``fork``.
        """
        for _ in range(ATTEMPTS):
            now = self._life(ref)
            kept = _kept(now)
            place = _place(now, kept, at)
            _refuse_amid(now, kept, place)
            point = self._at(now, kept, place)
            state = self._turns.restored(
                ref, now.past, point.stored, through=point.seq, strategy="rollback"
            )
            self._turns.bring_images_back(ref, now.past, state)
            version, _ = self._states.restore(ref, now.past, state)
            if version:
                return RollbackResult(
                    restored=f"turn {point.seq}",
                    seq=point.seq,
                    version=Version(version),
                    turns_lost=len(kept) - place,
                )
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def _life(self, ref: SessionRef) -> Life:
        lives = self._lives.of(ref, newest_only=True)
        past = lives[-1].past if lives else None
        if past is None:
            raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
        return Life(ref, past, lives[-1])

    def _point(self, now: Life, at: str | int | None) -> Point:
        kept = _kept(now)
        if at is None:
            return self._at(now, kept, _before_calls(kept, len(kept)))
        if isinstance(at, int) or any(turn.turn_id == at for turn in kept):
            place = _place(now, kept, at) + 1 if at else 0
            _refuse_amid(now, kept, place)
            return self._at(now, kept, place)
        chosen = self._checkpoints.choose(now.ref, now.past, _version(at) or at)
        place = _before_calls(kept, sum(turn.seq <= chosen.seq for turn in kept))
        return self._at(now, kept, place, chosen.stored)

    def _at(
        self,
        now: Life,
        kept: Sequence[ArchivedTurn],
        place: int,
        stored: StoredContext | None = None,
    ) -> Point:
        """After so many turns, with the newest context made when no later one was known."""
        before = kept[0].seq - 1 if kept else now.past.last_seq
        seq = kept[place - 1].seq if place else Seq(before)
        found = stored or now.life.newest_before(seq + 1)
        missing = now.life.missing(after=found.watermark, through=seq)
        if missing or found.watermark > seq:
            raise NoCheckpoint(
                f"what {now.ref.session!r} was at turn {seq} is nowhere any more: its turns were "
                "covered by later compactions, and the workers have no archive that kept them"
            )
        elisions = tuple(each for each in found.elisions if each.seq <= seq)
        return Point(seq, kept[:place], found.model_copy(update={"elisions": elisions}))

    def _begun(self, now: Life, *, new: SessionRef, at: str | int | None, fork: Fork) -> Begun:
        """What the fork begins with."""
        point = self._point(now, at)
        state = self._state(now, new, point)
        turns = [turn for turn in now.turns if turn.seq <= point.seq]
        shown = {turn.seq for turn, _ in state.turns}
        past = tuple(turn for turn in turns if turn.seq not in shown)
        # One that found nothing to state may have known later turns: none that this session has.
        made = [
            commit
            for commit in now.life.commits_before(point.seq + 1)
            if Compaction.parse(commit.record).last_seq <= point.seq
        ]
        tokens = {turn.seq: turn.tokens or 0 for turn in turns}
        tokens |= {numbers.seq: numbers.tokens for _, numbers in state.turns}
        begun = Begun(
            ref=new,
            epoch=fork.epoch,
            parent=now.ref,
            state=state,
            turns=past,
            commits=tuple(reversed(made)),
            images=(),
            ids=tuple((turn.turn_id, turn.seq) for turn in point.kept[-IDS:]),
            chain=turns[-1].chain if turns else fork.epoch,
            history_tokens=sum(tokens.values()),
            until_ms=fork.until_ms,
        )
        return self.stored(begun)

    def stored(self, begun: Begun) -> Begun:
        """The same with its images; what the archive keeps of it is there by now."""
        parent, state, past = begun.parent, begun.state, begun.turns
        if self._archive is not None:
            for some in (past[at : at + AT_ONCE] for at in range(0, len(past), AT_ONCE)):
                wanted = {sha for turn in some for sha in turn.blobs}
                images = tuple(self._images(parent, wanted).values())
                self._archive.store(begun.ref, begun.epoch, Batch(turns=some, blobs=images))
            self._archive.store(begun.ref, begun.epoch, Batch(compactions=begun.commits))
            begun = replace(begun, turns=(), commits=())
        held = {sha for turn, _ in state.turns for sha in turn.blobs}
        held |= set(blobs_shown(state.stored))
        return replace(begun, images=tuple(self._images(parent, held).values()))

    def _state(self, now: Life, new: SessionRef, point: Point) -> Restored:
        state = self._turns.restored(
            now.ref, now.past, point.stored, through=point.seq, strategy="fork"
        )
        return replace(state, record=state.record.model_copy(update={"session": new.session}))

    def _images(self, ref: SessionRef, wanted: set[str]) -> dict[str, Blob]:
        """The images, wherever they are."""
        found = dict(self._archive.blobs(ref.namespace, sorted(wanted))) if self._archive else {}
        missing = sorted(wanted - found.keys())
        return found | {each.sha256: each for each in self._states.images(ref, missing)}

    def _note(self, ref: SessionRef, fork: Fork) -> None:
        """Have erasures find the fork; so before anything is read."""
        past = self._states.past(ref)
        if past is None:
            raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
        if self._archive is not None:
            self._archive.note_fork(ref, past.epoch, fork)
        else:
            self._states.note_fork(ref, fork)

    def _withdraw(self, ref: SessionRef, new: SessionRef, fork: Fork) -> None:
        """It will never begin."""
        if self._archive is not None:
            self._archive.drop(new, fork.epoch)
        else:
            self._states.drop_fork(ref, fork)


def _kept(now: Life) -> list[ArchivedTurn]:
    """The turns of the conversation."""
    return [turn for turn in now.turns if turn.state == "kept"]


def _place(now: Life, kept: Sequence[ArchivedTurn], at: str | int) -> int:
    """Where the turn is among them.

    Raises:
        InvalidInput: nowhere.
    """
    found = [place for place, turn in enumerate(kept) if at in (turn.seq, turn.turn_id)]
    if found:
        return found[-1]
    if any(at in (turn.seq, turn.turn_id) for turn in now.turns):
        why = "was set aside"
    elif isinstance(at, int) and 0 < at <= now.past.last_seq:
        why = "was covered, and the workers have no archive that kept it"
    else:
        why = f"is none of the {now.past.last_seq} there are"
    told = at if isinstance(at, int) else "of this id"
    raise InvalidInput(f"at: turn {told} of {now.ref.session!r} {why}")


def _is_amid(kept: Sequence[ArchivedTurn], place: int) -> bool:
    """Whether calls before this place have results behind it, or still wait for them."""
    if place < len(kept) and decode_json(kept[place].messages)[0].get("role") != "tool":
        return False
    tracker, first = CallTracker(), place
    # Back to where nothing can be open: no result, and no call before.
    while first and (first == place or _role(kept[first]) == "tool"):
        first -= 1
    for turn in kept[first:place]:
        tracker.follow(decode_json(turn.messages))
    return bool(tracker.open)


def _role(turn: ArchivedTurn) -> str:
    return str(decode_json(turn.messages)[0].get("role"))


def _before_calls(kept: Sequence[ArchivedTurn], place: int) -> int:
    """The place, or the newest before it that is amid no calls."""
    while place and _is_amid(kept, place):
        place -= 1
    return place


def _refuse_amid(now: Life, kept: Sequence[ArchivedTurn], place: int) -> None:
    if not _is_amid(kept, place):
        return
    before = _before_calls(kept, place)
    after = (n for n in range(place, len(kept) + 1) if not _is_amid(kept, n))
    ends = [kept[n - 1].seq if n else 0 for n in (before, next(after, before))]
    raise InvalidInput(
        f"at: {now.ref.session!r} has calls after turn {kept[place - 1].seq} whose results come "
        f"later; amid them it can neither end nor begin. It can after turn "
        f"{' or '.join(map(str, dict.fromkeys(ends)))}"
    )


_DIGITS = len(str(MAX_SEQ))


def _version(at: str) -> int | None:
    """``version 3`` or ``v3`` as a number."""
    number = at.removeprefix("version ").removeprefix("v")
    is_one = number != at and number.isascii() and number.isdecimal() and len(number) < _DIGITS
    return int(number) if is_one else None
