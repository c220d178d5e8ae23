"""An endpoint behind the gate all workers share: asked first, and told what became of each call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from openai import OpenAI

from turnmill_worker.errors import (
    EndpointRefused,
    RateLimited,
    SummarizerFailed,
    SummarizerUnavailable,
)
from turnmill_worker.ports.models import Gate
from turnmill_worker.summarizers.openai.answers import Answer
from turnmill_worker.summarizers.openai.endpoint import ModelOptions, Prompt

__all__ = ["Endpoint", "GatedEndpoint"]

T = TypeVar("T")

_PATIENCE_S: Final = 2.0
"""A shorter pause is waited out here: giving up would throw away the parts written so far."""

_CHARS_PER_TOKEN: Final = 3.5
_OUTPUT_SHARE: Final = 4
"""Few answers take more than this part of what they may; what they took is known afterwards."""


class Endpoint(Protocol):
    """Answers prompts."""

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """See ``ModelEndpoint.ask``."""

    def run(self, call: Callable[[OpenAI], T], options: ModelOptions) -> T:
        """See ``ModelEndpoint.run``."""


class GatedEndpoint:
    """Asks only when the gate lets it."""

    def __init__(
        self, endpoint: Endpoint, gate: Gate, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._endpoint = endpoint
        self._gate = gate
        self._sleep = sleep

    def ask(self, prompt: Prompt, options: ModelOptions) -> Answer:
        """The model's answer, whatever it is worth.

        Raises:
            CircuitOpen, RateLimited: it was not asked, or said 429; worth a try later.
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not.
        """
        tokens = _estimated(prompt, options)
        round_ = self._admitted(tokens, options.timeout_s)
        try:
            answer = self._endpoint.ask(prompt, options)
        except (SummarizerUnavailable, EndpointRefused) as error:
            self._gate.failed(round_, error, estimated=tokens)
            raise
        except SummarizerFailed:
            # The endpoint works; it refuses only this request.
            self._gate.answered(round_, estimated=tokens, used=0)
            raise
        used = answer.prompt_tokens + answer.completion_tokens if answer.has_usage else tokens
        self._gate.answered(round_, estimated=tokens, used=used)
        return answer

    def run(self, call: Callable[[OpenAI], T], options: ModelOptions) -> T:
        """What the call gets; it asks no model, so the gate need not admit it."""
        return self._endpoint.run(call, options)

    def _admitted(self, tokens: int, within_s: float) -> int | None:
        patience_s = _PATIENCE_S
        while True:
            try:
                return self._gate.admit(tokens=tokens, within_s=within_s)
            except RateLimited as error:
                wait_s = error.retry_after_s or 0.0
                if wait_s > patience_s:
                    raise
                patience_s -= max(wait_s, 0.01)
                self._sleep(wait_s)


def _estimated(prompt: Prompt, options: ModelOptions) -> int:
    """Tokens a call is expected to be billed: what it says, and a part of what it may answer."""
    said = len(prompt.system) + len(prompt.user)
    return math.ceil(said / _CHARS_PER_TOKEN) + options.max_output_tokens // _OUTPUT_SHARE
