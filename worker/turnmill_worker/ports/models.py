"""Who writes summaries: summarizers, their templates, and the gate before a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from turnmill.contract.estimate import Counter
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerFailed, SummarizerUnavailable
from turnmill_worker.ports.values import Summary
from turnmill_worker.templates.template import Template

__all__ = ["Gate", "Gates", "Summarizer", "Summarizers", "Templates", "place_of"]


class Templates(Protocol):
    """Managed templates by name."""

    def load(self, name: str) -> Template:
        """The template.

        Raises:
            UnknownTemplate, InvalidTemplate: none of this name, or it cannot be used.
        """


class Gate(Protocol):
    """Says when a model may be asked: for all workers together, one per endpoint and model."""

    def admit(self, *, tokens: int, within_s: float) -> int | None:
        """The round of a call that may be made now; None when Redis could not be asked.

        ``tokens`` is what it will probably be billed; it answers or fails ``within_s``.

        Raises:
            CircuitOpen, RateLimited: not now; say when it is worth asking again.
        """

    def answered(self, round_: int | None, *, estimated: int, used: int) -> None:
        """The call was answered, and billed ``used`` tokens."""

    def failed(
        self, round_: int | None, error: SummarizerUnavailable | SummarizerFailed, *, estimated: int
    ) -> None:
        """The call failed, and the endpoint is to blame."""


class Gates(Protocol):
    """Gives the gate before a model at an endpoint."""

    def __call__(self, url: str, model: str) -> Gate:
        """The gate; ``url`` may hold secrets, which go nowhere."""

    def __hash__(self) -> int:
        """Gates are hashable: summarizers are cached by the gates they use."""


def place_of(url: str) -> str:
    """Host, port and path of an endpoint: no user, password or query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname or ''}{port}{parts.path.rstrip('/')}"


class Summarizers(Protocol):
    """Gives the summarizers a policy asks for."""

    def __call__(self, policy: Policy) -> Sequence[Summarizer]:
        """At least one, in the order they are to be tried."""


class Summarizer(Protocol):
    """Turns a request into a text; the only thing that may call a model."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A text of at most ``request.budget_tokens`` by this counter, and what it cost.

        Raises:
            Transient: the same request may succeed later.
            SummaryRejected: it will not; use the next rung of the ladder.
        """
