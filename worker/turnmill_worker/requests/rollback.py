"""Going back: to a checkpoint or version, or before the newest item of a session."""

from __future__ import annotations

from dataclasses import replace

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import StoredContext
from turnmill.contract.errors import InvalidInput, NoCheckpoint, SessionBusy, UnknownSession
from turnmill.contract.estimate import Counters
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Version
from turnmill.contract.results import RollbackResult
from turnmill.dialects.convert import from_chat, in_chat
from turnmill_worker.failover.noticing import session_agreed
from turnmill_worker.ports.protocols import Archive, Sessions, States
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    EarlierState,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.requests.earlier_turns import EarlierTurns
from turnmill_worker.requests.erasure import ERASED

ATTEMPTS = 5
"""An attempt fails only when another commit came between reading and writing."""


class Rollback:
    """Restores checkpoints and versions of sessions."""

    def __init__(self, states: States, archive: Archive | None, counters: Counters) -> None:
        self._states = states
        self._archive = archive
        self._turns = EarlierTurns(states, archive, counters)

    def rollback(self, ref: SessionRef, to: str | int | None) -> RollbackResult:
        """Restore the newest checkpoint, one by its id, or a version's context.

        Raises:
            UnknownSession: there is no such session.
            NoCheckpoint: there is none to restore.
            SessionBusy: compactions came between at every attempt.
        """
        for _ in range(ATTEMPTS):
            past = session_agreed(self._states, self._archive, ref)
            if past is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            chosen = self.choose(ref, past, to)
            state = self._turns.restored(
                ref,
                past,
                chosen.stored,
                through=chosen.seq,
                strategy="rollback",
                used=chosen.entry if to is None else "",
            )
            self._turns.bring_images_back(ref, past, state)
            gone = self._turns.kept(ref, past, after=chosen.seq, through=past.watermark)
            version, lost = self._states.restore(ref, past, state)
            if version:
                return RollbackResult(
                    restored=chosen.id,
                    seq=chosen.seq,
                    version=Version(version),
                    turns_lost=lost + len(gone),
                )
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def choose(self, ref: SessionRef, past: SessionInRedis, to: str | int | None) -> EarlierState:
        """The checkpoint or version; raises as ``rollback``."""
        if isinstance(to, int):
            found = [self._of_version(commit) for commit in self._commits(ref, past, to)]
            if found and self._was_left(ref, past, to, found[-1].seq):
                raise NoCheckpoint(
                    f"version {to} of {ref.session!r} cannot be restored: turns it stands for were "
                    "rolled back or cleared since"
                )
            if found and found[-1].stored.strategy == ERASED:
                raise NoCheckpoint(
                    f"version {to} of {ref.session!r} cannot be restored: turns that it was made "
                    "of were erased since"
                )
        else:
            found = [state for state in past.checkpoints if to in (None, state.id)]
        if found:
            return found[-1]
        known = ", ".join(repr(state.id) for state in past.checkpoints) or "none"
        what = "no checkpoint" if to is None else f"no checkpoint or version {to!r}"
        raise NoCheckpoint(f"{what} of {ref.session!r} to roll back to; checkpoints are: {known}")

    def _commits(
        self, ref: SessionRef, past: SessionInRedis, version: int
    ) -> list[ArchivedCompaction]:
        """The commit of this version, from Redis or the archive."""
        found = [commit for commit in past.commits if commit.version == version]
        if not found and self._archive is not None:
            archived = self._archive.context(ref, version=version, epoch=past.epoch)
            found += [archived] if archived else []
        return found

    def _was_left(self, ref: SessionRef, past: SessionInRedis, version: int, seq: int) -> bool:
        """Whether turns of this version, up to ``seq``, were set aside by a later commit."""
        commits = list(past.commits)
        if self._archive is not None:
            commits += self._archive.compactions(ref, epoch=past.epoch)
        for commit in commits:
            if commit.version > version:
                record = Compaction.parse(commit.record)
                before = record.strategy == "rollback" and record.last_seq < seq
                if before or record.strategy == "clear":
                    return True
        return False

    @staticmethod
    def _of_version(commit: ArchivedCompaction) -> EarlierState:
        record = Compaction.parse(commit.record)
        return EarlierState(
            id=f"version {commit.version}",
            entry="",
            seq=record.last_seq or record.watermark,
            stored=StoredContext.parse(commit.context),
        )


"""An attempt fails only when another commit came between reading and writing."""


class TakingBack:
    """Takes items back from sessions; the context stays as it is."""

    def __init__(
        self, sessions: Sessions, states: States, archive: Archive | None, counters: Counters
    ) -> None:
        self._sessions = sessions
        self._states = states
        self._archive = archive
        self._turns = EarlierTurns(states, archive, counters)

    def take_back(self, ref: SessionRef, seq: int, dialect: str) -> RollbackResult:
        """Take the last message, or item, of turn ``seq`` from it; the turn, if that was all of it.

        A whole turn goes to the archive, marked. One that lost a part keeps its place.

        Raises:
            UnknownSession: there is no such session.
            NoCheckpoint: a summary covers all turns, or there are none.
            InvalidInput: ``seq`` is not the newest turn.
            SessionBusy: compactions came between at every attempt.
        """
        for _ in range(ATTEMPTS):
            past = session_agreed(self._states, self._archive, ref)
            seen = self._sessions.snapshot(ref)
            if past is None or seen is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            if not past.log:
                raise NoCheckpoint(f"{ref.session!r} has no turn that no summary covers")
            if past.log[-1].seq != seq:
                raise InvalidInput(f"turn {seq} is not the newest of {ref.session!r}")
            rest = _without_last(past.log[-1], dialect)
            state = self._turns.restored(
                ref,
                past,
                seen.stored,
                through=seq if rest else seq - 1,
                strategy="rollback",
                instead={seq: rest} if rest else {},
            )
            self._turns.bring_images_back(ref, past, state)
            is_same = seen.version == past.version
            version, lost = self._states.restore(ref, past, state) if is_same else (0, 0)
            if version:
                return RollbackResult(
                    restored=f"turn {state.seq}",
                    seq=state.seq,
                    version=Version(version),
                    turns_lost=lost,
                )
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")


def _without_last(turn: ArchivedTurn, dialect: str) -> ArchivedTurn | None:
    """The turn without its last message or item; None when it had no other."""
    found = from_chat(decode_json(turn.messages), dialect)
    rest = [*found.messages, *found.begun][:-1]
    _, messages = in_chat(rest)
    return replace(turn, messages=encode_json(list(messages)), tokens=None) if rest else None
