"""Cheap token estimates a producer can afford at every push; the worker counts exactly.

`estimate_tokens` is the specification's: near on prose, but not a bound (40 % short on JSON).
A read goes by `bound_tokens` and `bound_turn` to stay under a hard limit: they are above
the exact count of ordinary text, at a few microseconds per kilobyte, without a vocabulary.

How the bound works. A byte-pair tokenizer ends a token where two neighbours rarely stand together:
between a letter and a digit always, between `t` and `h` hardly ever. So every pair of neighbouring
bytes is given a cost, the expected share of a token that ends there, and the costs are added. To be
cheap, bytes fall into the 16 classes of `_CLASSES` and the costs are a 16 x 16 table, `_COSTS`; a
character beyond ASCII costs what its first byte says, `_LEADS`, besides. To be fast, all of it is
done by C code over whole strings: `bytes.translate` classifies, multiplying the bytes as one large
number by 4097 sets each class beside its neighbour's, `translate` looks the pair up, and the low
half of `zlib.adler32` is the sum.

How the numbers were fitted (`tests/benchmarks/fit_token_bound.py`, which also checks them): by
linear programming over real conversations, source files and hostile text of some 400 kinds
(alphabets, encodings, scripts, separators, syllables, languages), with the larger of the
o200k_base and cl100k_base counts: minimise the mean over-estimate of real messages, subject to
1.08 times the exact count of everything, less the constant `_SLACK`. No pair may cost more than
1.5 tokens and no character more than 4 besides; a pair or character never seen costs that, and a
pair of ASCII characters at least 0.08 (beside a space or a quote, nothing). The classes came from
a local search with the same objective. Costs are rounded up to 1/80 and 1/30 of a token.

What is added to the fit. On texts unlike those it was fitted to (each data set left out in turn,
fresh hostile text) one in 2,000 needed up to 18 % more, so it counts 1.2 fold. And a word said over
and over may consist of pairs that hardly ever end a token, so the bound is at least one token for
each space, sign and control character, one for three digits, and 0.3 for each letter: of 6,000
words of real conversations, each repeated fifty times, five need more.

What it promises. No byte-level vocabulary needs more than a token per byte, and the bound is never
above that. Below it, it is a fit and no proof: 2.1 to 2.4 times the exact count of real messages,
above it on all real and nearly all hostile text that was tried. Text contrived against it, like a
rare word repeated without a space, can need more than it says.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol
from zlib import adler32

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS, ImageFormula, part_tokens

ENCODINGS: Final = ("o200k_base", "o200k_harmony", "cl100k_base", "heuristic")
"""Vocabularies by name; ``heuristic`` estimates from characters, for other models."""

FILE: Final = "file:"
"""Before the name of a ``tokenizer.json`` in a folder that the workers' operator chose."""

_FILE: Final = re.compile(r"file:[A-Za-z0-9][A-Za-z0-9._-]*\Z")

_UNNORMALIZED: Final = 3
"""How much longer text becomes at most, in UTF-8, when it is brought into Unicode's form NFC."""


def is_encoding(name: str) -> bool:
    """Whether a policy may name it; a file's name is no path, for tenants write policies."""
    return name in ENCODINGS or bool(_FILE.match(name))


def file_of(encoding: str) -> str:
    """The name of the file, without ``.json``; ``""`` for a vocabulary that turnmill knows."""
    return encoding.removeprefix(FILE) if encoding.startswith(FILE) else ""


def bound_by_bytes(data: bytes) -> int:
    """The most tokens that UTF-8 text has in any file that workers count with, by construction.

    They take tokenizers alone of which each token stands for a byte of the text or more, but for
    one that may be put before it (``turnmill_worker.tokens.tokenizer_files``). In the JSON of a
    message, what stands around the texts has more bytes than the formula adds.
    """
    if data.isascii() or unicodedata.is_normalized("NFC", data.decode("utf-8", "replace")):
        return len(data) + 1
    return _UNNORMALIZED * len(data) + 1


CountText = Callable[[str], int]
"""Tokens of a text."""

CountMessages = Callable[[Sequence[JsonMessage]], int]
"""Tokens of a list of messages, without the reply's opening; additive."""


class Exact(NamedTuple):
    """What counts the messages of a turn as workers will, and by which encoding."""

    encoding: str
    count: CountMessages

    def under(self, encoding: str) -> Exact | None:
        """It, for a policy of this encoding; None for another."""
        return self if encoding == self.encoding else None


