"""Values of one type that can replace each other: amounts, dates, times, counts, codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from turnmill.rules.wording.english import STOP, stem
from turnmill_worker.old_reading.any_case import AnyCase
from turnmill_worker.old_reading.lexicon import NUMBER_WORDS

__all__ = ["SPELLED", "Token", "Value", "has_signs", "values_of", "words_of"]


class Value(NamedTuple):
    """A value as it was written.

    Attributes:
        kind: only values of one kind replace each other.
        exact: the same for two ways to write the same value.
        counted: the roots of what is counted.
    """

    kind: str
    exact: str
    text: str
    start: int
    end: int
    counted: frozenset[str] = frozenset()


class Token(NamedTuple):
    """A word with its place."""

    text: str
    start: int
    end: int


_MONTHS: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
    r"|januar|februar|märz|mai|juni|juli|oktober|dezember)"
)
_DAYS: Final = (
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch"
    "|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    "|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
)
_UNITS: Final = {
    unit: kind
    for kind, units in {
        "duration": "ns µs ms s sec secs second seconds min mins minute minutes h hr hrs hour "
        "hours day days week weeks month months year years night nights stunden tage wochen jahre "
        "heures jours horas días",
        "weight": "mg g kg lb lbs oz pounds",
        "length": "mm cm m km mi miles mile ft feet inches meters metres kilometers",
        "data": "b kb mb gb tb kib mib gib bytes",
        "speed": "mbps gbps kbps rpm mph km/h",
        "volume": "ml l liters litres cups",
        "power": "w kw hz khz mhz ghz",
        "screen": "px rem em pt",
    }.items()
    for unit in units.split()
}
_NUMBER: Final = r"\d{1,15}(?:,\d{3})*(?:\.\d{1,9}|,\d{1,2}(?!\d))?"
_COUNTED: Final = "|".join(word for word in NUMBER_WORDS if word not in {"zero", "one"})
_SPELLED_NUMBER: Final = f"{_COUNTED}|an?|hundred|thousand|million"
_VALUE: Final = AnyCase(
    rf"(?P<date>\b\d{{4}}-\d\d-\d\d\b|\b{_MONTHS}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTHS}\b(?:,? \d{{4}}\b)?"
    r"|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b)"
    r"|(?P<time>\b\d{1,2}:\d\d(?: ?[ap]\.?m\b)?|\b\d{1,2} ?[ap]\.?m\b)"
    rf"|(?P<money>[$€£¥] ?{_NUMBER}[km]?\b"
    rf"|\b{_NUMBER} ?(?:usd|eur|gbp|dollars?|euros?|€|bucks)(?!\w)"
    rf"|\b(?:(?:{_SPELLED_NUMBER})[ -]){{1,4}}(?:usd|eur|gbp|dollars?|euros?|€|bucks)(?!\w))"
    rf"|(?P<share>\b{_NUMBER} ?(?:%|percent\b|prozent\b))"
    rf"|(?P<degree>\b{_NUMBER} ?(?:°[cf]?|degrees?\b))"
    rf"|(?P<phone>\+\d[\d ().-]{{6,18}}\d|\b\d{{3}}-\d{{3}}-\d{{4}}\b)"
    rf"|(?P<email>\b[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}}){{1,4}})"
    rf"|(?P<version>\bv?\d{{1,5}}(?:\.\d{{1,5}}){{2,4}}\b|\bv\d{{1,5}}(?:\.\d{{1,5}})?\b)"
    rf"|(?P<weekday>\b(?:{_DAYS})s?\b)"
    rf"|(?P<count>(?<![\w.#@/-]){_NUMBER}(?!(?:st|nd|rd|th)\b)(?![\w.]*[\w-]*\d)|\b(?:{_COUNTED})\b)"
    r"|(?P<branch>(?<![\w/.:@-])[a-z][\w-]{0,24}(?:/[a-z][\w-]{1,40}){1,2}(?![\w/.]*\w))"
    r"|(?P<code>(?<![\w/])#?(?=[\w-]{0,24}\d)[a-z][\w-]{1,24}\b|#\w{2,24})"
)
_SIGN_ANCHOR: Final = re.compile(r"(?<!\S)[^\s\d@]*[\d@]\S*")
_ANCHOR: Final = AnyCase(rf"(?<!\S)\S*?[\d@]\S*|\b(?:{_DAYS}|{_COUNTED})s?\b")
SPELLED: Final = frozenset(word[:4] for word in [*_DAYS.split("|"), *_COUNTED.split("|")])
"""How words begin that are values without a digit."""

_QUOTED: Final = frozenset("([\"'“*")
_OPENING: Final = re.compile(r"(?<!\w)[\w$€£¥#+(]")
_MONTH_STARTS: Final = frozenset(
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
) | {"mär", "mai", "okt", "dez"}
_LISTED: Final = 3
"""So many values of one kind are a list, and none of them is the value of something."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NOUN: Final = r"[^\W\d_]+(?:-[^\W\d_]+)*"
_BEHIND: Final = re.compile(rf"[ -]?(?:/ ?)?({_NOUN}(?:/h)?)(?: ({_NOUN}))?(?: ({_NOUN}))?")
_SIGNS: Final = frozenset("0123456789@")
_MOST: Final = 12
"""Values of a unit that are looked at; a table has more, and states no news."""


