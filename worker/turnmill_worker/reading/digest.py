"""A session as it is kept beside its log: what was read, what stands, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import changes, rules
from turnmill_worker.reading import passages as r
from turnmill_worker.reading.passages import Reading, read
from turnmill_worker.reading.score import score
from turnmill_worker.reading.echoes import Makes
from turnmill_worker.reading.states import States
from turnmill_worker.reading.select import pooled, select, trimmed
from turnmill_worker.reading.tables import Covered, Tables
from turnmill_worker.reading.words import CAPS, CODE, KIND, NAME, NUMBER, VALUE

POOL: Final = 2.0
"""How many times the tokens of a summary are kept to choose the next one from."""


class Rule(NamedTuple):
    """What the user laid down, word for word; ``past``: the turn that replaced it, or 0."""

    seq: int
    text: str
    sure: float
    past: int = 0


class Summary(NamedTuple):
    """What a compaction leaves of the turns it covers."""

    text: str
    rules: tuple[Rule, ...]
    score: float


@dataclass(slots=True)
class Session:
    """One conversation.

    Attributes:
        fresh: messages that were read and not compacted yet.
        kept: what of older ones can still be chosen.
        stated: every user sentence that may be replaced or replace: rules and values.
        past: sentences that a later one replaced, by the turn that did.
        keeps_first: the user's first message stands word for word before each summary (`request`).
        first: its turn, its text, and its sentences.
        asked: of these, those that people wrote themselves.
        until: the newest turn that a summary covers.
    """

    count: Callable[[str], int]
    fresh: list[Reading] = field(default_factory=list)
    kept: list[Reading] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    laid_down: set[str] = field(default_factory=set)
    stated: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)
    keeps_first: bool = True
    first: tuple[int, str, tuple[str, ...]] = (0, "", ())
    asked: frozenset[str] = frozenset()
    until: int = 0
    tables: Tables = field(init=False)
    states: States = field(default_factory=States)
    makes: Makes = field(default_factory=Makes)

    def __post_init__(self) -> None:
        self.tables = Tables(self.count)

    def add(self, seq: int, message: Mapping[str, Any]) -> Reading:
        """Reads one more message: the only time its text is looked at."""
        answers = bool(self.fresh) and self.fresh[-1].asks
        found = read(seq, message, self.count, answers=answers)
        for each in (self.tables, self.states, self.makes):
            each.add(found)
        found = found._replace(cells=())
        self.fresh.append(found)
        if found.role == r.USER and not self.first[0] and isinstance(message.get("content"), str):
            self.first = seq, message["content"], tuple(own.text for own in found.passages)
            if len(found.passages) <= _MOST:
                self.asked = frozenset(own.text for own in found.passages if own.form & r.PROSE)
        own = [each for each in found.passages if each.source == r.USER and each.form & r.PROSE]
        least = rules.least(len(found.passages))
        for passage in own[:_MOST]:
            self._state(seq, passage, passage.rule >= least)
        return found

    def _state(self, seq: int, passage: r.Passage, is_rule: bool) -> None:
        """Marks what a user's sentence replaces, and remembers it if it can be replaced itself."""
        text = passage.text
        roots = [each for each in passage.ids if each & KIND < VALUE]
        if len(text) <= _ASIDE:
            may = changes.may_change(text)
            met = Counter(older for root in roots for older in self.stated.get(root, ()))
            met = dict(met.most_common(_NEAREST)) | {(self.first[0], own): met[self.first[0], own] for own in self.asked}
            for (when, older), together in met.items():
                rule = older in self.laid_down
                if older in self.past or older == text or when == seq:
                    continue
                first = older in self.asked
                if (rule or first) and changes.restates(older, text) or may and (rule and not first or together > 1) and changes.replaces(older, text, rule=rule):
                    self.past[older] = seq
        if is_rule and text not in self.laid_down:
            self.laid_down.add(text)
            self.rules.append(Rule(seq, text, passage.rule))
        if is_rule or text in self.asked or any(each & KIND in _VALUES for each in passage.ids):
            for root in roots:
                self.stated.setdefault(root, []).append((seq, text))
                del self.stated[root][:-_NEAR]

    def standing(self) -> tuple[Rule, ...]:
        """The rules, each with the turn that replaced it."""
        return tuple(rule._replace(past=self.past.get(rule.text, 0)) for rule in self.rules)

    def request(self) -> str:
        """The user's first message, word for word, with what was changed of it."""
        seq, text, sentences = self.first
        for own in sentences:
            if own in self.past:
                text = text.replace(own, f"{own} (changed in turn {self.past[own]})", 1)
        return f"(turn {seq}) {text}" if text else ""

    def lists(self) -> str:
        """The lists that stand before a summary, whole; none of which a newer turn has another."""
        return self.states.standing(self.until)

    def compact(self, budget: int, until: int | None = None) -> Summary:
        """What stands for all that was read up to a turn, in at most so many tokens with `lists`."""
        until = self.fresh[-1].seq if until is None and self.fresh else until or 0
        covered = [each for each in self.fresh if each.seq <= until]
        self.fresh = self.fresh[len(covered) :]
        shown, stated = self._rules_within(budget // 2)
        self.until = until
        gone = self.states.settle(until, budget // 3, self.count)
        left = budget - sum(self.count(each) + 1 for each in (shown, self.lists()) if each)
        built = self.tables.build(until, left, self.past)
        stated |= frozenset(self.first[2]) | built.texts if self.keeps_first else built.texts
        for seq, first, last in gone:
            built.places[seq].append(Covered(first, last))
        readings = self._without([*self.kept, *covered], built.places)
        pool = pooled([*readings, *built.readings], left, self.past, stated)
        chosen = select(pool, left, self.count, past=self.past)
        self.kept = trimmed(pool, chosen.order, int(POOL * budget))
        self.states.trim(until)
        self.tables.trim(until, built.columns, int(POOL * budget))
        self.makes.forget({own.text for each in (*self.kept, *self.fresh) for own in each.passages})
        text = "\n".join(filter(None, (shown, chosen.text)))
        return Summary(text, self.standing(), score(pool, chosen.kept, covered))

    def _without(self, readings: list[Reading], gone: Mapping[int, list[Covered]]) -> list[Reading]:
        """Readings but for what tables and lists say, and for what echoes its neighbours."""
        found = []
        for each in readings:
            spans = gone.get(each.seq, ())
            kept = tuple(
                own for own in each.passages
                if not any(span.has(own) for span in spans)
                and not (own.source < r.SYSTEM and self.makes.echoed(own.text))
            )  # fmt: skip
            found.append(each if len(kept) == len(each.passages) else each._replace(passages=kept))
        return found

    def _rules_within(self, budget: int) -> tuple[str, frozenset[str]]:
        """The rules in force as lines, the surest of them if there is no room for all."""
        kept: list[Rule] = []
        for rule in sorted(self.rules, key=lambda rule: -rule.sure):
            cost = self.count(f"\n- (turn {rule.seq}) {rule.text}")
            if rule.text not in self.past and cost <= budget and not (self.keeps_first and rule.seq == self.first[0]):
                budget -= cost
                kept.append(rule)
        lines = [f"- (turn {rule.seq}) {rule.text}" for rule in sorted(kept)]
        return "\n".join(lines), frozenset(rule.text for rule in kept)


_NEAR: Final = 8
"""Sentences that are remembered by each word: the newest."""

_NEAREST: Final = 8
"""Earlier sentences that one is put beside: those it shares most with."""

_MOST: Final = 24
"""Sentences of a message that are looked at so, the first: more are material."""

_ASIDE: Final = 240
"""Characters: a longer sentence is no aside."""

_VALUES: Final = frozenset({NAME, CODE, NUMBER, CAPS})
