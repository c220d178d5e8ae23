"""The messages a context is read as: the one place that lays them out, for both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnmill.contract.context import (
    JsonMessage,
    Receipt,
    StoredContext,
    SummaryEvent,
    TailTurn,
)

__all__ = [
    "context_injection",
    "event_text",
    "preamble",
    "receipt_message",
    "render",
    "render_head",
    "system_message",
]


def render(system: str, stored: StoredContext, tail: Iterable[TailTurn]) -> list[JsonMessage]:
    """System prompt, then what stands for older turns, then the tail."""
    messages = render_head(stored, system)
    for turn in tail:
        messages += turn.messages
    return messages


def system_message(system: str) -> JsonMessage:
    """The session's system prompt as a message."""
    return {"role": "system", "content": system}


def render_head(stored: StoredContext, system: str = "") -> list[JsonMessage]:
    """The system prompt, if given, and the messages standing for turns up to the watermark."""
    messages: list[JsonMessage] = [system_message(system)] if system else []
    summary = "" if stored.managed else stored.summary
    if stored.managed:
        # The one exception: specification 002 asks for a system message, word for word.
        content = f"Context summary (managed): {stored.summary}"
        messages.append({"role": "system", "content": content})
    text = preamble(summary, stored.receipts, stored.watermark, stored.ledger)
    if text:
        # A summary quotes users and tools: it must never carry the weight of a system message.
        messages.append({"role": "user", "content": text})
    # A message each: an event once shown stays a byte-identical part of the prompt's prefix.
    messages += [{"role": "user", "content": event_text(event)} for event in stored.events]
    for pin in stored.pins:
        messages += pin.messages
    return messages


def preamble(summary: str, receipts: Sequence[Receipt], watermark: int, ledger: str = "") -> str:
    """The text of the message that opens a compacted context, or ``""`` when there is none."""
    parts = []
    if summary:
        parts.append(f"[Summary of the conversation up to turn {watermark}]\n{summary}\n[End]")
    parts += [receipt_text(receipt) for receipt in receipts]
    if ledger:
        parts.append(f"[Facts kept word for word]\n{ledger}\n[End of facts]")
    return "\n".join(parts)


def event_text(event: SummaryEvent) -> str:
    """What a model and a person read about one summarized iteration, or several."""
    span = (
        f"Iteration {event.iteration}"
        if event.iteration == event.last_iteration
        else f"Iterations {event.iteration}-{event.last_iteration}"
    )
    return f"[{span}, turns {event.first_seq}-{event.last_seq}, summarized]\n{event.text}"


def context_injection(events: Sequence[SummaryEvent]) -> str:
    """The summaries of past iterations as one text for a system prompt; ``""`` without any."""
    if not events:
        return ""
    return "\n\n".join(["## Summary of earlier iterations", *map(event_text, events)])


def receipt_message(receipt: Receipt) -> JsonMessage:
    """A receipt as a message of its own."""
    return {"role": "user", "content": receipt_text(receipt)}


def receipt_text(receipt: Receipt) -> str:
    """What a model and a person read about removed turns."""
    span = (
        f"Turn {receipt.first_seq}"
        if receipt.first_seq == receipt.last_seq
        else f"Turns {receipt.first_seq}-{receipt.last_seq}"
    )
    return f"[{span} left out to fit: {receipt.turns} turns, {receipt.tokens} tokens]"
