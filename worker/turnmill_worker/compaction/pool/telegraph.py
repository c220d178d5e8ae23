"""Telegraph style: the words a reader can do without, dropped where that cannot change meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from turnmill_worker.old_reading.lexicon import (
    BEFORE_VERBS,
    COMMANDS,
    DROPPED,
    ENGLISH,
    HAVE,
    NO_COMMANDS,
    PARTICIPLES,
    RETRACTIONS,
    SHORTER,
    STOP_PHRASES,
)
from turnmill_worker.old_reading.sentences import is_guarded

_EDGES: Final = '.,!?;:"()[]*…~-'
_BRACKETS: Final = frozenset('()[]"“”*')
_ENDS: Final = frozenset(".!?")
_CODE = re.compile(r"[`{}<>=|\\]|\w\(")
_WORDS = re.compile(r"[a-z][a-z'’]*")
_KNOWN: Final = 1 << 15
"""Sentences that are remembered: those of a pool are shortened for every summary."""

_LONGEST: Final = max(map(len, STOP_PHRASES))
_STARTERS: Final = frozenset(phrase[0] for phrase in STOP_PHRASES)
_MAY_GO: Final = _STARTERS | DROPPED | HAVE | frozenset(SHORTER) | {"i", "i'm", "i've", "just"}
"""Words that may be left out or shortened: all others stay as they are."""

_SKIPPED: Final = DROPPED | BEFORE_VERBS


def is_english(texts: Sequence[str]) -> bool:
    """Whether one message's sentences are in the language whose filler words we know."""
    counted = list(map(_english_words, texts))
    hits = sum(own for own, _ in counted)
    return hits >= 1 and hits * 12 >= sum(whole for _, whole in counted)


@lru_cache(_KNOWN)
def _english_words(text: str) -> tuple[int, int]:
    """How many words are in that language, and how many there are."""
    words = _WORDS.findall(text.lower().replace("’", "'"))
    return sum(map(ENGLISH.__contains__, words)), len(words)


def _retracts(tokens: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a sentence in here opens by taking something back: "Actually, wait with that."."""
    if RETRACTIONS.isdisjoint(words):
        return False
    return words[0] in RETRACTIONS or any(
        word in RETRACTIONS and token[-1:] in _ENDS
        for token, word in zip(tokens, words[1:], strict=False)
    )


@lru_cache(_KNOWN)
def telegraph(sentence: str) -> str:
    """An English `sentence` without fillers, articles, copulas and many an opening "I".

    Unchanged if it negates, excepts or sets a condition (dropping words next to a "not" once
    turned "cancel A but not B" into its opposite), and if it looks like code.
    """
    tokens = sentence.split(" ")
    words = [token.strip(_EDGES) for token in sentence.lower().replace("’", "'").split(" ")]
    if _MAY_GO.isdisjoint(words) or is_guarded(words) or _retracts(tokens, words):
        return sentence
    if _CODE.search(sentence):
        return sentence
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if words[at] not in _MAY_GO:
            kept.append(tokens[at])
            at += 1
            continue
        opens = not kept or kept[-1][-1:] in _ENDS
        run = _droppable(words, at, opens=opens)
        if run and any(
            token[0] in _BRACKETS or token[-1] in _BRACKETS for token in tokens[at : at + run]
        ):
            run = 0
        if not run:
            kept.append(_shorter(tokens[at], words[at]))
        elif kept and tokens[at + run - 1][-1:] in _ENDS:
            # The dropped word closed a sentence: its mark must not be lost with it.
            kept[-1] = kept[-1].rstrip(",;:.!?") + tokens[at + run - 1][-1]
        at += run or 1
    return " ".join(kept)


def _droppable(words: Sequence[str], at: int, *, opens: bool) -> int:
    """How many words from here a reader can do without: a stop phrase, one word or none."""
    word = words[at]
    if word == "am" and at > 0 and words[at - 1][-1:].isdigit():
        return 0  # a time of day: "6:10 am"
    if word in _STARTERS:
        for length in range(min(_LONGEST, len(words) - at), 1, -1):
            if tuple(words[at : at + length]) in STOP_PHRASES:
                return length
    after = words[at + 1] if at + 1 < len(words) else ""
    if word in DROPPED or (opens and after and word == "i'm"):
        return 1
    if word in {"i", "i've"} and opens and _is_no_command(words, at + 1):
        return 1
    if word in HAVE and (after in PARTICIPLES or after.endswith("ed")):
        return 1
    return int(word == "just" and at > 0 and words[at - 1] in {"i", "we", "i'm", "i've", "we've"})


def _is_no_command(words: Sequence[str], at: int) -> bool:
    """Whether what is said from here on tells, even without an "I"; "read it twice" commands."""
    verb = next((word for word in words[at:] if word not in _SKIPPED), "")
    return verb in NO_COMMANDS or (verb.endswith(("ed", "ing")) and verb not in COMMANDS)


def _shorter(token: str, word: str) -> str:
    """`you're` as `you`, marks kept."""
    if word not in SHORTER:
        return token
    start = token.lower().find(word[0])
    return f"{token[: start + len(SHORTER[word])]}{token[start + len(word) :]}"