def has_signs(text: str) -> bool:
    """Whether a number or an address may stand in a text; cheaper still."""
    return not _SIGNS.isdisjoint(text)


def _has_spelled(text: str) -> bool:
    return not SPELLED.isdisjoint([word[:4] for word in text.lower().split()])


def values_of(text: str) -> list[Value]:
    """The values of a text, left to right."""
    values: list[Value] = []
    value_at = _VALUE.matcher(text)
    for anchor in (_ANCHOR if _has_spelled(text) else _SIGN_ANCHOR).finditer(text):
        for start in _starts(text, *anchor.span()):
            if values and start < values[-1].end:
                continue
            match = value_at(start)
            # Paths, choices and things to deploy are written alike.
            if match and (match.lastgroup != "branch" or _OF_BRANCHES.search(text)):
                values.append(_read(match, text))
        if len(values) >= _MOST:
            break
    kinds = Counter((value.kind, value.counted) for value in values)
    return [value for value in values if kinds[value.kind, value.counted] < _LISTED]


_OF_BRANCHES: Final = AnyCase(r"\b(?:branch|rebase|merge|checkout|check out)")


def _starts(text: str, start: int, end: int) -> Iterator[int]:
    """Where a value may begin in a token: a month stands before its day."""
    before = text.rfind(" ", 0, max(start - 1, 0)) + 1
    before += text[before : before + 1] in _QUOTED
    if text[before : before + 3].lower() in _MONTH_STARTS:
        yield before
    for opening in _OPENING.finditer(text, start, end):
        yield opening.start()


def words_of(text: str, start: int, end: int) -> list[Token]:
    """The words around a place, from ``start`` to ``end``."""
    start = text.rfind(" ", 0, start) + 1 if start > 0 else 0
    end = text.rfind(" ", start, end) if end < len(text) else end
    return [Token(word[0], word.start(), word.end()) for word in _WORD.finditer(text, start, end)]


def _read(match: re.Match[str], text: str) -> Value:
    kind, written = str(match.lastgroup), text[match.start() : match.end()]
    exact = " ".join(written.lower().replace(",", "").split())
    if kind in {"money", "share"}:
        digits = re.search(r"[\d.]+k?", exact)
        exact = digits[0].removesuffix(".00") if digits else exact
    elif kind == "time":
        exact = exact.replace(":00", "").replace(" ", "").replace(".", "")
    elif kind == "date":
        exact = re.sub(r"(?<=\d)(?:st|nd|rd|th)| of|\.| \d{4}$", "", exact)
    elif kind == "weekday":
        exact = exact.removesuffix("s") if exact.endswith("days") else exact
    elif kind == "branch":
        return Value(kind, exact, written, match.start(), match.end(), frozenset((kind,)))
    elif kind == "count":
        return _counted(match, text, NUMBER_WORDS.get(exact, exact))
    return Value(kind, exact, written, match.start(), match.end())


def _counted(match: re.Match[str], text: str, exact: str) -> Value:
    behind = _BEHIND.match(text, match.end())
    words = [word.lower() for word in behind.groups() if word] if behind else []
    start, end = match.span()
    if words and behind and words[0] in _UNITS:
        end = behind.end(1)
        return Value(_UNITS[words[0]], f"{exact} {stem(words[0])}", text[start:end], start, end)
    if "." in exact:
        return Value("version", exact, text[start:end], start, end)
    nouns: list[str] = []
    for word in words if not text[end : end + 1].isalnum() else ():
        if word in STOP or word == "per":
            break
        if not (nouns and word.endswith(("ed", "ing"))):
            nouns.append(stem(word))
    end = behind.end(1) if nouns and behind else end
    return Value("count", exact, text[start:end], start, end, frozenset(nouns))
