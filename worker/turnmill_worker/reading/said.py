"""What users said that lasts: rules, requests, and which later sentence changes an earlier one.

Only what users say themselves is listened to: no tool, no program, no assistant, nothing quoted or
pasted. A turn that is marked lays down its whole text, or ends a rule, whatever it sounds like.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.context import JsonMessage, Limits
from turnmill.contract.marks import text_in
from turnmill.contract.names import Seq
from turnmill.contract.render import rule_line
from turnmill.contract.rules import UNMARKED, Mark, Rule, rule_id, with_marked
from turnmill.contract.rules import Said as Turn
from turnmill_worker.reading import changes, rules
from turnmill_worker.reading.passages import PROSE, USER, Passage, Reading
from turnmill_worker.reading.words import (
    CAPS,
    CODE,
    KIND,
    NAME,
    NUMBER,
    PLAIN,
    VALUE,
    Packed,
    Packing,
)

__all__ = ["Said", "Sentence", "is_shown", "marked", "restored", "rules_room", "stored"]

_NEAR: Final = 8
"""Sentences that are remembered by each word: the newest."""

_NEAREST: Final = 8
"""Earlier sentences that one is put beside: those it shares most with."""

_MOST_OF_A_MESSAGE: Final = 24
"""Sentences of a message that are looked at, the first: more are material."""

_ABOUT: Final = 2
"""Words and values that two plain statements share at least if one can change the other."""

_SHORT: Final = 4
"""A sentence of so few words that say something may change another that it shares one with."""

_ASIDE_CHARS: Final = 240
"""A longer sentence is no aside that changes another."""

_MOST: Final = 400
"""Sentences that are kept from compaction to compaction: rules, and else the newest."""

_SAME: Final = 0.8
"""Of two rules that share so much of what they say, the later one is said again."""

_SHARE: Final = 10
_LEAST_TOKENS: Final = 200
_MOST_SHARE: Final = 4
"""Rules take a tenth of the room, or 200 tokens where that is more, but at most a quarter."""

_FRAME_TOKENS: Final = 24
"""What their message costs beside the lines, generously."""

_CERTAIN: Final = 99.0
"""Log-odds of a turn that is marked as a rule."""

_VALUES: Final = frozenset({NAME, CODE, NUMBER, CAPS})


class Sentence(NamedTuple):
    """A user's sentence that a later one may change.

    Attributes:
        roots: the numbers of its words and values.
        place: which of its turn's rules it is, from 1; 0 if it is none.
        sure: how much it sounds like a rule, as log-odds.
        asked: it stands in what the session began with.
        past: the turn of a later sentence that changes it, or 0.
    """

    seq: int
    text: str
    roots: tuple[int, ...]
    place: int
    sure: float
    asked: bool = False
    past: int = 0

    @property
    def rule_id(self) -> str:
        """The id of the rule that it is."""
        return rule_id(self.seq, self.place)


class Said:
    """What users said up to a turn; turns are heard in their order, each once.

    Attributes:
        past: sentences that a later one changed, by the turn that did.
    """

    def __init__(self, known: Iterable[Sentence] = ()) -> None:
        self._sentences: list[Sentence] = []
        self._by_root: dict[int, list[int]] = defaultdict(list)
        self._texts: set[str] = set()
        self._laid_down: set[str] = set()
        self._ended: dict[str, int] = {}
        self.past: dict[str, int] = {}
        for each in known:
            self._remember(each)
            if each.past:
                self.past[each.text] = each.past

    def hear(
        self,
        seq: int,
        readings: Sequence[Reading],
        messages: Sequence[JsonMessage] = (),
        mark: Mark = UNMARKED,
        *,
        opens: bool = False,
    ) -> None:
        """Takes in what a turn says, read and as it was pushed.

        ``opens`` says that the session began with it.
        """
        if mark.revokes:
            self._end(mark.revokes, seq)
            return
        if mark.instructs:
            self._lay_down(seq, readings, messages)
            return
        place = 0
        for reading in readings:
            if reading.role != USER:
                continue
            least = rules.least(len(reading.passages))
            own = [each for each in reading.passages if each.source == USER and each.form & PROSE]
            for passage in own[:_MOST_OF_A_MESSAGE]:
                is_rule = passage.rule >= least and self._is_new(passage)
                place += is_rule
                self._state(seq, passage, place if is_rule else 0, opens=opens)

    def standing(self, stored: Sequence[Rule], through: int) -> tuple[Rule, ...]:
        """The rules of turns up to this one, oldest first, without those that any turn ended.

        ``stored``: the rules of the context. A rule that a later sentence changes says so.
        """
        found = {rule.id: rule for rule in stored}
        for each in self._sentences:
            if each.place and each.seq <= through and each.rule_id not in found:
                rule = Rule(seq=Seq(each.seq), place=each.place, text=each.text)
                found[rule.id] = rule
        standing = (
            self._as_of(rule, through) for rule in found.values() if rule.id not in self._ended
        )
        return tuple(sorted(standing, key=lambda rule: (rule.seq, rule.place)))

    def changed_by(self, through: int) -> Mapping[str, int]:
        """Sentences that a turn up to this one changed, with that turn."""
        return {text: seq for text, seq in self.past.items() if seq <= through}

    def fitting(
        self, standing: Sequence[Rule], tokens: int, count: Callable[[str], int]
    ) -> tuple[Rule, ...]:
        """As many of the rules as fit, whole: those in force first, then the surest, the newest."""
        sure = {(each.seq, each.text): each.sure for each in self._sentences if each.place}

        def order(rule: Rule) -> tuple[bool, float, int]:
            return bool(rule.revised), -sure.get((rule.seq, rule.text), 0.0), -rule.seq

        kept: set[str] = set()
        left = tokens - _FRAME_TOKENS
        for rule in sorted(standing, key=order):
            cost = count(f"{rule_line(rule)}\n")
            if cost <= left:
                left -= cost
                kept.add(rule.id)
        return tuple(rule for rule in standing if rule.id in kept)

    def up_to(self, through: int) -> Iterator[Sentence]:
        """What of it is kept beside a context that covers turns up to this one."""
        kept = [self._kept(each, through) for each in self._sentences if each.seq <= through]
        spare = len(kept) - _MOST
        for each in kept:
            if spare > 0 and not each.place and not each.asked:
                spare -= 1
            else:
                yield each

    def _kept(self, each: Sentence, through: int) -> Sentence:
        """A sentence as it is known at a turn; one that is no rule any more never is one again."""
        past = self.past.get(each.text, 0)
        is_over = 0 < self._ended.get(each.rule_id, 0) <= through
        place = 0 if is_over else each.place
        return each._replace(place=place, past=past if past <= through else 0)

    def _end(self, rule: str, seq: int) -> None:
        """Ends a rule; a request that states it says so."""
        self._ended[rule] = seq
        for each in self._sentences:
            if each.place and each.rule_id == rule:
                self.past.setdefault(each.text, seq)

    def _as_of(self, rule: Rule, through: int) -> Rule:
        changed = self.past.get(rule.text, 0)
        revised = Seq(changed) if 0 < changed <= through else rule.revised
        return rule if revised == rule.revised else rule.model_copy(update={"revised": revised})

    def _lay_down(
        self, seq: int, readings: Sequence[Reading], messages: Sequence[JsonMessage]
    ) -> None:
        """Takes in a turn that is marked: its whole text is a rule."""
        said = (passage for each in readings for passage in each.passages)
        roots = tuple(dict.fromkeys(number for passage in said for number in passage.ids))
        turn = Turn(Seq(seq), messages, Mark(instructs=True))
        for rule in with_marked((), [turn]):
            self._remember(Sentence(seq, rule.text, roots, rule.place, _CERTAIN))

    def _is_new(self, passage: Passage) -> bool:
        """Whether no rule says the same already."""
        if passage.text in self._laid_down:
            return False
        own = {each for each in passage.ids if each & KIND != PLAIN}
        near = (self._sentences[at] for root in own for at in self._by_root.get(root, ()))
        for each in {each.text: each for each in near if each.place}.values():
            theirs = {root for root in each.roots if root & KIND != PLAIN}
            if len(own & theirs) >= _SAME * len(own | theirs):
                return False
        return True

    def _state(self, seq: int, passage: Passage, place: int, *, opens: bool) -> None:
        """Marks what a sentence changes, and remembers it if it can be changed itself."""
        roots = tuple([each for each in passage.ids if each & KIND < VALUE])
        if len(passage.text) <= _ASIDE_CHARS:
            self._mark_changed(seq, passage.text, roots)
        if not place and passage.text in self._texts:
            return
        if place or opens or any(each & KIND in _VALUES for each in roots):
            self._remember(Sentence(seq, passage.text, roots, place, passage.rule, opens))

    def _mark_changed(self, seq: int, newer: str, roots: Sequence[int]) -> None:
        may_change = changes.may_change(newer)
        values = {root for root in roots if root & KIND in _VALUES}
        shared = Counter(at for root in roots for at in self._by_root.get(root, ()))
        for at, together in shared.most_common(_NEAREST):
            older = self._sentences[at]
            if older.seq == seq or older.text == newer or older.text in self.past:
                continue
            lasts = bool(older.place) or older.asked
            if together < _ABOUT and min(len(roots), len(older.roots)) > _SHORT:
                continue  # a word that two long sentences share tells nothing
            if not lasts and (together < _ABOUT or values.issubset(older.roots)):
                continue  # of a plain statement only another value of the same is news
            if (lasts and changes.restates(older.text, newer)) or (
                may_change and changes.replaces(older.text, newer, rule=bool(older.place))
            ):
                self.past[older.text] = seq

    def _remember(self, sentence: Sentence) -> None:
        at = len(self._sentences)
        self._sentences.append(sentence)
        self._texts.add(sentence.text)
        if sentence.place:
            self._laid_down.add(sentence.text)
        for root in sentence.roots:
            near = self._by_root[root]
            near.append(at)
            if len(near) > _NEAR:
                # Rules and what was asked stay within reach however much is said since.
                older, newer = near[:-_NEAR], near[-_NEAR:]
                lasting = [one for one in older if self._sentences[one].place]
                self._by_root[root] = [*lasting[-_NEAR:], *newer]


def rules_room(limits: Limits) -> int:
    """Most tokens the rules of a context may take."""
    return max(limits.room // _SHARE, min(_LEAST_TOKENS, limits.room // _MOST_SHARE))


def is_shown(rule: Rule, messages: Iterable[JsonMessage]) -> bool:
    """Whether the rule stands in what these messages show of its turn."""
    text = " ".join(rule.text.split())
    return any(text in " ".join(text_in(message).split()) for message in messages)


def marked(text: str, changed: Mapping[str, int]) -> str:
    """A text in which each sentence that was changed later says by which turn."""
    for sentence, seq in changed.items():
        if max(sentence.split(), key=len) not in text:
            continue
        words = r"\s+".join(map(re.escape, sentence.split()))
        mark = f" (changed in turn {seq})"
        text = re.sub(rf"({words})(?! \(changed in turn)", rf"\g<1>{mark}", text, count=1)
    return text


def stored(sentences: Iterable[Sentence]) -> dict[str, Any]:
    """The sentences as plain values."""
    ids = Packing()
    rows = [
        [*each._replace(roots=(), sure=round(each.sure, 2)), ids.put(each.roots)]
        for each in sentences
    ]
    return {"rows": [[*row[:2], *row[3:]] for row in rows], "ids": ids.text()}


def restored(values: Mapping[str, Any]) -> list[Sentence]:
    """The sentences that were stored."""
    ids = Packed(values["ids"])
    return [Sentence(seq, text, ids.take(many), *more) for seq, text, *more, many in values["rows"]]
