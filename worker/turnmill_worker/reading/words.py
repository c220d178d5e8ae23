"""Words and values of a text as 32-bit numbers: what is compared, counted, weighed and searched.

A number is the hash of a stem or a value; its last three bits say of which kind it is. No table has
to be kept beside a conversation, and two conversations agree on every number.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import Final
from zlib import crc32

WORD, NAME, CODE, NUMBER, CAPS, VALUE, KEY, PLAIN = range(8)
"""A stem, a capitalised word, an identifier, an amount, an acronym, a short phrase that is a whole
value of a field, a field's key, and a word so common that it says nothing."""

KIND: Final = 7
IDENTIFIERS: Final = frozenset({CODE, NUMBER, CAPS})

_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%-]\w+)*%?")
_CAMEL = re.compile(r"[a-z]{2}[A-Z][a-z]")
_PART = re.compile(r"[^\W_]+")
_NO_SPACES: Final = "\u0e00-\u0eff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
UNSPACED = re.compile(f"[{_NO_SPACES}]")
_MIXED_TOKEN = re.compile(
    rf"[{_NO_SPACES}]+|[#$€£@/~]?(?:(?![{_NO_SPACES}])\w)+"
    rf"(?:[.,:/@+'’&%-](?:(?![{_NO_SPACES}])\w)+)*%?"
)
"""Where no spaces part words, identifiers and amounts stand right beside them."""
_LONGEST: Final = 40
_MOST: Final = 1 << 16
_DIGITS_OF_A_CODE: Final = 5
_ACRONYM: Final = 5


def number(kind: int, value: str) -> int:
    """The number of a value of a kind."""
    return crc32(value.encode()) & ~KIND | kind


def kind_of(token: str) -> int:
    """What a token is, by its characters."""
    if not token.isalpha():
        if any(map(str.isdigit, token)):
            if token.isdigit() and len(token) == 1:
                return WORD
            coded = any(map(str.isalpha, token)) or len(token) >= _DIGITS_OF_A_CODE
            return CODE if coded else NUMBER
        if any(mark in token[1:] for mark in "_@/."):
            return CODE
    if token.isupper() and 1 < len(token) <= _ACRONYM:
        return CAPS
    if _CAMEL.search(token):
        return CODE
    return NAME if token[:1].isupper() else WORD


@lru_cache(maxsize=1)
def common() -> dict[int, int]:
    """How common the commonest stems are: eight steps for each halving, learned from messages."""
    table = memoryview(files("turnmill_worker.reading").joinpath("weights/common.bin").read_bytes())
    size = len(table) // 5
    return dict(zip(table[: 4 * size].cast("I"), table[4 * size :], strict=True))


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    import Stemmer  # noqa: PLC0415 - commands that read nothing run without it

    stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord
    return stem


@lru_cache(maxsize=1 << 15)
def _word(low: str) -> int:
    root = number(WORD, _stemmer()(low))
    return root | PLAIN if common().get(root, 0) >= PLAIN_FROM else root


class _Known(dict[str, tuple[int, ...]]):
    """Tokens as they are written, each analysed when it is met first."""

    def __init__(self) -> None:
        super().__init__()

    def __missing__(self, token: str) -> tuple[int, ...]:
        found = self._analysed(token)
        if len(token) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()
            self[token] = found
        return found

    def _analysed(self, token: str) -> tuple[int, ...]:
        low = token.lower().removesuffix("'s").removesuffix("’s")
        if UNSPACED.match(token):
            pairs = (low[at : at + 2] for at in range(max(1, len(low) - 1)))
            return tuple(dict.fromkeys(number(WORD, pair) for pair in pairs))
        kind = kind_of(token)
        if kind in IDENTIFIERS:
            plain = low.strip("#$€£@/~%") if kind == CODE else low.strip("$€£%").replace(",", "")
            return (number(kind, plain or low),)
        words = [self.word(part) for part in _PART.findall(low)]
        if kind == NAME and words and words[0] & KIND == WORD:
            words.append(number(NAME, low))
        return tuple(dict.fromkeys(words))

    def word(self, low: str) -> int:
        """The number of a word's stem; of the kind ``PLAIN`` if everybody says it all the time."""
        return _word(low)


PLAIN_FROM: Final = 34
"""A stem in one of so many messages says nothing: about one in eighty."""
KNOWN: Final = _Known()


def concepts(text: str, *, prose: bool) -> tuple[int, ...]:
    """What a text says, each once; only prose tells names by capitals, and not by its first."""
    tokens = (_TOKEN if text.isascii() or not UNSPACED.search(text) else _MIXED_TOKEN).findall(text)
    found = dict.fromkeys(chain.from_iterable(map(KNOWN.__getitem__, tokens)))
    if prose and tokens:
        first = KNOWN[tokens[0]]
        if first and first[-1] & KIND == NAME:
            found.pop(first[-1], None)
        return tuple(found)
    return tuple([each for each in found if each & KIND != NAME])


def in_context(ids: tuple[int, ...]) -> tuple[int, ...]:
    """Without amounts where nothing says of what they are: ``step 7``, the number of a line."""
    others = [each for each in ids if each & KIND not in _SAYS_NOTHING and each not in _DIGITS]
    if len(others) >= _CONTEXT:
        return ids
    return tuple([each for each in ids if each & KIND != NUMBER and each not in _DIGITS])


_SAYS_NOTHING: Final = frozenset({NUMBER, PLAIN})
_DIGITS: Final = frozenset(number(WORD, str(digit)) for digit in range(10))
_CONTEXT: Final = 2
_PHRASE: Final = 60


def field_concepts(key: str, value: str) -> tuple[int, ...]:
    """What a field says: its key, its whole value if that is a phrase, and what is in it."""
    own = [number(KEY, key)]
    if " " in value and len(value) <= _PHRASE:
        own.append(number(VALUE, value.lower()))
    return (*own, *concepts(value, prose=False))


class Packing:
    """Writes the numbers of many values behind each other: four bytes each, as one text."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def put(self, ids: Iterable[int]) -> int:
        """Adds the numbers of a value; how many they are, which is kept in their place."""
        before = len(self._numbers)
        self._numbers += ids
        return len(self._numbers) - before

    def text(self) -> str:
        """All of them."""
        return b64encode(struct.pack(f"<{len(self._numbers)}I", *self._numbers)).decode()


class Packed:
    """Reads them again, in the same order."""

    def __init__(self, text: str) -> None:
        held = b64decode(text, validate=True)
        self._numbers = struct.unpack(f"<{len(held) // 4}I", held)
        self._at = 0

    def take(self, many: int) -> tuple[int, ...]:
        """The numbers of the next value."""
        self._at += many
        if not 0 <= many <= self._at <= len(self._numbers):
            raise ValueError(many)
        return self._numbers[self._at - many : self._at]

    def rest(self) -> tuple[int, ...]:
        """All that are left."""
        return self._numbers[self._at :]


def packed(ids: Iterable[int]) -> str:
    """Numbers as one text."""
    packing = Packing()
    packing.put(ids)
    return packing.text()
