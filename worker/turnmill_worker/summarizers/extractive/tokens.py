"""Words, names and identifiers in a text: what kind each token is, and its root."""

from __future__ import annotations

import re
from functools import lru_cache
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


_Token = tuple[Concept | None, Concept | None, tuple[Concept, ...]]
"""One token's identifier, or its name if its capital says it is one, and its words."""

_LONGEST_WORD: Final = 24


class Reader:
    """Reads texts of one conversation; remembers tokens, since conversations repeat them."""

    def __init__(self) -> None:
        self._known: dict[str, _Token] = {}
        self._fields: dict[str, dict[Concept, None]] = {}

    def read(self, text: str, *, prose: bool, pairs: bool = True) -> list[Concept]:
        """The `(kind, value)` concepts of `text`. Only prose tells names by their capital."""
        known = self._known
        found: list[Concept] = []
        before = ""
        end = -1
        for match in _TOKEN.finditer(text):
            token = match[0]
            read = known.get(token)
            if read is None:
                read = known[token] = _read(token)
            identifier, name, words = read
            if identifier is not None:
                found.append(identifier)
                before = ""
            else:
                # A sentence's first word has a capital whatever it is.
                if name is not None and prose and end >= 0 and text[end : end + 1] not in _ENDS:
                    found.append(name)
                for word in words:
                    found.append(word)
                    if pairs:
                        root = word[1]
                        if before:
                            found.append((PAIR, f"{before} {root}"))
                        before = root
            end = match.end()
        return found

    def fields(self, text: str) -> dict[Concept, None]:
        """The words and identifiers of a field's name, each once; remembered."""
        found = self._fields.get(text)
        if found is None:
            found = self._fields[text] = dict.fromkeys(self.read(text, prose=False, pairs=False))
        return found


def _read(token: str) -> _Token:
    return _word(token) if len(token) <= _LONGEST_WORD and token.isalpha() else _analyse(token)


def _analyse(token: str) -> _Token:
    low = token.lower()
    if _UNSPACED.match(token):
        pairs = (low[at : at + 2] for at in range(max(1, len(low) - 1)))
        return None, None, tuple((WORD, pair) for pair in dict.fromkeys(pairs))
    kind = kind_of(token)
    if kind in IDENTIFIERS:
        return (kind, low.lstrip("$€£").rstrip("%")), None, ()
    if low in STOP:
        return None, None, ()
    parts = (low,) if low.isalpha() else _PART.findall(low)
    roots = (NUMBER_WORDS.get(part) or stem(part) for part in parts if part not in STOP)
    name = (NAME, low) if kind == NAME else None
    return None, name, tuple((WORD, root) for root in roots)


# Plain words only: those are what conversations share, and identifiers are forgotten at once.
_word = lru_cache(maxsize=1 << 14)(_analyse)


def kind_of(token: str) -> str:
    """What sort of thing a token is: an identifier, a name or a plain word."""
    if not token.isalpha():
        if token.isdigit() and len(token) == 1:
            return WORD
        if any(map(str.isdigit, token)):
            letters = any(map(str.isalpha, token))
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
