"""Whether a summary is in the language of its conversation: by script, and by small words.

Cheap and cautious: it names a language only where the text leaves little doubt, and is silent
otherwise. Small words tell seven languages in Latin script apart; all others pass by script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_SCRIPTS: Final = (  # beside ASCII
    ("latin", re.compile(r"[À-ɏḀ-ỿ]")),
    ("greek", re.compile(r"[Ͱ-Ͽἀ-῿]")),
    ("cyrillic", re.compile(r"[Ѐ-ԯ]")),
    ("hebrew", re.compile(r"[֐-׿]")),
    ("arabic", re.compile(r"[؀-ۿݐ-ݿ]")),
    ("indic", re.compile(r"[ऀ-෿]")),
    ("thai", re.compile(r"[฀-๿]")),
    # Japanese is written in han and kana: one family.
    ("han-kana", re.compile(r"[぀-ヿ㐀-䶿一-鿿]")),
    ("hangul", re.compile(r"[가-힯]")),
)

_SMALL: Final = {
    "en": "the and of to is was that for with not this are be have it you from",
    "de": "der die das und ist nicht ein eine zu mit den für auf sich dem wird ich",
    "fr": "le la les et des est une pour que dans pas du qui sur au avec vous",
    "es": "el la los de y que en un una es por con para las no se del",
    "it": "il di che la e un una per è non con del sono della gli nel si",
    "pt": "o de que e do da em um uma para não com os no na se foi",
    "nl": "de het een en van is niet dat op te voor met zijn aan er ik",
}
_SETS = {language: frozenset(words.split()) for language, words in _SMALL.items()}
_ALL_SMALL = frozenset().union(*_SETS.values())
_WORD = re.compile(r"[^\W\d_]+")

_ASCII = re.compile(r"[\x00-\x7f]+")
_NO_LETTERS: Final = bytes(code for code in range(128) if not chr(code).isalpha())

_LEAST_LETTERS: Final = 40
_LEAST_SMALL: Final = 12
_SURE: Final = 0.7
"""A text is in a language that has this share of its small words, and others have much less."""

_RIVAL: Final = 0.75
_MOSTLY: Final = 0.5
_PRESENT: Final = 0.1
"""A conversation in another script than Latin names many things in Latin, so its summary may."""

_MOST_CHARS: Final = 20_000
"""Read of each text: enough to know its language."""


class Spoken:
    """What is spoken in a conversation, to tell which summaries are in another language."""

    def __init__(self, conversation: Iterable[str]) -> None:
        self._texts = [text for text in conversation if text]
        self._script = script_of(self._texts)
        self._languages = languages(self._texts)

    @property
    def characters(self) -> int:
        """How much is spoken."""
        return sum(map(len, self._texts))

    def is_foreign(self, summary: str) -> bool:
        """Whether it is in another script or language than everything in the conversation."""
        if self._script and not _uses(summary, self._script):
            return True
        own = languages([summary])
        if not own or own & self._languages:
            return False
        # Somebody may speak another language than most of the conversation is in.
        known = self._languages.union(*(languages([text]) for text in self._texts))
        return bool(known) and not own & known


def script_of(texts: Iterable[str]) -> str:
    """The script most letters are of, or ``""`` when there are few letters or no such script."""
    found = _letters(texts)
    total = sum(found.values())
    if total < _LEAST_LETTERS:
        return ""
    script, letters = found.most_common(1)[0]
    return script if letters / total > _MOSTLY else ""


def languages(texts: Iterable[str]) -> frozenset[str]:
    """The language the texts are in, where their small words leave no doubt."""
    small = Counter(
        word
        for text in texts
        for word in _WORD.findall(text[:_MOST_CHARS].lower())
        if word in _ALL_SMALL
    )
    total = sum(small.values())
    if total < _LEAST_SMALL:
        return frozenset()
    shares = sorted(
        (
            (sum(small[word] for word in words) / total, language)
            for language, words in _SETS.items()
        ),
        reverse=True,
    )
    (best, language), (second, _) = shares[:2]
    return frozenset({language}) if best >= _SURE and second <= best * _RIVAL else frozenset()


def _uses(text: str, script: str) -> bool:
    found = _letters([text])
    total = sum(found.values())
    least = _MOSTLY if script == "latin" else _PRESENT
    return total < _LEAST_LETTERS or found[script] / total >= least


def _letters(texts: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for text in texts:
        head = text[:_MOST_CHARS]
        plain = head.encode("ascii", "ignore")
        found["latin"] += len(plain.translate(None, _NO_LETTERS))
        if len(plain) < len(head):
            others = _ASCII.sub("", head)
            for name, letters in _SCRIPTS:
                found[name] += len(letters.findall(others))
    return found
