"""What changed between two committed contexts; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from turnmill.contract.context import Elision, OpenRequest, PinnedTurn, StoredContext, SummaryEvent
from turnmill.contract.render import changed_in
from turnmill.contract.rules import Rule
from turnmill_cli.commands.history import receipt_line

__all__ = ["Changes", "Part", "changes"]

Value = TypeVar("Value", bound=BaseModel)


class Part(NamedTuple):
    """Values only one of two contexts has, and each as a line."""

    removed: tuple[tuple[BaseModel, str], ...]
    added: tuple[tuple[BaseModel, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The differences.

    Attributes:
        summary: lines of a unified diff; empty when the texts are the same.
        ledger: facts shown that came (``+``) or went (``-``), a line each with its turn.
        parts: receipts, events, elisions, pins, rules and requests by name; those without a
            difference, too.
    """

    summary: tuple[str, ...]
    ledger: tuple[str, ...]
    parts: dict[str, Part]

    def __bool__(self) -> bool:
        told = self.summary or self.ledger
        return bool(told or any(any(part) for part in self.parts.values()))


def changes(old: StoredContext, new: StoredContext) -> Changes:
    """What is in one and not in the other."""
    lines = unified_diff(
        old.summary.splitlines(),
        new.summary.splitlines(),
        f"version {old.version}",
        f"version {new.version}",
        lineterm="",
        n=1,
    )
    return Changes(
        summary=tuple(lines),
        ledger=(
            *(f"- {fact}" for fact in _facts(old.ledger) if fact not in _facts(new.ledger)),
            *(f"+ {fact}" for fact in _facts(new.ledger) if fact not in _facts(old.ledger)),
        ),
        parts={
            "receipts": _part(old.receipts, new.receipts, receipt_line),
            "events": _part(old.events, new.events, _event_line),
            "elisions": _part(old.elisions, new.elisions, _elision_line),
            "pins": _part(old.pins, new.pins, _pin_line),
            "rules": _part(old.rules, new.rules, _rule_line),
            "requests": _part(old.requests, new.requests, _request_line),
        },
    )


def _facts(ledger: str) -> dict[str, None]:
    """The facts shown, each behind its turn and speaker."""
    rows = (line.partition(": ") for line in ledger.splitlines())
    return {f"{opening}: {fact}": None for opening, _, own in rows for fact in own.split("; ")}


def _part(old: Sequence[Value], new: Sequence[Value], line: Callable[[Value], str]) -> Part:
    def only(some: Iterable[Value], others: Sequence[Value]) -> tuple[tuple[Value, str], ...]:
        return tuple((value, line(value)) for value in some if value not in others)

    return Part(only(old, new), only(new, old))


def _event_line(event: SummaryEvent) -> str:
    last = f"-{event.last_iteration}" if event.last_iteration != event.iteration else ""
    return (
        f"iteration {event.iteration}{last}, turns {event.first_seq}-{event.last_seq}: "
        f"{' '.join(event.text.split())}"
    )


def _elision_line(elision: Elision) -> str:
    return (
        f"turn {elision.seq}, message {elision.index}: {elision.tokens_before:,} → "
        f"{elision.tokens_after:,} tokens"
    )


def _rule_line(rule: Rule) -> str:
    return f"{rule.id}: {' '.join(rule.text.split())}{changed_in(rule)}"


def _request_line(request: OpenRequest) -> str:
    answered = ", answered" if request.earlier else ""
    return f"turn {request.seq}{answered}: {' '.join(request.text.split())}"


def _pin_line(pin: PinnedTurn) -> str:
    roles = ", ".join(str(message.get("role")) for message in pin.messages)
    return f"turn {pin.seq}: {roles}"
