"""Which rules are in force after some turns, and which of them fit.

Rules come from what users say alone: not from tools, programs, the assistant, or memories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Final

from turnmill.contract import rules as contract
from turnmill.contract.authors import own_words
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill.contract.policy import Limits
from turnmill.contract.render import rule_line
from turnmill.contract.rules import UNMARKED, Said
from turnmill.rules.find import find_rules
from turnmill.rules.kinds import Kind, Remark, Rule, as_found
from turnmill.rules.once import is_choice
from turnmill.rules.rank import kept
from turnmill.rules.remarks import among, changes_in, remarked
from turnmill.rules.supersede import Relation, ended, stands

__all__ = ["Said", "clauses_of", "fitting", "followed_by", "in_force", "is_shown", "rules_room"]

_SHARE: Final = 10
_LEAST_TOKENS: Final = 200
_MOST_SHARE: Final = 4
"""Rules take a tenth of the room, or 200 tokens where that is more, but at most a quarter."""

_FRAME_TOKENS: Final = 24
"""What their message costs beside the lines, generously."""

_MOST_OF_A_TURN: Final = 60
_MOST_IN_ALL: Final = 240
"""A turn that is nothing but orders must not cost its square: beyond these the heaviest stay."""


_KNOWN: Final[dict[bytes, tuple[tuple[str, Kind], ...]]] = {}
_MOST_KNOWN: Final = 20_000
"""Texts whose rules are remembered, by a hash: most have none, and the text is not kept."""


def in_force(stored: Sequence[contract.Rule], turns: Iterable[Said]) -> tuple[Rule, ...]:
    """The rules of before and of these turns, oldest first, without those a later one ended.

    Beside each stands what was said later that may end or change it, if anything.
    """
    turns, stored = list(turns), as_found(stored)
    known = {rule.id for rule in stored}
    fresh: list[tuple[Seq, Rule | Remark | str]] = []
    for turn in turns:
        if turn.mark.revokes:
            fresh.append((turn.seq, turn.mark.revokes))
        fresh += [(turn.seq, rule) for rule in _laid_down(turn) if rule.id not in known]
    if not fresh and not stored:
        return ()
    fresh += [(turn.seq, remark) for turn in turns for remark in _remarks(turn)]
    if not fresh:
        return tuple(stored)
    events = [*((rule.seq, rule) for rule in stored), *fresh]
    standing: list[Rule] = []
    for _, event in sorted(events, key=lambda event: event[0]):
        if isinstance(event, str):
            standing = [rule for rule in standing if rule.id != event]
        elif isinstance(event, Remark):
            standing = remarked(standing, event)
        else:
            standing = _heaviest(followed_by(standing, event), _MOST_IN_ALL)
    seqs = {rule.seq for rule in standing}
    return among([_whole_again(rule, seqs) for rule in standing])


def is_shown(rule: contract.Rule, messages: Iterable[JsonMessage]) -> bool:
    """Whether the rule stands in what these messages show of its turn."""
    return any(rule.text in own_words(message) for message in messages)


def fitting(
    stored: Sequence[contract.Rule], tokens: int, count: Callable[[str], int]
) -> tuple[Rule, ...]:
    """As many of the rules as fit, whole; those that do most harm when they are lost first.

    What was said of them later stands beside them as far as there is room left, the newest first.
    """

    def cost(rule: Rule) -> int:
        return count(rule_line(rule) + "\n")

    rules = as_found(stored)
    bare = [rule.model_copy(update={"remark": None}) if rule.remark else rule for rule in rules]
    found = kept(bare, tokens - _FRAME_TOKENS, cost)
    fit = {at: bare[at] for at in found}
    left = tokens - _FRAME_TOKENS - sum(map(cost, fit.values()))
    said = [(remark.seq, at) for at in found if (remark := rules[at].remark)]
    for _, at in sorted(said, reverse=True):
        more = cost(rules[at]) - cost(bare[at])
        if more <= left:
            fit[at], left = rules[at], left - more
    return among(list(fit.values()))


def rules_room(limits: Limits) -> int:
    """Most tokens the rules of a context may take."""
    return max(limits.room // _SHARE, min(_LEAST_TOKENS, limits.room // _MOST_SHARE))


def _laid_down(turn: Said) -> Iterator[Rule]:
    """The turn's rules, each with its place in it."""
    if turn.mark.revokes:
        return
    texts = [text for text in map(own_words, turn.messages) if text.strip()]
    if turn.mark.instructs:
        found = [(text.strip(), Kind.COMMAND) for text in texts]
    else:
        found = [clause for text in texts for clause in clauses_of(text)]
    rules = [
        Rule(seq=turn.seq, place=place, text=text, kind=kind)
        for place, (text, kind) in enumerate(found, 1)
    ]
    yield from _heaviest(rules, _MOST_OF_A_TURN)


def _remarks(turn: Said) -> Iterator[Remark]:
    """What the turn says that no mark has made a rule of, or an end of one."""
    for text in map(own_words, turn.messages) if turn.mark == UNMARKED else ():
        yield from (Remark(seq=turn.seq, text=said) for said in changes_in(text))


def clauses_of(text: str) -> Sequence[tuple[str, Kind]]:
    """The rules of a text; looked for once, though every read and plan asks again."""
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    known = _KNOWN.get(key)
    if known is None:
        clauses = find_rules(text)
        heaviest = kept(clauses, _MOST_OF_A_TURN, lambda _: 1)
        known = tuple((clauses[at].text, clauses[at].kind) for at in heaviest)
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known


def followed_by(before: Sequence[contract.Rule], after: contract.Rule) -> list[Rule]:
    """The rules after one more: what it ends is gone, and what only ends others is no rule."""
    standing, [new] = as_found(before), as_found([after])
    touched = ended(new, standing)
    if Relation.REPEATS in touched.values():
        # The older wording stays, and with it the prompt's beginning. It holds whatever was said.
        return [
            rule.model_copy(update={"remark": None})
            if touched.get(at) is Relation.REPEATS and rule.remark and rule.remark.seq < new.seq
            else rule
            for at, rule in enumerate(standing)
        ]
    if not touched and is_choice(new):
        return standing
    left = [
        rule if at not in touched else rule.model_copy(update={"revised": new.seq})
        for at, rule in enumerate(standing)
        if touched.get(at, Relation.REVISES) is Relation.REVISES
    ]
    return [*left, new] if stands(new) else left


def _whole_again(rule: Rule, seqs: AbstractSet[Seq]) -> Rule:
    """The rule; whole again if nothing stands any more that said otherwise."""
    ended = rule.revised is not None and rule.revised not in seqs
    return rule.model_copy(update={"revised": None}) if ended else rule


def _heaviest(rules: list[Rule], most: int) -> list[Rule]:
    return rules if len(rules) <= most else [rules[at] for at in kept(rules, most, lambda _: 1)]
