"""Words, names and identifiers in a text: what kind each token is, and its root."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Final, NamedTuple

from turnmill.rules.wording.english import STOP, stem
from turnmill_worker.old_reading.lexicon import NUMBER_WORDS

WORD: Final = "word"
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
_ENDED = re.compile(rf"({_TOKEN.pattern})(?=([.!?:]?))")
_PART = re.compile(r"[^\W_]+")
_ID_KEY = re.compile(r"(?:^|[^A-Za-z])(?:id|ID)$|[a-z]I[dD]$")
# Scripts written without spaces: there, two neighbouring characters serve as a word.
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


_LONGEST_WORD: Final = 24
_MOST_TOKENS: Final = 1 << 15
"""Words, names and identifiers that are remembered: conversations share and repeat them."""


class Token(NamedTuple):
    """What one token says.

    Attributes:
        concepts: its identifier, or its words.
        bare: the same, without the mark some write before an identifier.
        name: what it is called by, if its capital says it is a name.
    """

    concepts: tuple[Concept, ...]
    bare: tuple[Concept, ...]
    name: Concept | None = None


def tokens_of(text: str) -> list[tuple[Token, str]]:
    """The tokens of `text`, each with the mark behind it that ends a sentence, or ``""``."""
    return [(_TOKENS[token], end) for token, end in _ENDED.findall(text)]


def bare_tokens(text: str) -> list[Token]:
    """The tokens of `text`."""
    return [_TOKENS[token] for token in _TOKEN.findall(text)]


def concepts_of(text: str, *, prose: bool) -> tuple[Concept, ...]:
    """The `(kind, value)` concepts of `text`, each once; only prose tells names by capitals."""
    found: list[Concept] = []
    opens = True
    for token, ended in tokens_of(text):
        if token.name is not None and prose and not opens:
            found.append(token.name)
        found += token.concepts
        opens = bool(ended)
    return tuple(dict.fromkeys(found))


class _Tokens(dict[str, Token]):
    """Tokens as they are written, each analysed when it is met first."""

    def __missing__(self, token: str) -> Token:
        found = _analyse(token)
        if len(token) <= _LONGEST_WORD:
            if len(self) >= _MOST_TOKENS:
                self.clear()
            self[token] = found
        return found


_TOKENS: Final = _Tokens()


def numbered(met: Iterable[Iterable[Concept]]) -> dict[Concept, int]:
    """Numbers for concepts, in the order they are met."""
    known = dict.fromkeys(chain.from_iterable(met))
    return dict(zip(known, range(len(known)), strict=True))


def _analyse(token: str) -> Token:
    low = token.lower()
    if _UNSPACED.match(token):
        pairs = (low[at : at + 2] for at in range(max(1, len(low) - 1)))
        return _words(dict.fromkeys(pairs))
    kind = kind_of(token)
    if kind in IDENTIFIERS:
        value = low.lstrip("$€£").rstrip("%")
        bare = value.lstrip("#@/~") if kind == CODE else value
        return Token(((kind, value),), ((kind, bare),))
    if low in STOP:
        return _words(())
    parts = (low,) if low.isalpha() else _PART.findall(low)
    roots = [NUMBER_WORDS.get(part) or stem(part) for part in parts if part not in STOP]
    return _words(roots, (NAME, low) if kind == NAME else None)


def identifies(key: str, value: str) -> bool:
    """Whether a field says which thing its object is: ``order_id=SDZQKO``, but not ``paid=yes``."""
    is_code = kind_of(value) == CODE
    if _ID_KEY.search(key):
        return is_code or (bool(value) and " " not in value)
    return is_code and key.endswith("id")


def _words(roots: Iterable[str], name: Concept | None = None) -> Token:
    concepts = tuple(zip(repeat(WORD), roots, strict=False))
    return Token(concepts, concepts, name)


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
