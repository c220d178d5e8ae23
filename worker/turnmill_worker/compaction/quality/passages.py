"""Messages read as passages: the words, names and identifiers that stand together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill_worker.reading.actions import Role
from turnmill_worker.reading.earlier_summary import add_previous
from turnmill_worker.reading.messages import read_units
from turnmill_worker.reading.sentences import is_guarded
from turnmill_worker.reading.units import Source, Unit, Units
from turnmill_worker.reading.words import Concept, Reader

__all__ = ["Passage", "head_units", "passages_of"]

_LONGEST_PASSAGE: Final = 48
"""Most concepts of a passage; in a longer one, it says nothing that some meet again."""

_QUOTED: Final = frozenset({Role.WRITTEN, Role.QUOTATION})

_WORDS = re.compile(r"[a-z'’]+")
# What a rendered head says of itself; `contract.render` writes it.
_FRAME = re.compile(
    r"^(?:\[Summary of the conversation so far[^\]\n]{0,80}\]|\[End\]"
    r"|\[Turns? [\d-]+ left out to fit: [^\]\n]{0,80}\]"
    r"|\[Rules the user laid down, word for word\]|\[End of rules\]"
    r"|\[The request that is still open, word for word\]|\[End of request\]"
    r"|\[Facts kept word for word\]|\[End of facts\])$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence or one JSON object: what stands together.

    Attributes:
        source: who it comes from.
        stated: its concepts.
        keys: concepts of its field names, which give context but are not facts.
        named: those of ``stated`` that were written as a name.
        guarded: it holds a negation, condition or exception.
    """

    source: Source
    stated: tuple[Concept, ...]
    keys: tuple[Concept, ...]
    named: frozenset[Concept]
    guarded: bool

    @property
    def concepts(self) -> Iterable[Concept]:
        """All it states and names, each once."""
        return dict.fromkeys((*self.stated, *self.keys))


def head_units(messages: Iterable[JsonMessage]) -> Units:
    """The head's messages as units, without what the head says of itself."""
    found = Units([], [])
    for texts, own in groupby(messages, key=_is_text_of_a_user):
        if texts:
            for message in own:
                add_previous(found, _FRAME.sub("", message["content"]))
        else:
            # Together: what came of a call is told with it.
            found.add_all(read_units([(Seq(0), message) for message in own]))
    return found


def _is_text_of_a_user(message: JsonMessage) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), str)


def passages_of(reader: Reader, found: Units) -> Iterator[Passage]:
    """The passages of units."""
    stated: dict[Concept, None] = {}
    keys: dict[Concept, None] = {}
    named: set[Concept] = set()
    group, source, guarded = -1, Source.EARLIER, False
    for unit in found.units:
        full = len(stated) + len(keys) > _LONGEST_PASSAGE
        if stated and (unit.is_prose or unit.group != group or full):
            yield Passage(source, tuple(stated), tuple(keys), frozenset(named), guarded)
            stated, keys, named = {}, {}, set()
        # An "if" in a file that was read or written is nobody's condition.
        quoted = unit.role in _QUOTED
        group, source = unit.group, Source.RESULT if quoted else found.lines[unit.line].source
        says = unit.is_prose and not quoted
        guarded = says and is_guarded(_WORDS.findall(unit.text.lower()))
        _add_concepts(reader, unit, stated, keys, named)
    if stated:
        yield Passage(source, tuple(stated), tuple(keys), frozenset(named), guarded)


def _add_concepts(
    reader: Reader,
    unit: Unit,
    stated: dict[Concept, None],
    keys: dict[Concept, None],
    named: set[Concept],
) -> None:
    """Adds a unit's concepts to its passage's."""
    if not unit.is_prose:
        keys.update(reader.fields(f"{unit.label} {unit.text[: unit.body_at - 1]}"))
        for token in reader.bare(unit.text[unit.body_at :]):
            for concept in token.bare:
                stated[concept] = None
        return
    opens, name_next = True, False
    for token, ended in reader.tokens(unit.text):
        if token.name is not None and not opens:
            name_next = True
        for concept in token.bare:
            stated[concept] = None
            if name_next:
                named.add(concept)
                name_next = False
        opens = bool(ended)
