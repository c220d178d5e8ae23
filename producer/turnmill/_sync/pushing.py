# Generated from _async/pushing.py: change that, then run `make sync`.
"""Pushing turns, and reading the context with them: this part of a client."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from turnmill._sync.opening import Opening
from turnmill._sync.reading import Reading
from turnmill.commands import Command, PushCall
from turnmill.context import Context
from turnmill.contract.context import Pushed
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import REGISTER_EVERY_S
from turnmill.contract.names import SessionId
from turnmill.contract.token_counters import Exact
from turnmill.contract.turns import TurnLike
from turnmill.given_seqs import GivenSeqs
from turnmill.transport import new_id

__all__ = ["Pushing"]


class _Replies(NamedTuple):
    """To pushes, and to what was read behind them; errors among them."""

    pushes: list[Any]
    read: list[Any]


class _Settled(NamedTuple):
    """Where turns went, the sessions that want a hint, and what came of the first that failed."""

    pushed: list[Pushed]
    hints: list[SessionId]
    failed: TurnmillError | None


class Pushing(Reading, Opening):
    """How a client appends turns."""

    _given: GivenSeqs
    _exact: Exact | None

    def push(
        self, session: str, turn: TurnLike, *, turn_id: str | None = None, usage: object = None
    ) -> Pushed:
        """Append a turn: a ``Turn``, one message, or a list of messages. One round trip.

        Pushing the same ``turn_id`` again stores nothing and returns the same seq.

        ``usage`` is what the provider reported for the request that this client's last ``read``
        of the session made: its object, its JSON, or the number of its input tokens. From that is
        learned what the provider's tokens are; push it with the answer.

        Raises:
            InvalidTurn, TurnTooLarge, InvalidName, InvalidInput, QuotaExceeded: nothing was stored.
        """
        push = self._admitted(session, turn, turn_id, usage)
        [done] = self._push([push])
        if done.seq == 1:
            self._welcome(done.session)
        return done

    def step(
        self,
        session: str,
        turn: TurnLike,
        *,
        turn_id: str | None = None,
        usage: object = None,
        beside: int = 0,
    ) -> Context:
        """Append a turn, as ``push``, and return the context with it, as ``read``.

        One round trip for both; two for new images of others, and for a session's first turn.

        Raises:
            InvalidTurn, TurnTooLarge, InvalidName, InvalidInput, QuotaExceeded: nothing was stored.
            CorruptContext, NewerFormat, CannotDecrypt: the turn is stored, but cannot be read.
        """
        push = self._admitted(session, turn, turn_id, usage)
        _, context = self._step([push], beside)
        return context

    def step_many(
        self, session: str, turns: Iterable[TurnLike], *, beside: int = 0
    ) -> tuple[list[Pushed], Context]:
        """Append turns, as ``push_many``, and return where they went and the context with them.

        One round trip for 500 turns. With no turns at all it only reads, and raises what that
        does.
        """
        calls = self._many_admitted((session, turn) for turn in turns)
        done: list[Pushed] = []
        *chunks, last = list(self._commands.chunks(calls)) or [[]]
        for chunk in chunks:
            done += self._push(chunk)
        if done and done[0].seq == 1 and not done[0].duplicate:
            self._welcome(done[0].session)
        if not last:
            return done, self.read(session, beside=beside)
        pushed, context = self._step(last, beside)
        return [*done, *pushed], context

    def push_many(self, turns: Iterable[tuple[str, TurnLike]]) -> list[Pushed]:
        """Append many (session, turn) pairs, pipelined, in the order given.

        All are checked before any is sent. When Redis fails midway some may be stored; give the
        turns ids and push again.
        """
        calls = self._many_admitted(turns)
        done: list[Pushed] = []
        for chunk in self._commands.chunks(calls):
            done += self._push(chunk)
        for pushed in done:
            if pushed.seq == 1 and not pushed.duplicate:
                self._welcome(pushed.session)
        return done

    def _admitted(
        self, session: str, turn: TurnLike, turn_id: str | None, usage: object
    ) -> PushCall:
        """The push of a turn that was checked and that quotas have room for."""
        told = self._reads.told(session, usage)
        exact = self._exact and self._exact.under(self._lately.encoding(session))
        push = self._commands.push(session, turn, turn_id, told=told, exact=exact, new_id=new_id)
        push = self._given.dated(push)
        self._redis.register(REGISTER_EVERY_S)
        self._redis.admit(map(self._commands.exists, [session]), pushes=1)
        return push

    def _many_admitted(self, turns: Iterable[tuple[str, TurnLike]]) -> list[PushCall]:
        exact, encoding = self._exact, self._lately.encoding
        counted = ((s, turn, exact and exact.under(encoding(s))) for s, turn in turns)
        calls = list(map(self._given.dated, self._commands.push_many(counted, new_id=new_id)))
        self._redis.register(REGISTER_EVERY_S)
        sessions = {call.session for call in calls}
        self._redis.admit(map(self._commands.exists, sessions), pushes=len(calls))
        return calls

    def _push(self, pushes: Sequence[PushCall]) -> list[Pushed]:
        settled = self._settle(pushes, self._send(pushes, ()))
        self._hint(settled)
        if settled.failed:
            raise settled.failed
        return settled.pushed

    def _step(self, pushes: Sequence[PushCall], beside: int) -> tuple[list[Pushed], Context]:
        """Send pushes of one session with a read behind them."""
        session = pushes[0].session
        before = self._known(session)
        replies = self._send(pushes, self._asked(session, before))
        settled = self._settle(pushes, replies)
        try:
            if settled.failed:
                self._know_again(before)
                raise settled.failed
            # One that is there already may be this client's own, sent twice.
            first = settled.pushed[0]
            if first.seq == 1 and not (first.duplicate and len(pushes) > 1):
                # The policy it has may be settled only now.
                self._welcome(session)
                return settled.pushed, self.read(session, beside=beside)
            found = self._heard(session, beside, before, replies.read)
            return settled.pushed, self._shown(session, beside, found)
        finally:
            # Last: the thread that sends a hint takes its time from what is done beside it.
            self._hint(settled)

    def _send(self, pushes: Sequence[PushCall], reads: Sequence[Command]) -> _Replies:
        """The replies to pushes and reads sent together, images of the pushes before them.

        A single push takes along what Redis is not known to have, and all if that was not enough.
        Of many all images go: one sent again would come after those that followed it.
        """
        every = {image.key for push in pushes for image in push.images}
        if len(pushes) > 1:
            return self._sent(pushes, every, reads)
        replies = self._sent(pushes, self._images.unsent(pushes[0].images), reads)
        [reply] = replies.pushes
        if not isinstance(reply, TurnmillError) and self._commands.lacks_images(reply):
            return self._sent(pushes, every, reads)
        return replies

    def _sent(
        self, pushes: Sequence[PushCall], keys: Collection[str], reads: Sequence[Command]
    ) -> _Replies:
        puts = self._commands.puts(pushes, keys)
        calls = [push.call for push in pushes]
        replies = self._redis.scripts(calls, before=puts, after=reads)
        after = len(puts) + len(pushes)
        return _Replies(
            self._commands.settled(replies[:after], puts=len(puts)), list(replies[after:])
        )

    def _settle(self, pushes: Sequence[PushCall], replies: _Replies) -> _Settled:
        done: list[Pushed] = []
        hints: list[SessionId] = []
        failed: list[TurnmillError] = []
        for push, reply in zip(pushes, replies.pushes, strict=True):
            try:
                pushed, hint = self._commands.pushed(push, reply)
            except TurnmillError as error:
                failed.append(error)
                continue
            self._images.sent(push.images)
            self._given.note(push, reply)
            done.append(pushed)
            hints += [pushed.session] if hint else []
        return _Settled(done, hints, failed[0] if failed else None)

    def _hint(self, settled: _Settled) -> None:
        """Hint what the workers want to know of."""
        for session in settled.hints:
            self._waker.wake(self._commands.namespace, session)

    def _welcome(self, session: SessionId) -> None:
        """A new session: perhaps on a server that lost everything. The turn is stored already."""
        with suppress(TurnmillError):
            self._redis.register()
            self._follow_default(session)
