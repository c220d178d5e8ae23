"""The messages a context is read as: the one place that lays them out, for both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnmill.contract.context import JsonMessage, Receipt, StoredContext, TailTurn

__all__ = ["preamble", "receipt_message", "render", "render_head", "system_message"]


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
    text = preamble(stored.summary, stored.receipts, stored.watermark)
    if text:
        # A summary quotes users and tools: it must never carry the weight of a system message.
        messages.append({"role": "user", "content": text})
    for pin in stored.pins:
        messages += pin.messages
    return messages


def preamble(summary: str, receipts: Sequence[Receipt], watermark: int) -> str:
    """The text of the message that opens a compacted context, or ``""`` when there is none."""
    parts = []
    if summary:
        parts.append(f"[Summary of the conversation up to turn {watermark}]\n{summary}\n[End]")
    parts += [receipt_text(receipt) for receipt in receipts]
    return "\n".join(parts)


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
