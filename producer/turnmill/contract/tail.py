"""A turn of the log as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill.contract.rules import UNMARKED, Mark

__all__ = ["TailTurn"]


class TailTurn(NamedTuple):
    """One turn of the log as it is read: elisions applied.

    Attributes:
        seq: its position.
        messages: in push order.
        tokens: exact when ``exact``, else an upper bound.
        exact: a worker has counted it.
        pinned: it must be kept word for word.
        pushed: its messages as pushed, where they are read otherwise; None where they are not.
        mark: what its metadata say about rules.
        body: what ``pushed`` was decoded from; None where nobody knows.
    """

    seq: Seq
    messages: Sequence[JsonMessage]
    tokens: int
    exact: bool = False
    pinned: bool = False
    pushed: Sequence[JsonMessage] | None = None
    mark: Mark = UNMARKED
    body: bytes | None = None
