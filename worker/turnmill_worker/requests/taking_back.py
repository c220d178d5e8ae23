"""Taking back the newest item of a session, as frameworks do that undo what they added last."""

from __future__ import annotations

from dataclasses import replace

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import InvalidInput, NoCheckpoint, SessionBusy, UnknownSession
from turnmill.contract.estimate import Counters
from turnmill.contract.names import Version
from turnmill.contract.results import RollbackResult
from turnmill.dialects.convert import from_chat, in_chat
from turnmill_worker.pipeline.agreement import past_agreed
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.ports.sessions import Sessions, States
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.earlier_turns import EarlierTurns

__all__ = ["TakingBack"]

ATTEMPTS = 5
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
            past = past_agreed(self._states, self._archive, ref)
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
    rest = from_chat(decode_json(turn.messages), dialect).messages[:-1]
    _, messages = in_chat(rest)
    return replace(turn, messages=encode_json(list(messages)), tokens=None) if rest else None
