"""The estimate used when no vocabulary can be loaded: characters, weighed by script."""

from __future__ import annotations

import math

from turnmill.contract.estimate import estimate_tokens
from turnmill_worker.tokens.basis import basis
from turnmill_worker.tokens.messages import TokenCounter

# Tokens per character that is not a letter or a space, beyond the 1/3.5 every character counts:
# punctuation and digits make characters/3.5 some 40 % short on JSON (field notes, Tokens).
_DENSE_ASCII = 0.25
# Tokens per character, by its length in UTF-8: accented and Cyrillic or Arabic letters; CJK, Thai
# and Indic scripts; emoji and rare ideographs. About what random text of them costs in o200k_base.
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES = 0.6, 1.1, 2.5

_LETTERS_AND_SPACE = b" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + bytes(
    range(0x80, 0x100)
)
_BELOW_TWO = bytes(range(0xC0))
_BELOW_THREE = bytes(range(0xE0))
_BELOW_FOUR = bytes(range(0xF0))


class HeuristicCounter(TokenCounter):
    """Estimates text by its characters: the number is near, not exact, and its basis says so."""

    @property
    def basis(self) -> str:
        """Say that this is an estimate, and by which version of the formula."""
        return basis("heuristic")

    def count(self, text: str) -> int:
        """Return ceil(characters/3.5), raised for digits, punctuation and non-Latin scripts.

        Never below `estimate_tokens(text)`; linear; never raises.
        """
        if text.isascii():
            dense = len(text.encode().translate(None, _LETTERS_AND_SPACE))
            return math.ceil(len(text) / 3.5 + _DENSE_ASCII * dense)
        data = text.encode("utf-8", "replace")
        dense = len(data.translate(None, _LETTERS_AND_SPACE))
        two_or_more = len(data.translate(None, _BELOW_TWO + bytes(range(0x80, 0xC0))))
        three_or_more = len(data.translate(None, _BELOW_THREE))
        four = len(data.translate(None, _BELOW_FOUR))
        weighed = (
            (len(text) - two_or_more) / 3.5
            + _DENSE_ASCII * dense
            + _TWO_BYTES * (two_or_more - three_or_more)
            + _THREE_BYTES * (three_or_more - four)
            + _FOUR_BYTES * four
        )
        return max(math.ceil(weighed), estimate_tokens(text))
