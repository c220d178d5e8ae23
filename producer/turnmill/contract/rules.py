"""A rule: what a user laid down for the rest of a conversation, word for word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from turnmill.contract.codec import decode_json
from turnmill.contract.formats import Kept
from turnmill.contract.marks import own_words
from turnmill.contract.names import Seq

INSTRUCTS: Final = "instructs"
"""Key of a turn's metadata: its whole text is a rule."""

REVOKES: Final = "revokes"
"""Key of a turn's metadata: the rule of this id ends."""


class Rule(Kept):
    """A standing instruction, prohibition, preference or limit of the user.

    Attributes:
        seq: the turn it was said in.
        place: which of that turn's rules it is, from 1.
        text: as the user wrote it.
        revised: the turn of a later condition that changes it, if there is one.
    """

    seq: Seq
    place: int = 1
    text: str
    revised: Seq | None = None

    @property
    def id(self) -> str:
        """What ``revoke`` takes, such as ``12`` or ``12.2``; it never changes."""
        return rule_id(self.seq, self.place)


def rule_id(seq: int, place: int) -> str:
    """The id of a turn's rule by its place among them, from 1."""
    return f"{seq}" if place == 1 else f"{seq}.{place}"


class Mark(NamedTuple):
    """What a turn's metadata say about rules.

    Attributes:
        instructs: its whole text is a rule.
        revokes: id of the rule it ends, or ``""``; then nothing else in it is one.
    """

    instructs: bool = False
    revokes: str = ""


UNMARKED: Final = Mark()


def mark_of(fields: bytes) -> Mark:
    """The mark in the fields of a turn, as the log holds them."""
    if b'"instructs":' not in fields and b'"revokes":' not in fields:
        return UNMARKED
    metadata = decode_json(fields).get("metadata") or {}
    revoked = metadata.get(REVOKES)
    return Mark(metadata.get(INSTRUCTS) is True, revoked if isinstance(revoked, str) else "")


class MarkedTurn(Protocol):
    """A turn as far as marks go: a ``Said``, or a turn of the log."""

    @property
    def seq(self) -> Seq:
        """Its position."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """What was said in it."""

    @property
    def mark(self) -> Mark:
        """What its metadata say about rules."""


class Said(NamedTuple):
    """A turn as it was pushed."""

    seq: Seq
    messages: Sequence[dict[str, Any]]
    mark: Mark = UNMARKED


def with_marked(stored: Sequence[Rule], turns: Iterable[MarkedTurn]) -> tuple[Rule, ...]:
    """The stored rules, with what later turns are marked to lay down and to end, oldest first.

    A turn that instructs has a rule for each message of the user's; other turns have none here.
    """
    rules = {rule.id: rule for rule in stored}
    for turn in turns:
        if turn.mark.revokes:
            rules.pop(turn.mark.revokes, None)
        elif turn.mark.instructs:
            texts = [text.strip() for text in map(own_words, turn.messages)]
            for place, text in enumerate(filter(None, texts), 1):
                rule = Rule(seq=turn.seq, place=place, text=text)
                rules.setdefault(rule.id, rule)
    return tuple(rules.values())
