"""Rules of turns a projection does not show whole: they stand beside its receipt."""

from __future__ import annotations

from collections.abc import Iterable

from turnmill.contract.context import StoredContext
from turnmill.contract.policy import Limits
from turnmill.contract.render import rules_message
from turnmill.contract.rules import Rule
from turnmill.contract.tail import TailTurn
from turnmill.contract.token_counters import CountMessages
from turnmill.rules.standing import Said, fitting, in_force, rules_room

__all__ = ["CarriedRules"]


class CarriedRules:
    """What the stored rules become with those of turns left out or shortened.

    Attributes:
        stored: the context's rules that are still in force.
        fresh: the others, as far as they have room.
    """

    def __init__(self, stored: StoredContext, limits: Limits, count: CountMessages) -> None:
        self._known = frozenset(rule.id for rule in stored.rules)
        self._all: tuple[Rule, ...] = stored.rules
        self._count = count
        self._room = rules_room(limits)
        self.stored: tuple[Rule, ...] = stored.rules
        self.fresh: tuple[Rule, ...] = ()

    def carry(self, turns: Iterable[TailTurn]) -> None:
        """Take the rules of more turns along, as far as they have room."""
        said = [
            Said(turn.seq, turn.messages if turn.pushed is None else turn.pushed, turn.mark)
            for turn in turns
        ]
        found = in_force(self._all, said)
        if found == self._all:
            return
        self.stored = tuple(rule for rule in found if rule.id in self._known)
        before = self._count([rules_message(self.stored)]) if self.stored else 0
        fresh = [rule for rule in found if rule.id not in self._known]
        self._all = found
        self.fresh = fitting(fresh, self._room - before, self._tokens)

    def _tokens(self, text: str) -> int:
        return self._count([{"role": "user", "content": text}])