class Counter(Protocol):
    """Counts tokens exactly, or says by its basis that it only estimates."""

    @property
    def basis(self) -> str:
        """The vocabulary and the version of the message formula."""

    @property
    def framing(self) -> int:
        """Tokens around each message."""

    def count(self, text: str) -> int:
        """Tokens of the text."""

    def count_messages(self, messages: Sequence[JsonMessage]) -> int:
        """Tokens of the messages, without the reply's opening; additive."""

    def __hash__(self) -> int:
        """Counters are hashable: counts of system prompts are cached by counter."""


class Counters(Protocol):
    """Gives the counter for a vocabulary."""

    def __call__(self, encoding: str, image_formula: str) -> Counter:
        """The counter for this encoding, or the best stand-in; images are priced as named."""


_SLACK: Final = 6
_MARGIN: Final = 1.2
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS: Final = b"0123456789"
_HIGH: Final = bytes(range(128, 256))
_LETTER_TOKENS: Final = 0.3
_RARE_LETTERS: Final = b"jqxzkvwyJQXZKVWY"
_RARER: Final = 0.5  # words made of these alone have a token for each letter or two
_DIGIT_TOKENS: Final = 0.34
_PAIR_UNIT: Final = 80  # costs of pairs are in 1/80 token
_LEAD_UNIT: Final = 30  # costs of first bytes are in 1/30 token
# adler32 sums modulo 65521: no table entry above 127 keeps 512 of them below that.
_SUMMED_AT_ONCE: Final = 512
# Large numbers are fastest while they fit the processor's cache.
_PAIRED_AT_ONCE: Final = 32_768
_IMAGE: Final = b'"image_url"'
# Class 0 is every byte beyond ASCII; the escapes and the rest as they fell out of the search.
_CLASSES: Final = (
    b"",
    b" ",
    b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f,.>|~\x7f",
    b"e",
    b"afoqy",
    b"dt",
    b"nux",
    b"s",
    b"lr",
    b"bcgkmpvw",
    b"hijz",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"0123456789",
    b'"',
    b"&+-:;=_{}",
    b"\r!#$%'()*/<?@[\\]^`",
)
_COSTS: Final = (
    (86, 96, 63, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    (0, 4, 120, 33, 0, 0, 120, 0, 50, 8, 35, 0, 109, 82, 60, 60),
    (0, 62, 86, 120, 120, 120, 120, 114, 120, 116, 120, 7, 120, 0, 120, 31),
    (32, 0, 7, 24, 13, 7, 7, 7, 7, 106, 96, 71, 7, 21, 49, 7),
    (0, 100, 52, 120, 70, 23, 7, 21, 7, 57, 120, 120, 48, 120, 79, 118),
    (0, 0, 7, 7, 36, 86, 110, 7, 32, 120, 7, 120, 120, 0, 40, 7),
    (0, 16, 22, 7, 77, 7, 106, 7, 7, 7, 120, 120, 54, 0, 8, 7),
    (0, 0, 8, 9, 60, 7, 120, 44, 120, 120, 7, 120, 120, 0, 7, 7),
    (0, 0, 7, 7, 7, 18, 120, 7, 105, 7, 7, 120, 120, 120, 7, 112),
    (82, 94, 64, 7, 7, 87, 120, 39, 25, 120, 7, 120, 110, 93, 103, 120),
    (0, 120, 94, 7, 7, 7, 7, 7, 120, 75, 118, 120, 120, 114, 120, 106),
    (0, 87, 120, 7, 7, 61, 31, 120, 7, 120, 7, 61, 32, 70, 104, 52),
    (0, 62, 114, 120, 120, 33, 120, 95, 120, 105, 120, 120, 29, 73, 13, 77),
    (0, 17, 0, 114, 72, 0, 0, 0, 0, 0, 0, 0, 74, 120, 0, 120),
    (0, 0, 76, 7, 74, 25, 120, 59, 120, 7, 24, 120, 83, 0, 120, 7),
    (0, 19, 120, 120, 120, 77, 80, 7, 7, 7, 120, 112, 120, 0, 34, 95),
)
# From 0xC2 on, the first bytes that UTF-8 has.
# fmt: off
_LEADS: Final = (
    0, 1, 0, 0, 0, 4, 15, 0, 0, 0, 42, 67, 0, 0, 0, 0,
    15, 4, 10, 10, 0, 0, 0, 0, 0, 0, 10, 11, 9, 7, 0, 11,
    0, 0, 19, 0, 0, 9, 72, 120, 1, 0, 0, 0, 10, 0, 9, 120,
    120, 4, 120,
)
# fmt: on


def _class_table() -> bytes:
    """Return the class of each byte: its place in `_CLASSES`, and 0 for all beyond ASCII."""
    table = bytearray(256)
    for number, members in enumerate(_CLASSES):
        for byte in members:
            table[byte] = number
    return bytes(table)


_CLASS_OF: Final = _class_table()
# The lookup byte of a pair is (class of the second) * 16 + class of the first.
_PAIR_COST: Final = bytes(_COSTS[pair % 16][pair // 16] for pair in range(256))
_LEAD_COST: Final = bytes(0xC2) + bytes(_LEADS) + bytes([120] * 11)


def estimate_tokens(text: str) -> int:
    """Return ceil(characters/3.5), the estimate of specification 004: near on prose, no bound."""
    return math.ceil(len(text) / 3.5)


def bound_tokens(data: bytes) -> int:
    """Return an upper estimate of the o200k_base and cl100k_base tokens of `data`, UTF-8 text.

    For the body of a turn (`{"messages":[...]}`, as JSON without ASCII escapes or spaces) it
    bounds what the worker counts, reply priming included: quotes and field names pay
    for the framing. Images carried inline are text here: see `bound_turn`.

    Never more than `len(data)`. Takes some 5 microseconds per kilobyte, 3 milliseconds per
    megabyte, half as much again where there is text beyond ASCII; never raises.
    """
    pairs = sum(
        _sum(_pair_costs(data[max(0, start - 1) : start + _PAIRED_AT_ONCE]))
        for start in range(0, len(data), _PAIRED_AT_ONCE)
    )
    bound = _SLACK + pairs / _PAIR_UNIT
    if not data.isascii():
        bound += _sum(data.translate(_LEAD_COST)) / _LEAD_UNIT
    return min(len(data), math.ceil(max(bound * _MARGIN, _floor(data))))


def _floor(data: bytes) -> float:
    """Return what text made of whole words costs at least, whatever its letters are."""
    letters = len(data) - len(data.translate(None, _LETTERS))
    rare = len(data) - len(data.translate(None, _RARE_LETTERS))
    digits = len(data) - len(data.translate(None, _DIGITS))
    others = len(data.translate(None, _LETTERS + _DIGITS + _HIGH))
    return others + digits * _DIGIT_TOKENS + letters * _LETTER_TOKENS + rare * _RARER


def bound_turn(
    body: bytes, formula: ImageFormula = FORMULAS[DEFAULT_FORMULA], encoding: str = ""
) -> int:
    """Return an upper estimate of the tokens of a turn, or of one message, serialized as `body`.

    As `bound_tokens`, but an image costs what `formula` says for its size, as the worker counts
    it, and its URL, inline or not, is not counted as text. A body without images is not parsed.
    Text of an `encoding` that is a file goes by `bound_by_bytes`.
    """
    text, price = without_images(body, formula)
    return (bound_by_bytes(text) if file_of(encoding) else bound_tokens(text)) + price


def without_images(body: bytes, formula: ImageFormula) -> tuple[bytes, int]:
    """Return a turn's body without its images' URLs, and what the images cost.

    Returns the same bytes when they hold no images, or are not a turn.
    """
    if _IMAGE not in body:
        return body, 0
    try:
        turn = decode_json(body)
    except (ValueError, RecursionError):
        return body, 0
    price = sum(_priced(part, formula) for part in _image_parts(turn))
    return encode_json(turn), price


def _image_parts(turn: Any) -> list[dict[str, Any]]:
    """Return the images of a list of messages, of `{"messages": list}`, or of one message."""
    if isinstance(turn, dict):
        turn = turn.get("messages", [turn])
    messages = turn if isinstance(turn, list) else []
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part for part in parts if isinstance(part, dict) and part.get("type") == "image_url"]


def _priced(part: dict[str, Any], formula: ImageFormula) -> int:
    """Return what the image costs, having taken its URL out of `part`."""
    price = part_tokens(part, formula)
    image = part.get("image_url")
    if isinstance(image, dict):
        image.pop("url", None)
    else:
        part["image_url"] = None
    return price


def _pair_costs(data: bytes) -> bytes:
    """Return the cost in 1/80 token of each pair of neighbours, and of both ends with class 0."""
    classes = int.from_bytes(data.translate(_CLASS_OF))
    # x * 4097 = x + (x << 12): each byte's class, four bits, lands above that of the one before.
    return (classes * 4097).to_bytes(len(data) + 1).translate(_PAIR_COST)


def _sum(costs: bytes) -> int:
    """Return the sum of `costs`, none of which exceeds 127."""
    # The low half of adler32 is 1 plus the sum of the bytes.
    return sum(
        [
            (adler32(costs[start : start + _SUMMED_AT_ONCE]) & 0xFFFF) - 1
            for start in range(0, len(costs), _SUMMED_AT_ONCE)
        ]
    )
