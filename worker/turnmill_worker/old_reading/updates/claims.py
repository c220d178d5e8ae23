"""The values that sentences state: of what, and whether they say that a value is new."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from turnmill.rules.wording.english import stem
from turnmill_worker.old_reading.units import Source
from turnmill_worker.old_reading.updates.news import is_new, is_news, is_unreal, replaced_value
from turnmill_worker.old_reading.updates.subject import Subject, subject_of
from turnmill_worker.old_reading.updates.values import Token, Value, values_of, words_of
from turnmill_worker.old_reading.updates.wording import (
    ADDS,
    COPIED,
    EMPTY,
    HYPOTHETICAL,
    IN_BRACKETS,
    LABEL,
    LABELLED,
    LABELS,
    LINK,
    MARKED,
    NUMBER_OF,
    OF_ONESELF,
    OPENING,
    WAS,
)

__all__ = ["DATED", "NEAR", "Claim", "Place", "around", "claims_of", "is_listing"]

NEAR: Final = 90
"""Characters within which a word makes a value new."""

_FAR: Final = 2 * NEAR
_SAID: Final = 2
_JOINED: Final = len(", at ")
_SENTENCE_ENDS: Final = frozenset((". ", ": ", "! ", "? "))
DATED: Final = frozenset({"date", "weekday", "time"})

_LIST_MARK = re.compile(r"\W{0,6}(\d{1,3})[.)](?:\s|$)")
_CODE = re.compile(r"\w\(|==|=>|</?\w|;\s*$")
_CODE_MARKS: Final = frozenset("{}|\\")
_MAYBE_CODE: Final = frozenset("(=<;")
_CODE_OPENS: Final = (
    *("#", "//", "const ", "let ", "var ", "git ", "npm ", "pip ", "def ", "import ", "from "),
    *("return ", "drwx", "-rw", "lrwx"),
)


class Place(NamedTuple):
    """Where a unit stands, and whose words it is made of."""

    at: int
    line: int
    source: Source


class Claim(NamedTuple):
    """A value stated in a unit.

    Attributes:
        new: it is said to be new.
        was: the exact value it is said to replace, or ``""``.
        elliptic: it leaves out what it is about.
        context: dates and times in the unit.
        codes: identifiers in the unit.
        adds: it says that this is one more.
        own: a speaker says it of itself.
        is_so: it is what something is, at or of; not what happened.
    """

    place: Place
    value: Value
    subject: Subject
    new: bool
    was: str = ""
    elliptic: bool = False
    context: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    adds: bool = False
    own: bool = False
    is_so: bool = False


def claims_of(place: Place, text: str, before: str) -> Iterator[Claim]:
    """The values a sentence states as they are; ``before`` is the sentence before it, or ``""``."""
    values = [] if is_listing(text) else values_of(text)
    if not values:
        return
    labels = list(_labels(text))
    numbers = {at for *_, at in labels}
    if listed := _LIST_MARK.match(text):
        numbers.add(listed.start(1))
    told = OPENING.match(text) is not None
    may_be_new = place.source is not Source.ASSISTANT or is_news(text)
    earlier, is_joined = None, False
    for found in values:
        if found.start not in numbers:
            claim = _claim(place, text, found, earlier, values, joined=is_joined)
            if claim and told:
                claim = claim._replace(new=True)
            is_joined = claim is not None and claim.new and not claim.was
            if claim and (may_be_new or not claim.new):
                yield _with_subject(claim, text, values, before, labels)
        earlier = found


def _claim(
    place: Place,
    text: str,
    value: Value,
    earlier: Value | None,
    values: Sequence[Value],
    *,
    joined: bool,
) -> Claim | None:
    """The value as a claim of which the subject is not known yet; None if it is not stated."""
    lead, rest = text[max(0, value.start - NEAR) : value.start], text[value.end :]
    lead = IN_BRACKETS.sub("", lead) if "(" in lead else lead
    if MARKED.match(rest) or (value.kind == "email" and COPIED.search(text)):
        return None
    own = text[max(earlier.end if earlier else 0, value.start - NEAR) : value.start]
    was = replaced_value(earlier, value, text)
    new = is_new(lead, rest, own) or (joined and len(own) <= _JOINED)
    linked = new or bool(LINK.search(lead))
    if value.kind == "count" and not value.counted:
        if not linked and not was:
            return None
        value = _with_noun(value, lead)
    dated = value.kind in DATED and not WAS.search(lead[-16:])
    if not new and not dated and is_unreal(LABEL.sub("", lead, count=1)):
        return None
    others = (other for other in values if other.kind != value.kind)
    real = new or not HYPOTHETICAL.search(lead[-NEAR // 2 :])
    return Claim(
        place=place,
        value=value,
        subject=Subject(),
        new=new,
        was=was,
        context=frozenset(other.exact for other in others if other.kind in DATED),
        codes=frozenset(other.exact for other in values if other.kind == "code"),
        adds=ADDS.search(lead[-NEAR // 2 :]) is not None,
        own=real and OF_ONESELF.search(lead) is not None,
        is_so=real and bool(linked),
    )


def is_listing(text: str) -> bool:
    """Whether a line is of a program, a listing or a screen: what it sets says nothing here."""
    screen = text.startswith("[") and text.endswith("]")
    if screen or text.startswith(_CODE_OPENS) or not _CODE_MARKS.isdisjoint(text):
        return True
    return not _MAYBE_CODE.isdisjoint(text) and _CODE.search(text) is not None


def _with_noun(value: Value, lead: str) -> Value:
    """The number with what it counts: "the number of commits has grown to 165"."""
    of = NUMBER_OF.search(lead)
    nouns = (word.lower() for word in of.groups() if word) if of else ()
    counted = [stem(noun) for noun in nouns if noun not in EMPTY and not noun.endswith("ed")]
    return value._replace(counted=frozenset(counted))


def _with_subject(
    claim: Claim,
    text: str,
    values: Sequence[Value],
    before: str,
    labels: Sequence[tuple[str, str, int]],
) -> Claim:
    """The claim with what it is about; if it leaves that out, it is what was spoken of before."""
    value = claim.value
    subject = subject_of(around(text, value, values), value.start, value.end, value.counted)
    elliptic = not subject.roots
    if elliptic and before:
        said = words_of(before, len(before) - _FAR, len(before))
        subject = subject_of(said, len(before), len(before))
    subject.contrasts.update((label, number) for label, number, _ in labels)
    return claim._replace(subject=subject, elliptic=elliptic)


def around(text: str, value: Value, values: Sequence[Value]) -> list[Token]:
    """The words around a value that are in none, without the label that the text opens with."""
    first = _first(text, value)
    words = words_of(text, max(first, value.start - _FAR), value.end + NEAR)
    return [
        word._replace(text=word.text.lower()) if _opens(text, word, first) else word
        for word in words
        if not any(other.start < word.end and word.start < other.end for other in values)
    ]


def _first(text: str, value: Value) -> int:
    """Where a sentence begins behind a label: that is what it is of if nothing else says so."""
    label = LABEL.match(text)
    if label is None or label.end() > value.start:
        return 0
    said = text[label.end() : value.start].lower().split()
    return label.end() if sum(word not in EMPTY for word in said) >= _SAID else 0


def _opens(text: str, word: Token, first: int) -> bool:
    """Whether a word opens a sentence: then its capital does not make it a name."""
    if word.text.isupper() and len(word.text) > 1:
        return False
    return word.start == first or text[max(0, word.start - 2) : word.start] in _SENTENCE_ENDS


def _labels(text: str) -> Iterator[tuple[str, str, int]]:
    """Numbers and letters that only tell things of one sort apart, "Sprint 1", and their places."""
    for match in LABELLED.finditer(text):
        label = text[: match.start()].rpartition(" ")[2].lower().lstrip("(\"'*")
        if label.removesuffix("s") in LABELS or label in LABELS:
            yield label.removesuffix("s"), match[1], match.start(1)
