"""Sentences that lay down a rule which a later one has ended, replaced or changed in part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from turnmill.contract.names import Seq
from turnmill.contract.rules import Rule
from turnmill.rules.standing import clauses_of, followed_by
from turnmill.rules.supersede import Relation, ended
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.units import Source, Units

__all__ = ["EndedRule", "ended_rules"]

_MOST: Final = 100
"""Rules of a conversation that are compared, the newest: each is with all before it."""

_OTHERS: Final = frozenset({Role.QUOTATION, Role.WRITTEN})
"""Who shows a text does not lay down what it says."""


class EndedRule(NamedTuple):
    """A rule that holds no longer.

    Attributes:
        at: the position of the unit that lays it down.
        text: as it says it.
        seq: the turn that said otherwise.
        newer: the position of the unit that did; that of the rule where none is left.
    """

    at: int
    text: str
    seq: Seq
    newer: int


def ended_rules(found: Units, in_force: Sequence[Rule]) -> Iterator[EndedRule]:
    """What users laid down in these units and took back later; linear in their number.

    What is known to be ``in_force`` is not taken for ended, and ends others wherever it was said.
    """
    laid, at_of = _laid_down(found)
    known: dict[Seq, list[Rule]] = defaultdict(list)
    for rule in in_force:
        known[rule.seq].append(rule)
    elsewhere = [rule for rule in in_force if not any(_same(rule, one) for one in laid)]
    standing: list[Rule] = []
    for rule in sorted([*laid, *elsewhere], key=attrgetter("seq"))[-_MOST:]:
        after = followed_by(standing, rule)
        left = {one.id: one for one in after}
        if rule.id not in left and rule.id in at_of:
            for at, relation in ended(rule, standing).items():
                if relation is Relation.REPEATS:
                    at_of.setdefault(standing[at].id, []).extend(at_of[rule.id])
        for older in standing:
            changed = older.id not in left or left[older.id].revised != older.revised
            holds = any(_same(one, older) and not one.revised for one in known[older.seq])
            if changed and not holds:
                for at, text in at_of.get(older.id, ()):
                    newer, _ = at_of.get(rule.id, [(at, text)])[0]
                    yield EndedRule(at, text, rule.seq, newer)
        standing = after


def _laid_down(found: Units) -> tuple[list[Rule], dict[str, list[tuple[int, str]]]]:
    """The rules of users' sentences, and the positions of those by their ids."""
    rules: list[Rule] = []
    at_of: dict[str, list[tuple[int, str]]] = {}
    for at, unit in enumerate(found.units):
        line = found.lines[unit.line]
        if line.source is not Source.USER or unit.body_at or unit.role in _OTHERS or not line.seq:
            continue
        for text, kind in clauses_of(unit.text):
            # By places that no rule in force has.
            rule = Rule(seq=Seq(line.seq), place=-len(rules) - 1, text=text, kind=kind)
            rules.append(rule)
            at_of[rule.id] = [(at, text)]
    return rules, at_of


def _same(one: Rule, other: Rule) -> bool:
    """Whether two are the same clause of a turn, though one may have been read with more."""
    return one.seq == other.seq and (one.text in other.text or other.text in one.text)
