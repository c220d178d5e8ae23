"""Messages read as passages: the words, names and identifiers that stand together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, NamedTuple

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import DATA
from turnmill.contract.names import Seq
from turnmill.contract.render import FIRST_REQUEST, REQUEST, RULES
from turnmill_worker.old_reading.actions import Role
from turnmill_worker.old_reading.earlier_summary import add_previous
from turnmill_worker.old_reading.messages import read_units
from turnmill_worker.old_reading.sentences import is_guarded
from turnmill_worker.old_reading.units import Source, Units
from turnmill_worker.old_reading.words import Concept, Token, bare_tokens, concepts_of, tokens_of

__all__ = ["Passage", "head_units", "passages_of", "sections"]

_LONGEST_PASSAGE: Final = 48
"""Most concepts of a passage; in a longer one, it says nothing that some meet again."""

_KNOWN: Final = 1 << 15
"""Sentences and fields that are remembered: a tail and a head are read for every summary."""

_QUOTED: Final = frozenset({Role.WRITTEN, Role.QUOTATION})

_WORDS = re.compile(r"[a-z'’]+")
_SECTIONS: Final = (RULES, REQUEST, FIRST_REQUEST)
# What a rendered head says of itself; `contract.render` writes it.
_FRAME = re.compile(
    r"^(?:\[Summary of the conversation so far[^\]\n]{0,80}\]|\[End\]"
    r"|\[Turns? [\d-]+ left out to fit: [^\]\n]{0,80}\]"
    rf"|{'|'.join(map(re.escape, _SECTIONS))}|\[End of rules\]|\[End of request\]"
    rf"|\[Facts kept word for word\]|\[End of facts\]|{re.escape(DATA)})$",
    re.MULTILINE,
)


class Passage(NamedTuple):
    """A sentence or one JSON object: what stands together.

    Attributes:
        source: who it comes from.
        concepts: all it states, and behind that its field names, which give context but are no
            facts; each once.
        stated: how many it states.
        named: those stated that were written as a name.
        guarded: it holds a negation, condition or exception.
    """

    source: Source
    concepts: tuple[Concept, ...]
    stated: int
    named: frozenset[Concept]
    guarded: bool


class _Sentence(NamedTuple):
    """What a sentence states, whoever says it."""

    concepts: tuple[Concept, ...]
    named: frozenset[Concept]
    guarded: bool


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


def sections(head: Iterable[JsonMessage]) -> list[JsonMessage]:
    """The messages with rules and open requests: they stand in a head whatever its summary says."""
    said = (message for message in head if _is_text_of_a_user(message))
    return [message for message in said if message["content"].startswith(_SECTIONS)]


def _is_text_of_a_user(message: JsonMessage) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), str)


def passages_of(found: Units) -> Iterator[Passage]:
    """The passages of some units: each sentence, and each object's fields."""
    stated: dict[Concept, None] = {}
    keys: dict[Concept, None] = {}
    named: frozenset[Concept] = frozenset()
    group, source, guarded = -1, Source.EARLIER, False
    units = found.units
    for at, unit in enumerate(units):
        full = len(stated) + len(keys) > _LONGEST_PASSAGE
        if stated and (not unit.body_at or unit.group != group or full):
            yield _passage(source, stated, keys, named, guarded=guarded)
            stated, keys, named = {}, {}, frozenset()
        # An "if" in a file that was read or written is nobody's condition.
        quoted = unit.role in _QUOTED
        group, source = unit.group, Source.RESULT if quoted else found.lines[unit.line].source
        if not unit.body_at:
            said = _sentence(unit.text)
            alone = at + 1 == len(units) or not units[at + 1].body_at
            if alone and not stated and not keys:
                if concepts := said.concepts:
                    is_guard = said.guarded and not quoted
                    yield Passage(source, concepts, len(concepts), said.named, is_guard)
                continue
            stated |= dict.fromkeys(said.concepts)
            named, guarded = said.named, said.guarded and not quoted
        else:
            stated |= _values(unit.text[unit.body_at :])
            keys |= _keys(f"{unit.label} {unit.text[: unit.body_at - 1]}")
            guarded = False
    if stated:
        yield _passage(source, stated, keys, named, guarded=guarded)


def _passage(
    source: Source,
    stated: Mapping[Concept, None],
    keys: Mapping[Concept, None],
    named: frozenset[Concept],
    *,
    guarded: bool,
) -> Passage:
    concepts = (*stated, *(key for key in keys if key not in stated))
    return Passage(source, concepts, len(stated), named, guarded)


@lru_cache(_KNOWN)
def _sentence(text: str) -> _Sentence:
    tokens = tokens_of(text)
    stated = dict.fromkeys(chain.from_iterable([token.bare for token, _ in tokens]))
    guarded = is_guarded(_WORDS.findall(text.lower()))
    return _Sentence(tuple(stated), frozenset(_named(tokens)), guarded)


def _named(tokens: Iterable[tuple[Token, str]]) -> Iterator[Concept]:
    """What capitals say is a name, where they do not only open a sentence."""
    opens, name_next = True, False
    for token, ended in tokens:
        if token.name is not None and not opens:
            name_next = True
        if name_next and token.bare:
            yield token.bare[0]
            name_next = False
        opens = bool(ended)


@lru_cache(_KNOWN)
def _values(text: str) -> dict[Concept, None]:
    return dict.fromkeys(concept for token in bare_tokens(text) for concept in token.bare)


@lru_cache(_KNOWN)
def _keys(text: str) -> dict[Concept, None]:
    return dict.fromkeys(concepts_of(text, prose=False))
