"""How survival is measured in words: stems, kept lines, whole words. Fixed, so numbers compare."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnmill_cli.output import needing

__all__ = ["LINE", "Record", "kept_by_seq", "numbers", "rendered", "stands_in", "stems", "text_of"]

Record = tuple[int, Mapping[str, Any]]
"""A message and its position."""

LINE = re.compile(r"#?(\d+) ")
"""A line of a summary that says which message it is from."""

_WORD = re.compile(r"[a-z0-9]+(?:['’][a-z]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|[a-z]+")


def _words(text: str) -> list[str]:
    return text.split()


_NUMBER_WORDS: Final = _words("zero one two three four five six seven eight nine ten eleven twelve")
_DIGITS: Final = {word: str(number) for number, word in enumerate(_NUMBER_WORDS)}
_STOP: Final = frozenset(
    _words(
        "a about after again all am an and any are aren't as at be because been before being both "
        "but by can can't could couldn't did didn't do does doesn't doing don't down during each "
        "few for from further had has have having he he's her here hers herself him himself his "
        "how i i'd i'll i'm i've if in into is isn't it it's its itself just let's me more most "
        "my myself no nor not now of off on once only or other our ours out over own s same she "
        "she's should so some such t than that that's the their theirs them then there there's "
        "these they they're they've this those through to too under until up very was wasn't we "
        "we're we've were what what's when where which while who whom why will with won't would "
        "you you'd you'll you're you've your yours"
    )
)


def text_of(message: Mapping[str, Any]) -> str:
    """The message's own words: content text, then each call's name and arguments."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [str(part.get("text") or "[image]") for part in content]
    for call in message.get("tool_calls") or ():
        parts.append(f"{call['function']['name']} {call['function']['arguments']}")
    return "\n".join(parts)


def rendered(records: Sequence[Record]) -> str:
    """The plain transcript that budgets are a share of."""
    return "\n".join(f"{m.get('name') or m['role']}: {text_of(m)}" for _, m in records)


@functools.lru_cache(maxsize=20_000)
def stems(text: str) -> frozenset[str]:
    """Lower-case words and numbers, number words as digits, stop words gone, Snowball stems."""
    words = (_DIGITS.get(w, w) for w in _WORD.findall(text.lower().replace("’", "'")))
    return frozenset(_stem(w) for w in words if w not in _STOP)


@functools.lru_cache(maxsize=20_000)
def numbers(text: str) -> frozenset[str]:
    """Numbers without separators of thousands, and number words as digits."""
    found = (_DIGITS.get(w, w) for w in _NUMBER.findall(text.lower()))
    return frozenset(w.replace(",", "") for w in found if w[0].isdigit())


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@functools.cache
def _stemmer() -> Any:
    with needing("evaluate"):
        import Stemmer  # noqa: PLC0415 - only stems need it, and the extra evaluate
    return Stemmer.Stemmer("english", 0)


def kept_by_seq(summary: str) -> dict[int, str]:
    """The text kept from each message, read from the seq each line opens with."""
    kept: dict[int, str] = {}
    for line in summary.split("\n"):
        if match := LINE.match(line):
            seq = int(match[1])
            kept[seq] = f"{kept.get(seq, '')} {line[match.end() :].split(':', 1)[-1]}"
    return kept


def stands_in(text: str, value: str) -> bool:
    """Whether `value` stands in `text` as a whole word; both are lower case."""
    start = text.find(value)
    while start >= 0:
        end = start + len(value)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and value[0].isalnum()) and not after.isalnum():
            return True
        start = text.find(value, start + 1)
    return False
