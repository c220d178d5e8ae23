"""What a model answered, in one shape for both APIs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Answer", "from_chat", "from_response", "from_usage"]

_MOST_TOKENS: Final = 2**31
"""More is no number of tokens, and databases cannot store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        finish: ``stop`` when the model had finished, else why it stopped.
        refused: the model refused by the API's own means.
        model: the name the endpoint gives it.
        has_usage: the numbers below are the endpoint's.
        batched: it was asked for in a batch, at the price of one.
    """

    text: str = field(repr=False)
    finish: str
    refused: bool
    model: str
    has_usage: bool
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    batched: bool = False


def from_chat(completion: Any) -> Answer:
    """The answer in a chat completion; raises attribute, index or type errors if it is none."""
    choice = completion.choices[0]
    text = choice.message.content or ""
    refused = bool(getattr(choice.message, "refusal", None))
    if not isinstance(text, str):
        raise TypeError("content is not text")
    # Some servers leave the reason out; a text that ends is taken to be whole only with one.
    usage = completion.usage
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        text=text,
        finish=str(choice.finish_reason or "unknown"),
        refused=refused,
        model=str(completion.model or ""),
        has_usage=usage is not None,
        prompt_tokens=_number(usage, "prompt_tokens"),
        cached_tokens=_number(details, "cached_tokens"),
        completion_tokens=_number(usage, "completion_tokens"),
    )


def from_response(response: Any) -> Answer:
    """The answer in a response of the Responses API; errors as above."""
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    reason = getattr(response.incomplete_details, "reason", None)
    finishes = {"max_output_tokens": "length", None: str(response.status or "unknown")}
    finish = finishes.get(reason, str(reason))
    usage = response.usage
    return Answer(
        text="".join(part.text for part in parts if part.type == "output_text"),
        finish="stop" if finish == "completed" else finish,
        refused=any(part.type == "refusal" for part in parts),
        model=str(response.model or ""),
        has_usage=usage is not None,
        prompt_tokens=_number(usage, "input_tokens"),
        cached_tokens=_number(getattr(usage, "input_tokens_details", None), "cached_tokens"),
        completion_tokens=_number(usage, "output_tokens"),
    )


def from_usage(usage: Any, model: str) -> Answer | None:
    """An answer of which only the usage is known, as batches tell it; None if there is none."""
    prompt, completion = _number(usage, "input_tokens"), _number(usage, "output_tokens")
    if not prompt + completion:
        return None
    details = getattr(usage, "input_tokens_details", None)
    return Answer(
        text="",
        finish="unknown",
        refused=False,
        model=model,
        has_usage=True,
        prompt_tokens=prompt,
        cached_tokens=_number(details, "cached_tokens"),
        completion_tokens=completion,
    )


def _number(holder: Any, name: str) -> int:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and 0 < value <= _MOST_TOKENS else 0
