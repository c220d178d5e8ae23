"""Sessions that follow the histories which a framework keeps.

What is new in a history is pushed, and the session's context comes back. A history that went back,
or was edited, goes on in a session of its own, a branch; so every context is that of its history.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from turnmill import Context, Policy, UnknownSession
from turnmill.contract.context import JsonMessage, Pushed
from turnmill.contract.turns import TurnLike
from turnmill.integrations.beside import Beside
from turnmill.integrations.calling import Client, answer
from turnmill.integrations.originals import key

__all__ = ["Follower", "FollowerCounts"]

SESSIONS = 256
"""Sessions whose histories are remembered here; a forgotten one only costs a longer push."""

BRANCHES = 8
"""How often a history may turn out to be another one before its session is found."""


@dataclass(slots=True)
class FollowerCounts:
    """What became of the model requests.

    Attributes:
        curated: sent with the session's context.
        pushed: messages pushed.
        branched: branches begun, because a history had gone back or was edited.
        failed: sent with the history as it was, because something failed.
    """

    curated: int = 0
    pushed: int = 0
    branched: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What this process knows of a session: the words of its messages, and the newest seq."""

    words: tuple[str, ...] = ()
    seq: int = 0
    beside: Beside = Beside()  # noqa: RUF009 - it cannot change
    is_open: bool = False


class Scattered(Exception):
    """None of the sessions looked at follows this history alone."""


class Follower:
    """Follows the histories of many sessions.

    Args:
        client: synchronous or asynchronous; the module ``calling`` runs the methods.
        policy: given to a session when it is first seen here; None leaves what it has.
        prefix: what the ids of its turns begin with.
    """

    def __init__(self, client: Client, policy: Policy | str | None, prefix: str) -> None:
        self.counts: FollowerCounts = FollowerCounts()
        self._client = client
        self._policy = policy
        self._prefix = prefix
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._branches: OrderedDict[str, str] = OrderedDict()

    async def follow(
        self, session: str, messages: Sequence[JsonMessage], beside: Beside
    ) -> Context:
        """Push what is new in the history, and read.

        Raises:
            Scattered: others push to the session, too; and what the client's methods raise.
        """
        words = chain(messages)
        name, policy = self._line(session, words), self._policy
        for _ in range(BRANCHES):
            found = await self._advance(name, messages, words, beside, policy)
            if not isinstance(found, int):
                _keep(self._branches, session, name)
                self.counts.curated += 1
                return found
            if policy is None:
                with suppress(UnknownSession):
                    policy = (await answer(self._client.info(session))).policy
            # Every process finds the branch by the message that begins it; where there is none yet,
            # the next message will tell.
            begins = words[found] if found < len(words) else uuid.uuid4().hex
            name = f"{session}~{begins[:12]}"
            self.counts.branched += name not in self._seen
        raise Scattered

    async def store(self, session: str, messages: Sequence[JsonMessage]) -> None:
        """Push what is new in a history that was followed here before; else do nothing."""
        words = chain(messages)
        name = self._line(session, words)
        if name in self._seen and self._fork(name, words) is None:
            with self._begun_anew_if_it_fails(name):
                turns = self._turns(name, messages, words)
                pushed = await answer(self._client.push_many((name, turn) for turn in turns))
            self._note(name, words, pushed)

    def _line(self, session: str, words: Sequence[str]) -> str:
        """The session, or the branch that this history was last in."""
        name = self._branches.get(session, session)
        return session if self._fork(name, words) is not None else name

    def _fork(self, name: str, words: Sequence[str]) -> int | None:
        """How many messages of the history are in this session, if others follow them there."""
        known = self._seen.get(name, _Seen()).words
        both = zip(known, words, strict=False)
        fork = next((at for at, (its, ours) in enumerate(both) if its != ours), len(words))
        return fork if fork < len(known) else None

    async def _advance(
        self,
        name: str,
        messages: Sequence[JsonMessage],
        words: Sequence[str],
        beside: Beside,
        policy: Policy | str | None,
    ) -> Context | int:
        """Push what the session lacks, and read; or how many messages the two have in common."""
        await self._expire(name)
        if (fork := self._fork(name, words)) is not None:
            return fork
        await self._open(name, beside, policy)
        with self._begun_anew_if_it_fails(name):
            turns = self._turns(name, messages, words)
            pushed, context = await answer(self._client.step_many(name, turns))
        seen = self._note(name, words, pushed)
        if len(seen.words) < len(words):
            return len(seen.words)
        return context if context.last_seq == seen.seq else len(words)

    async def _expire(self, name: str) -> None:
        """Begin anew with a session that expired, was forgotten, or was lost with Redis."""
        if seen := self._seen.get(name):
            last_seq = 0
            with suppress(UnknownSession):
                last_seq = (await answer(self._client.info(name))).last_seq
            if last_seq < seen.seq:
                self._seen.pop(name, None)

    async def _open(self, name: str, beside: Beside, policy: Policy | str | None) -> None:
        seen = self._seen.get(name, _Seen())
        if beside == seen.beside and (policy is None or seen.is_open):
            return
        given = None if seen.is_open else policy
        await answer(self._client.open(name, given, **beside.since(seen.beside)))
        _keep(self._seen, name, replace(seen, beside=beside, is_open=True))

    def _turns(
        self, name: str, messages: Sequence[JsonMessage], words: Sequence[str]
    ) -> list[TurnLike]:
        """What the session lacks of the history."""
        known = len(self._seen.get(name, _Seen()).words)
        return [
            {"messages": [messages[at]], "turn_id": f"{self._prefix}-{words[at]}"}
            for at in range(known, len(words))
        ]

    @contextmanager
    def _begun_anew_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._seen.pop(name, None)  # pushing again stores nothing twice
            raise

    def _note(self, name: str, words: Sequence[str], pushed: Sequence[Pushed]) -> _Seen:
        """What the session has now: of the history what comes before other turns."""
        seen = self._seen.get(name, _Seen())
        known = len(seen.words)
        self.counts.pushed += sum(not one.duplicate for one in pushed)
        seqs = [one.seq for one in pushed]
        before = [seen.seq, *seqs]
        gap = next((at for at, seq in enumerate(seqs) if seq != before[at] + 1), len(seqs))
        seen = replace(seen, words=tuple(words[: known + gap]), seq=before[gap])
        _keep(self._seen, name, seen)
        return seen


def chain(messages: Sequence[JsonMessage]) -> list[str]:
    """For each message a word for it and all before it: the same word, the same history so far."""
    words = [""]
    for message in messages:
        words.append(hashlib.sha256(f"{words[-1]} {key(message)}".encode()).hexdigest()[:32])
    return words[1:]


T = TypeVar("T")


def _keep(known: OrderedDict[str, T], name: str, value: T) -> None:
    known[name] = value
    known.move_to_end(name)
    while len(known) > SESSIONS:
        known.popitem(last=False)
