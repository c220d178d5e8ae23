"""What has the shape of an identifier, a path, an amount, a date or a name. Pure and linear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from turnmill_worker.old_reading.words import CAPS, CODE, kind_of

__all__ = ["KINDS", "Kind", "values_in"]

Kind = Literal["id", "email", "path", "url", "command", "number", "money", "date", "error", "name"]
KINDS: Final[tuple[Kind, ...]] = (
    *("id", "email", "path", "url", "command"),
    *("number", "money", "date", "error", "name"),
)

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_UNIT: Final = (
    r"(?:%|°[CF]|(?:ns|µs|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?"
    r"|years?|[kKMGT]i?B|[kMG]bps|bytes|tokens|[kKmcμ]?[mgl]|lbs?|oz|miles?|mi|ft|feet|inch(?:es)?"
    r"|[kMG]?Hz|[kM]?W|rpm|px|x|times|people|guests|nights|bags|items|rows|lines|requests"
    r"|[Pp]ercent|points?)\b)"
)
_NUMBER: Final = r"\d[\d,]*(?:\.\d+)?"
# The most specific kind first: the first that fits wins. Kinds that cannot fit, for want of a
# character they begin or end with, are left out: trying all at every character takes far longer.
_LOCATIONS: Final = (
    r"(?P<url>\b(?:https?|ftp|file|s3|redis|postgres(?:ql)?)://[^\s\"'<>)\]},;`]+)"
    r"|(?P<email>\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<path>(?<![\w/])(?:~/|\.{1,2}/|/)?(?:[\w.+-]+/){1,32}[\w.+-]*\w"
    r"|(?<![\w/])~?/[\w.+-]+|\b[A-Z]:\\[^\s\"'<>|]+"
    r"|\b[\w-]+\.(?:py|pyi|js|ts|tsx|jsx|json|ya?ml|toml|md|rst|txt|cfg|ini|sh|sql|c|h|cc|cpp|hpp"
    r"|go|rs|java|rb|php|html|css|csv|log|lock|xml|env|ipynb|png|jpe?g|pdf|zip|gz|service|conf)\b)"
)
_TIMES: Final = (
    r"(?P<money>[$€£¥]\s?\d[\d,]*(?:\.\d+)?[kKMB]?\b"
    r"|\b\d[\d,]*(?:\.\d+)?\s?(?:USD|EUR|GBP|CHF|JPY|dollars?|euros?|cents)\b)"
    rf"|(?P<date>\b\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    rf"|\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b"
    rf"|\b\d{{1,2}} {_MONTH}\.?(?:,? \d{{4}})?\b"
    rf"|\b{_MONTH} \d{{4}}\b|\b\d{{1,2}}/\d{{1,2}}/\d{{2,4}}\b"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\b)?|\b\d{1,2}\s?[ap]m\b)"
)
_NAMES: Final = r"(?P<name>“[^”]{2,60}”|\"[^\"]{2,60}\"|`[^`]{2,60}`|(?<![\w])'[^']{2,60}'(?!\w))"
_AMOUNTS: Final = (
    r"(?P<phone>\+\d[\d ().-]{6,18}\d|\(\d{3}\) ?\d{3}-\d{4}|\b\d{3}-\d{3}-\d{4}\b)"
    rf"|(?P<number>(?<![\w.,-])-?{_NUMBER}(?:\s?[-–—]\s?{_NUMBER})?\s?{_UNIT}"
    r"|(?<![\w.#-])\d+\.\d+(?![\w.]))"
)
_OTHERS: Final = r"(?P<token>[#@]?\w+(?:[-_.:]\w+)*)"
_LOCATING = frozenset("@/\\")
# A text that is one token: nothing else fits where it begins, and nothing is left behind it.
_SINGLE = re.compile(r"[0-9]+|[#@]?[A-Za-z_]\w*(?:[-:]\w+)*")
# Whatever has none of these holds no value: most sentences.
_MAY_HOLD = re.compile(r"[0-9@/\\_#`\"]|(?<!\w)'|[a-z][A-Z]|[A-Z][-.:]?[A-Z]|\.[a-z]")
_DOTTED = re.compile(r"\.[a-z]")
_DIGITS = frozenset("0123456789")
_QUOTES = frozenset('“"`')
_OPENING_QUOTE = re.compile(r"(?<!\w)'")


def _value_in(text: str) -> re.Pattern[str] | None:
    """The pattern that finds the values of this text; None where there is none."""
    if text.isascii() and not _MAY_HOLD.search(text):
        return None
    held = frozenset(text)
    finder = _values(
        locations=not held.isdisjoint(_LOCATING) or ("." in held and bool(_DOTTED.search(text))),
        # Other scripts have digits, too.
        amounts=not held.isdisjoint(_DIGITS) or not text.isascii(),
        names=not held.isdisjoint(_QUOTES) or ("'" in held and bool(_OPENING_QUOTE.search(text))),
    )
    only_words = finder is _ONLY_TOKENS and not any(map(_is_identifier, finder.findall(text)))
    return None if only_words else finder


@cache
def _values(*, locations: bool, amounts: bool, names: bool) -> re.Pattern[str]:
    parts = (
        (_LOCATIONS, locations),
        (_TIMES, amounts),
        (_NAMES, names),
        (_AMOUNTS, amounts),
        (_OTHERS, True),
    )
    return re.compile("|".join(part for part, may in parts if may))


_ONLY_TOKENS: Final = _values(locations=False, amounts=False, names=False)
_MARKS: Final = frozenset("_@#")
_NO_JOINTS: Final = str.maketrans("", "", "/-")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z]+[A-Z]\w*|(?:[A-Z][a-z0-9]+){2,}")
_MOST_NAME_WORDS: Final = 6


def values_in(text: str) -> list[tuple[Kind, str, int]]:
    """The values in a text with their kind and place, left to right."""
    if _SINGLE.fullmatch(text):
        return [("id", text, 0)] if _is_identifier(text) else []
    found: list[tuple[Kind, str, int]] = []
    finder = _value_in(text)
    if finder is None:
        return found
    for match in finder.finditer(text):
        group, value, at = str(match.lastgroup), match[0], match.start()
        if group == "token":
            if _is_identifier(value):
                found.append(("id", value, at))
        elif group == "name":
            inner = value[1:-1]
            if not inner[0].isspace() and len(inner.split()) <= _MOST_NAME_WORDS:
                found.append(("name", inner, at + 1))
        elif group in {"url", "path"}:
            found.extend(_located(group, value.rstrip(".,:;!?"), at))
        else:
            found.append(("id" if group == "phone" else group, value, at))  # type: ignore[arg-type]
    return found


def _located(group: str, value: str, at: int) -> Iterator[tuple[Kind, str, int]]:
    """A URL or a path; a fraction is a number, and "and/or" is neither."""
    bare = value.translate(_NO_JOINTS)
    if bare.isdigit():
        yield "number", value, at
    elif group == "url":
        yield "url", value, at
    elif not bare.isalpha() or value[0] in "/~.":
        yield "path", value, at


def _is_identifier(token: str) -> bool:
    if token.isalpha() and (token.islower() or token.istitle()):
        return False
    kind = kind_of(token)
    if kind == CAPS or _CAMEL.fullmatch(token):
        return True
    if kind != CODE or _ORDINAL.fullmatch(token):
        return False
    # Abbreviations and domains of prose ("e.g", "U.S") have dots and neither digit nor underscore.
    return len(token) > 1 and (any(map(str.isdigit, token)) or not _MARKS.isdisjoint(token))
