"""What a Strands agent's messages and a session tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strands.types.content import Message

from turnmill import Context, ContextClient, Policy, UnknownSession
from turnmill.contract.context import JsonMessage
from turnmill.integrations.beside import Beside
from turnmill.integrations.originals import key
from turnmill.integrations.strands.messages import is_made, name_all, to_chat

__all__ = ["Diverged", "Exchange", "ManagementCounts"]


@dataclass(slots=True)
class ManagementCounts:
    """What became of the agent's messages.

    Attributes:
        managed: times they were made the session's context.
        pushed: messages pushed.
        failed: times they were left as they were, because something failed.
        diverged: of these, because the newest message is not the session's newest.
        cleared: times the session was begun anew, because messages were taken away or changed.
        lowered: times the session's limit was lowered, because the model found a context too long.
    """

    managed: int = 0
    pushed: int = 0
    failed: int = 0
    diverged: int = 0
    cleared: int = 0
    lowered: int = 0


class Diverged(Exception):
    """Another agent has gone on with the session."""


class Exchange:
    """Pushes what is new, and reads; remembers what it pushed, so that this is little."""

    def __init__(
        self, client: ContextClient, policy: Policy | str | None, counts: ManagementCounts
    ) -> None:
        self.rewinds: int = 0
        self._client = client
        self._policy = policy
        self._counts = counts
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know nothing of the session: pushing again stores nothing twice."""
        self._seqs: dict[str, int] = {}
        self._keys: dict[str, list[str]] = {}
        self._beside = Beside()
        self._is_open = False

    def of(self, session: str, messages: Sequence[Message], beside: Beside) -> Context | None:
        """The session's context after these messages; None when they say nothing.

        Raises:
            Diverged: the newest message is not the session's newest.
        """
        ids = name_all(messages)
        told = dict(zip(ids, map(to_chat, messages), strict=True))
        made = {name for name, message in zip(ids, messages, strict=True) if is_made(message)}
        if not any(told.values()):
            return None
        if self._is_edited(told):
            self._client.clear(session)
            self.rewinds += 1
            self._counts.cleared += 1
            self.begin_anew()
            made = set()
        elif (self._seqs or made) and self._is_lost(session):
            self.begin_anew()
            made = set()  # they are all that is left of older turns
        self._open(session, beside)
        own = {name: said for name, said in told.items() if said and name not in made}
        context = self._step(session, own)
        if own and context.last_seq != self._seqs[[*own][-1]]:
            raise Diverged
        return context

    def _is_edited(self, told: dict[str, list[JsonMessage]]) -> bool:
        """Whether a message that was here after the last look has changed or is away."""
        return any(
            name not in told or list(map(key, told[name])) != keys
            for name, keys in self._keys.items()
        )

    def _is_lost(self, session: str) -> bool:
        """Whether the session expired, was forgotten or got lost with Redis."""
        try:
            return self._client.info(session).last_seq < max(self._seqs.values(), default=1)
        except UnknownSession:
            return True

    def _open(self, session: str, beside: Beside) -> None:
        if beside == self._beside and (self._policy is None or self._is_open):
            return
        policy = None if self._is_open else self._policy
        self._client.open(session, policy, **beside.since(self._beside))
        self._beside, self._is_open = beside, True

    def _step(self, session: str, told: dict[str, list[JsonMessage]]) -> Context:
        """Push what is new of what was told, and read."""
        new = [name for name in told if name not in self._seqs]
        turns = [
            {"turn_id": f"strands-{self.rewinds}-{name}", "messages": told[name]} for name in new
        ]
        done, context = self._client.step_many(session, turns)
        for name, pushed in zip(new, done, strict=True):
            self._seqs[name] = pushed.seq
            self._counts.pushed += not pushed.duplicate
        return context

    def showed(self, messages: Sequence[Message]) -> None:
        """Remember what the agent has now: what of it changes or goes was edited."""
        told = zip(name_all(messages), map(to_chat, messages), strict=True)
        self._keys = {name: list(map(key, said)) for name, said in told}
