"""A rule: what a user laid down for the rest of a conversation, word for word."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from turnmill.contract.codec import decode_json
from turnmill.contract.names import Seq

__all__ = ["INSTRUCTS", "REVOKES", "UNMARKED", "Kind", "Mark", "Remark", "Rule", "mark_of"]

INSTRUCTS: Final = "instructs"
"""Key of a turn's metadata: its whole text is a rule."""

REVOKES: Final = "revokes"
"""Key of a turn's metadata: the rule of this id ends."""


class Kind(StrEnum):
    """What a rule does; the value is what people see."""

    COMMAND = "command"
    PROHIBITION = "prohibition"
    PREFERENCE = "preference"
    LIMIT = "limit"
    DEADLINE = "deadline"
    IDENTITY = "identity"
    FORMAT = "format"
    PERMISSION = "permission"
    POLICY = "policy"
    REVOCATION = "revocation"


class Remark(BaseModel):
    """What a user said after a rule that may end or change it.

    Attributes:
        seq: the turn it was said in.
        text: as the user wrote it.
        is_rule: it lays something down itself, so it stands among the rules.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True
    )

    seq: Seq
    text: str
    is_rule: bool = False


class Rule(BaseModel):
    """A standing instruction, prohibition, preference or limit of the user.

    Attributes:
        seq: the turn it was said in.
        place: which of that turn's rules it is, from 1.
        text: as the user wrote it.
        kind: what it does.
        revised: the turn of a later rule that says otherwise in part, if there is one.
        remark: what was said later that may end or change it, if anything.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True
    )

    seq: Seq
    place: int = 1
    text: str
    kind: Kind = Kind.COMMAND
    revised: Seq | None = None
    remark: Remark | None = None

    @property
    def id(self) -> str:
        """What ``revoke`` takes, such as ``12`` or ``12.2``; it never changes."""
        return f"{self.seq}" if self.place == 1 else f"{self.seq}.{self.place}"


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
