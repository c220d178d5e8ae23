"""A clause: a passage of the user's that is a rule, and where it stands."""

from __future__ import annotations

from typing import NamedTuple

from turnmill.contract.rules import Kind

__all__ = ["Clause", "Kind"]


class Clause(NamedTuple):
    """A rule as the user wrote it: ``text == whole[start:end]``, in characters."""

    text: str
    start: int
    end: int
    kind: Kind
