"""Words, names and identifiers in a text: what kind each token is, and its root."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from turnmill_worker.summarizers.extractive.lexicon import NUMBER_WORDS, STOP

WORD: Final = "word"
PAIR: Final = "pair"
NAME: Final = "name"
CODE: Final = "code"
NUMBER: Final = "number"
CAPS: Final = "caps"
IDENTIFIERS: Final = frozenset({CODE, NUMBER, CAPS})

Concept = tuple[str, str]

_LONGEST_ACRONYM: Final = 5
"""Capitals go on longer only where somebody is shouting."""

_DIGITS_OF_A_CODE: Final = 5
"""A bare number of this many characters is an identifier; a shorter one is an amount."""

# Linear: the separators and \w share no character, so no run can be read in two ways.
_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%-]\w+)*%?")
_PART = re.compile(r"[^\W_]+")
_ENDS: Final = frozenset(".!?:")
# Scripts written without spaces: there, two neighbouring characters serve as a word.
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


class Reader:
    """Reads texts of one conversation; remembers tokens, since conversations repeat them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str, tuple[str, ...]]] = {}

    def read(self, text: str, *, prose: bool) -> Iterator[Concept]:
        """The `(kind, value)` concepts of `text`. Only prose tells names by their capital."""
        known = self._known
        before = ""
        opens = True
        for match in _TOKEN.finditer(text):
            token = match[0]
            found = known.get(token)
            if found is None:
                found = known[token] = _analyse(token)
            kind, value, roots = found
            if kind in IDENTIFIERS:
                yield (kind, value)
                before = ""
            else:
                if kind == NAME and prose and not opens:
                    yield (NAME, value)
                for root in roots:
                    yield (WORD, root)
                    if before:
                        yield (PAIR, f"{before} {root}")
                    before = root
            opens = text[match.end() : match.end() + 1] in _ENDS


def _analyse(token: str) -> tuple[str, str, tuple[str, ...]]:
    """A token's kind, the value that identifies it, and the roots of its words."""
    low = token.lower()
    if _UNSPACED.match(token):
        pairs = (low[at : at + 2] for at in range(max(1, len(low) - 1)))
        return WORD, low, tuple(dict.fromkeys(pairs))
    kind = kind_of(token)
    if kind in IDENTIFIERS:
        return kind, low.lstrip("$€£").rstrip("%"), ()
    if low in STOP:
        return WORD, low, ()
    parts = (low,) if low.isalpha() else _PART.findall(low)
    roots = tuple(NUMBER_WORDS.get(part) or stem(part) for part in parts if part not in STOP)
    return kind, low, roots


def kind_of(token: str) -> str:
    """What sort of thing a token is: an identifier, a name or a plain word."""
    if token.isdigit() and len(token) == 1:
        return WORD
    if any(character.isdigit() for character in token):
        letters = any(character.isalpha() for character in token)
        return CODE if letters or len(token) >= _DIGITS_OF_A_CODE else NUMBER
    if "_" in token or "@" in token[1:] or "/" in token or "." in token:
        return CODE
    if token.isupper() and 1 < len(token) <= _LONGEST_ACRONYM and token.lower() not in STOP:
        return CAPS
    return NAME if token[:1].isupper() else WORD


_SUFFIXES: Final = ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_SHORTEST_ROOT: Final = 3


def stem(word: str) -> str:
    """The word without its commonest English endings; rough, and only compared with itself."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_ROOT:
            root = word[: -len(suffix)]
            return f"{root}y" if suffix in {"ies", "ied"} else root.removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_ROOT else word
