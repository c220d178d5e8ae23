"""A rule taken apart: what it is about, its values, and whether it forbids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from turnmill.rules.wording.english import stem
from turnmill.rules.wording.slots import EMPTY, SLOTS, TEMPORAL

__all__ = ["TOKEN", "Content", "content_of", "plain", "roots"]

TOKEN = re.compile(r"[^\W\d_]+-\d\w*|[$€£]?\d[\d.,:/%-]*\w*|[^\W\d_]+(?:'[^\W\d_]+)?")
_NEGATIVE = re.compile(
    r"\b(?:not|never|no|don't|do not|doesn't|can't|cannot|mustn't|shouldn't|without"
    r"|avoid|stop|nothing"
    r"|hate|dislike|nobody|nie|niemals|nicht|kein\w*|jamais|nunca|mai|nooit|geen)\b"
)
_EXCEPTED = re.compile(r"\b(?:without|except|unless|until|only|if|when|whenever|before|after)\b")
_LEAST = re.compile(r"\b(?:at least|min(?:imum)?|over|above|more than|exceed)\b")
_NO_MORE = re.compile(
    r"^(?:please |actually,? |so |ok,? )*(?:no more(?! than)|stop(?: using| sending"
    r"| with)?|enough of the?)\b ([^,.;]+)"
)
_INSTEAD = re.compile(
    r"\b(?:instead of|rather than|(?<=, )not|no longer) ((?:the |any )?[\w'-]+(?: [\w'-]+)?)"
)


class Content(NamedTuple):
    """What a rule says.

    Attributes:
        about: roots of its words.
        slots: its values that exclude others, by what they are of.
        numbers: its numbers and times, in order.
        negative: whether it forbids.
        dropped: roots of what it says is to be no more.
        terms: whether it has an exception or a condition, and whether it says the least.
    """

    about: frozenset[str]
    slots: dict[str, str]
    numbers: tuple[str, ...]
    negative: bool
    dropped: frozenset[str]
    terms: tuple[bool, bool]

    @property
    def whole(self) -> frozenset[str]:
        """What it is about, with its values that exclude others."""
        return self.about | frozenset(self.slots.values())


def plain(text: str) -> str:
    """The text of a rule as all here read it."""
    return text.lower().replace("’", "'")


@lru_cache(maxsize=4096)
def content_of(text: str) -> Content:
    """What a rule says, or a part of one; `text` is plain."""
    gone = _NO_MORE.search(text) or _INSTEAD.search(text)
    dropped = roots(TOKEN.findall(gone[1])) if gone else frozenset()
    kept = text.replace(gone[0], " ") if gone and _INSTEAD.search(text) else text
    tokens = TOKEN.findall(kept)
    slots = {SLOTS[token]: stem(token) for token in tokens if token in SLOTS}
    numbers = tuple(token for token in tokens if any(map(str.isdigit, token)) or token in TEMPORAL)
    about = roots(token for token in tokens if token not in SLOTS)
    terms = (bool(_EXCEPTED.search(kept)), bool(_LEAST.search(kept)))
    return Content(about - dropped, slots, numbers, bool(_NEGATIVE.search(kept)), dropped, terms)


def roots(tokens: Iterable[str]) -> frozenset[str]:
    """The roots of the words that say something."""
    return frozenset(
        stem(token)
        for token in tokens
        if token not in EMPTY
        and stem(token) not in EMPTY
        and token not in TEMPORAL
        and not any(map(str.isdigit, token))
    )
