"""A clause: a passage of the user's that is a rule, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict

from turnmill.contract import rules
from turnmill.contract.names import Seq

__all__ = ["Clause", "Kind", "Remark", "Rule", "as_found"]


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


class Rule(rules.Rule):
    """A rule with what this room alone knows of it."""

    kind: Kind = Kind.COMMAND
    remark: Remark | None = None


def as_found(found: Sequence[rules.Rule]) -> list[Rule]:
    """Stored rules as this room knows them."""
    return [
        rule if isinstance(rule, Rule) else Rule.model_validate(rule.model_dump()) for rule in found
    ]


class Clause(NamedTuple):
    """A rule as the user wrote it: ``text == whole[start:end]``, in characters."""

    text: str
    start: int
    end: int
    kind: Kind
