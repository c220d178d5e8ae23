"""Rules of turns a projection does not show whole: they stand beside its receipt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from turnmill.contract.context import StoredContext
from turnmill.contract.policy import Limits
from turnmill.contract.render import rules_message
from turnmill.contract.rules import Rule
from turnmill.contract.tail import TailTurn
from turnmill.contract.token_counters import CountMessages
from turnmill.rules.standing import Said, fitting, in_force, rules_room

__all__ = ["CarriedRules"]


class FoundRules(NamedTuple):
    """Rules in force.

    Attributes:
        every: all of them.
        stored: the context's own.
        fresh: the others, as far as they have room.
    """

    every: tuple[Rule, ...]
    stored: tuple[Rule, ...]
    fresh: tuple[Rule, ...] = ()


class CarriedRules:
    """What the stored rules become with those of turns left out or shortened.

    Attributes:
        found: the rules so far.
    """

    def __init__(self, stored: StoredContext, limits: Limits, count: CountMessages) -> None:
        self._known = frozenset(rule.id for rule in stored.rules)
        self._count = count
        self._room = rules_room(limits)
        self.found: FoundRules = FoundRules(stored.rules, stored.rules)

    @property
    def stored(self) -> tuple[Rule, ...]:
        """The context's rules that are still in force."""
        return self.found.stored

    @property
    def fresh(self) -> tuple[Rule, ...]:
        """The others, as far as they have room."""
        return self.found.fresh

    def carry(self, turns: Iterable[TailTurn]) -> None:
        """Take the rules of more turns along, as far as they have room."""
        said = [
            Said(turn.seq, turn.messages if turn.pushed is None else turn.pushed, turn.mark)
            for turn in turns
        ]
        every = in_force(self.found.every, said)
        if every == self.found.every:
            return
        stored = tuple(rule for rule in every if rule.id in self._known)
        before = self._count([rules_message(stored)]) if stored else 0
        fresh = [rule for rule in every if rule.id not in self._known]
        self.found = FoundRules(every, stored, fitting(fresh, self._room - before, self._tokens))

    def _tokens(self, text: str) -> int:
        return self._count([{"role": "user", "content": text}])
