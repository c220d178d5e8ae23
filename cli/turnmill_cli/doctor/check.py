"""One finding of `turnmill doctor`: what is so, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "Status", "graded"]

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        found: what is so.
        advice: what to do; empty when there is nothing to do.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def graded(
    name: str, found: str, advice: str, value: float, *, warning: float, problem: float
) -> Check:
    """A finding by how far a value is over its limits; it has no advice below both."""
    if value <= warning:
        return Check(name, "ok", found)
    return Check(name, "problem" if value > problem else "warning", found, advice)
