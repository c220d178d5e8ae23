"""What a user says after a rule that may end or change it: nobody can be sure, so both are shown.

People take things back in words of their own ("Forget the word limit.", "Ninety is fine for the
alert."). Only the plainest of them end a rule; others stand beside it, and the model that reads
both decides.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from turnmill.contract import rules as contract
from turnmill.contract.names import Seq
from turnmill.rules.clauses import sentences
from turnmill.rules.content import plain
from turnmill.rules.kinds import Remark, Rule, as_found
from turnmill.rules.quoted import own_words
from turnmill.rules.remark_score import in_common, speaks_of
from turnmill.rules.wording.taking_back import MAY_CHANGE

__all__ = ["among", "as_of", "changes_in", "remarked", "sentences_of"]

LEAST: Final = 0.6
"""Log-odds from which on a sentence with a word of change stands beside the rule, chosen on
held-out pairs and BEAM."""

_PLAINER: Final = 1.0
"""A newer sentence takes the place of an older one unless that was so much plainer."""

_LONGEST: Final = 240
"""Characters: a longer sentence is no aside."""

_MOST_OF_A_TURN: Final = 64
"""Sentences of a turn that are looked at, the first: a text of thousands is material."""

_NEAREST: Final = 8
"""Rules that a sentence is put beside, those it shares most words with."""

_ASKS: Final = "?？؟"


def as_of(known: contract.Rule, seq: Seq) -> Rule:
    """The rule without a remark of a later turn."""
    [rule] = as_found([known])
    later = rule.remark is not None and rule.remark.seq > seq
    return rule.model_copy(update={"remark": None}) if later else rule


def remarked(standing: Sequence[Rule], sentence: Remark) -> list[Rule]:
    """The rules, with the sentence beside those said before it that it may end or change."""
    shared = {
        at: together
        for at, rule in enumerate(standing)
        if (together := in_common(sentence.text, rule.text)) and rule.seq < sentence.seq
    }
    if not shared:
        return list(standing)
    about = heapq.nlargest(_NEAREST, shared, key=shared.__getitem__)
    return [_with(rule, sentence) if at in about else rule for at, rule in enumerate(standing)]


def among(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, of which those know it whose remark stands among them as a rule."""
    return tuple(
        rule.model_copy(update={"remark": _placed(rule.remark, rules)}) if rule.remark else rule
        for rule in rules
    )


def _placed(remark: Remark, rules: Sequence[Rule]) -> Remark:
    own = (rule.text for rule in rules if rule.seq == remark.seq)
    stands = any(text in remark.text or remark.text in text for text in own)
    return remark.model_copy(update={"is_rule": stands})


def _with(rule: Rule, sentence: Remark) -> Rule:
    known = rule.remark
    if rule.revised == sentence.seq or (known is not None and known.seq >= sentence.seq):
        return rule
    sure = speaks_of(sentence.text, rule.text)
    if sure < LEAST:
        return rule
    if known is not None and sure < speaks_of(known.text, rule.text) - _PLAINER:
        return rule
    return rule.model_copy(update={"remark": sentence})


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of what a user says that are short enough, and neither ask nor quote."""
    text = text[: _MOST_OF_A_TURN * _LONGEST]
    own = own_words(text)
    found = [
        text[start:end]
        for start, end in islice(sentences(own), _MOST_OF_A_TURN)
        if plain(own[start:end]) == plain(text[start:end])
    ]
    found = [said.strip() for said in found]
    return tuple(said for said in found if said and len(said) <= _LONGEST and said[-1] not in _ASKS)


@lru_cache(maxsize=512)
def changes_in(text: str) -> tuple[str, ...]:
    """The sentences that may change something: those with a word of change."""
    return tuple(said for said in sentences_of(text) if MAY_CHANGE.search(plain(said)))
