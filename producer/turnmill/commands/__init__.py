"""Builds script calls and parses their replies; no I/O. Both clients are this plus an ``await``."""

from __future__ import annotations

from turnmill.commands.calls import Call, Command, evals
from turnmill.commands.checkpointing import Remembering
from turnmill.commands.opening import DEFAULT_NAME, Opening
from turnmill.commands.parking import Parking
from turnmill.commands.pushing import DEDUPE_WINDOW, RETRY_WINDOW, PushCall, Pushing
from turnmill.commands.reading import Reading

__all__ = [
    "DEDUPE_WINDOW",
    "DEFAULT_NAME",
    "RETRY_WINDOW",
    "Call",
    "Command",
    "Commands",
    "PushCall",
    "evals",
]


class Commands(Pushing, Opening, Reading, Remembering, Parking):
    """The calls of one namespace."""
