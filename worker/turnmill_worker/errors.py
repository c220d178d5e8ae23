"""Errors only a worker meets; part of the tree in ``turnmill.contract.errors``."""

from __future__ import annotations

from turnmill.contract.errors import TurnmillError

__all__ = ["InternalError", "SummarizerFailed", "SummaryRejected"]


class SummaryRejected(TurnmillError):
    """A summary that must not be committed; says why in numbers, never in its words."""


class InternalError(TurnmillError):
    """A defect in turnmill: the kind of error and where it was, without what it was about."""


class SummarizerFailed(TurnmillError):
    """A summarizer cannot do its work before somebody changes a setting; use the next one."""
