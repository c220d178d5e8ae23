"""Facts, and what becomes of them while messages are read. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final, Self

from turnmill_worker.compaction.ledger.labels import VALUE_AT, said_of
from turnmill_worker.compaction.ledger.stated_values import Kind, Mention, mentions
from turnmill_worker.old_reading.units import Line, Source, Units
from turnmill_worker.old_reading.updates import SPEAKERS, Told

__all__ = ["Fact", "merged", "placed"]

_LONGEST_LABEL: Final = 80
_SPEAKERS: Final = frozenset(source.value for source in SPEAKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value kept word for word, and what it belongs to.

    Attributes:
        kind: what sort of value it is.
        text: as it was written.
        label: its nearest words, ``…`` where the value stood; ``owner: key`` for a field.
        seq: the turn that first stated it.
        last_seq: the newest turn that mentions it.
        uses: how many messages mention it.
        by: who states it, first the one whose words the label are: ``assistant``, ``call``,
            ``result``, ``system``, ``user``.
        replaces: a newer value under the same label replaces this one.
        until: the turn that stated a newer value for the same label; 0 while it holds.
    """

    kind: Kind
    text: str
    label: str
    seq: int
    last_seq: int
    uses: int = 1
    by: tuple[str, ...] = ()
    replaces: bool = False
    until: int = 0


def merged(previous: Sequence[Fact], told: Told) -> list[Fact]:
    """Facts known and new, each value once, in the order they were first stated.

    The last part of what is ``told`` is new, and behind it is what is left of the turns before.
    """
    known = {_key(fact.text): _OpenFact.of(fact) for fact in previous}
    holds = {
        said_of(fact.label): _key(fact.text)
        for fact in previous
        if fact.replaces and not fact.until
    }
    for mention in mentions(told.parts[-1]):
        key = _key(mention.text)
        fact = known.get(key)
        if fact is None:
            known[key] = _OpenFact.first(mention)
        else:
            fact.again(mention)
        if mention.replaces:
            of = said_of(mention.label)
            older = holds.get(of, key)
            if older != key and known[older].last_seq < mention.seq:
                known[older].until = mention.seq
                known[older].fact = None
            holds[of] = key
    for key, seq in chain(_ended(told, known), _ended(_told_besides(previous, told), known)):
        known[key].until = seq
        known[key].fact = None
    facts = [fact.as_fact() for fact in known.values()]
    return sorted(facts, key=attrgetter("seq"))


def _told_besides(previous: Sequence[Fact], told: Told) -> Told:
    """What people said of which the facts are all that is left, and the new part."""
    texts: dict[int | None, list[str]] = defaultdict(list)
    for part in told.parts[:-1]:
        for unit in part.units:
            texts[part.lines[unit.line].seq].append(unit.text)
    left = Units([], [])
    for fact in previous:
        said = not _SPEAKERS.isdisjoint(fact.by) and not fact.until
        if said and not any(fact.text in text for text in texts[fact.seq]):
            source = Source.USER if Source.USER.value in fact.by else Source.ASSISTANT
            left.add_text(Line(fact.seq, source), [placed(fact.label, fact.text)])
    return Told(left, told.parts[-1]) if left.units else Told(left)


def _ended(told: Told, known: Mapping[str, _OpenFact]) -> Iterator[tuple[str, int]]:
    """Facts of which has been told since that they hold no longer, and in which turn."""
    whole = told.whole
    new = len(whole.units) - len(told.parts[-1].units)
    for at, newer in told.past.items():
        line = whole.lines[whole.units[at].line]
        if at < new and line.source not in SPEAKERS:
            # An amount or a place that one tool has told before may be another's fact, too.
            continue
        seq = line.seq or 0
        for value, by, _ in newer:
            fact_now = known.get(_key(value))
            if fact_now and not fact_now.until and fact_now.seq <= seq and fact_now.last_seq < by:
                yield _key(value), by


def placed(label: str, values: str) -> str:
    """Values where their label says that they stood."""
    if VALUE_AT in label:
        return label.replace(VALUE_AT, values, 1)
    return f"{label} {values}" if label else values


def _key(text: str) -> str:
    return text.lower().lstrip("#@$€£")


@dataclass(slots=True)
class _OpenFact:
    """A fact while messages are read; changed in place, because many messages may mention it."""

    kind: Kind
    text: str
    label: str
    seq: int
    last_seq: int
    uses: int
    by: tuple[str, ...]
    replaces: bool
    until: int
    fact: Fact | None
    """The fact it was made from, while nothing has changed."""

    @classmethod
    def of(cls, fact: Fact) -> Self:
        return cls(
            fact.kind,
            fact.text,
            fact.label,
            fact.seq,
            fact.last_seq,
            fact.uses,
            fact.by,
            fact.replaces,
            fact.until,
            fact,
        )

    @classmethod
    def first(cls, mention: Mention) -> Self:
        label, seq, by = mention.label[:_LONGEST_LABEL], mention.seq, (mention.source.value,)
        return cls(mention.kind, mention.text, label, seq, seq, 1, by, mention.replaces, 0, None)

    def again(self, mention: Mention) -> None:
        """Note one more mention; a value stated anew for its own label holds again."""
        new = mention.seq > self.last_seq
        by = mention.source.value
        if not new and by in self.by:
            return
        if by not in self.by:
            self.by = (*self.by, by)
        if new:
            self.last_seq = mention.seq
            self.uses += 1
        if said_of(mention.label) == said_of(self.label):
            self.until = 0
        self.fact = None

    def as_fact(self) -> Fact:
        return self.fact or Fact(
            kind=self.kind,
            text=self.text,
            label=self.label,
            seq=self.seq,
            last_seq=self.last_seq,
            uses=self.uses,
            by=self.by,
            replaces=self.replaces,
            until=self.until,
        )
