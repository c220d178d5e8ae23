"""Rules and requests of turns a projection does not show: they stand beside its receipt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.open_requests import OpenRequest
from turnmill.contract.policy import Limits
from turnmill.contract.render import requests_message, rules_beside, rules_message
from turnmill.contract.rules import UNMARKED, Rule
from turnmill.contract.tail import TailTurn
from turnmill.contract.token_counters import CountMessages
from turnmill.open_requests.find import requests_heard
from turnmill.open_requests.fitting import fitting, requests_room
from turnmill.open_requests.speech import Hearing
from turnmill.rules.carried import CarriedRules, FoundRules
from turnmill.rules.standing import Said

__all__ = ["Carried"]

_MOST_KNOWN: Final = 1024
"""So many findings are remembered: each read finds again what those before it found."""

_known: Final[dict[object, _Found]] = {}


class _Found(NamedTuple):
    """What some turns left in force and open; ``tokens`` of the messages with it."""

    rules: FoundRules
    fresh: tuple[OpenRequest, ...]
    tokens: int


class Carried:
    """What the stored rules and requests become with those of turns that are not shown whole.

    Attributes:
        stored: the context with those rules and requests of its own that still stand.
        tokens: of ``messages``, never more than the shares rules and requests have of the room.
    """

    def __init__(self, stored: StoredContext, limits: Limits, count: CountMessages) -> None:
        self._rules = CarriedRules(stored, limits, count)
        self._before = stored
        self._limits = limits
        self._count = count
        self._hearing = Hearing(from_start=not stored.requests)
        self._unheard: list[Said] = []
        self._key = (stored.rules, stored.requests, stored.is_empty, limits, count)
        self._digest = blake2b(digest_size=16)
        self._is_known = True
        self._fresh: tuple[OpenRequest, ...] = ()
        self.stored: StoredContext = stored
        self.tokens: int = 0

    @property
    def messages(self) -> list[JsonMessage]:
        """One with rules, one with requests that the stored context does not have."""
        return [*_of(rules_beside(self._rules.fresh, self._fresh)), *self._asked]

    @property
    def rules(self) -> list[JsonMessage]:
        """The messages with rules alone, stored or not, that no request states."""
        stored = rules_beside(self._rules.stored, self._before.requests)
        return [*_of(stored), *_of(rules_beside(self._rules.fresh, self._fresh))]

    @property
    def all_rules(self) -> list[JsonMessage]:
        """The same with what requests state: for a context that may shorten those."""
        return [*_of(self._rules.stored), *_of(self._rules.fresh)]

    @property
    def others(self) -> tuple[StoredContext, list[JsonMessage]]:
        """The stored context without rules, and the message with requests beside it, if any."""
        return self.stored.model_copy(update={"rules": ()}), self._asked

    @property
    def _asked(self) -> list[JsonMessage]:
        return [requests_message(self._fresh)] if self._fresh else []

    def carry(self, turns: Iterable[TailTurn]) -> None:
        """Take the rules of turns along that are shown, but not whole."""
        turns = list(turns)
        if not self._recall(b"carry", turns):
            self._rules.carry(turns)
            self._remember()

    def drop(self, turns: Iterable[TailTurn]) -> None:
        """Take along the rules and requests of turns that are not shown at all."""
        turns = list(turns)
        self._unheard += [
            Said(turn.seq, turn.messages if turn.pushed is None else turn.pushed, turn.mark)
            for turn in turns
        ]
        if self._recall(b"drop", turns):
            return
        self._rules.carry(turns)
        known = {request.seq for request in self._before.requests}
        self._hearing.listen(self._unheard)
        self._unheard.clear()
        found = requests_heard(self._before, self._hearing.heard)
        fresh = [request for request in found if request.seq not in known]
        rules = _of(self._rules.fresh)
        room = requests_room(self._limits, self._count(rules) if rules else 0)
        before = self._count([requests_message(self._before.requests)]) if known else 0
        self._fresh = fitting(fresh, room - before, self._tokens_of)
        self._remember()

    def _recall(self, what: bytes, turns: Sequence[TailTurn]) -> bool:
        """Whether an earlier read found it in the same turns, taken along in the same way."""
        self._digest.update(what)
        for turn in turns:
            self._is_known = self._is_known and turn.body is not None
            self._digest.update(b"%d %d " % (turn.seq, len(turn.body or b"")))
            self._digest.update(turn.body or b"")
            if turn.mark != UNMARKED:
                self._digest.update(repr(turn.mark).encode())
        found = _known.get(self._place) if self._is_known else None
        if found is None:
            return False
        self._rules.found, self._fresh, self.tokens = found
        self._update()
        return True

    def _remember(self) -> None:
        self._update()
        messages = self.messages
        self.tokens = self._count(messages) if messages else 0
        if self._is_known:
            if len(_known) >= _MOST_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[self._place] = _Found(self._rules.found, self._fresh, self.tokens)

    @property
    def _place(self) -> object:
        return (*self._key, self._digest.digest())

    def _update(self) -> None:
        if self._rules.stored != self.stored.rules:
            self.stored = self._before.model_copy(update={"rules": self._rules.stored})

    def _tokens_of(self, text: str) -> int:
        return self._count([{"role": "user", "content": text}])


def _of(rules: tuple[Rule, ...]) -> list[JsonMessage]:
    return [rules_message(rules)] if rules else []
