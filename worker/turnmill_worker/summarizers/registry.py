"""Summarizers by name: turnmill's own, and what other packages offer as entry points."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import structlog

from turnmill.contract.errors import Transient
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import OFFLINE, Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import (
    SummarizerFailed,
    SummarizerMisconfigured,
    SummaryRejected,
    UnknownSummarizer,
    where,
)
from turnmill_worker.ports.protocols import AwaitedSummary, BatchEndpoint, Gates, Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import Settings
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer

IMPORTING: Final = threading.RLock()


class SummarizerFactory(ABC):
    """Made once per process, when a policy names it first; used by many threads."""

    def __init__(self, settings: Settings, gates: Gates | None = None) -> None:
        """Nothing is connected yet.

        Args:
            settings: the worker's.
            gates: breaker and rate limit of each model, shared by all workers; None without Redis.
        """
        self.settings = settings
        self.gates = gates

    @abstractmethod
    def summarizers(self, policy: Policy) -> Sequence[Summarizer]:
        """The summarizers to ask under this policy, in order; ``extractive`` comes after them."""

    def batches(self) -> BatchEndpoint | None:
        """Where requests are handed in as batches; None when all are asked live."""
        return None

    def problem(self) -> str:
        """Why it cannot be asked with this worker's settings, or ``""``; makes no call."""
        return ""

    def about(self) -> Mapping[str, str]:
        """What the worker's log says of it at start: no keys."""
        return {}

    def close(self) -> None:  # noqa: B027 - few have any
        """Close its connections."""


class OfflineFactory(SummarizerFactory):
    """The same for every policy; can always be asked."""

    def summarizers(self, policy: Policy) -> Sequence[Summarizer]:  # noqa: ARG002
        """The extractive summarizer."""
        return [ExtractiveSummarizer()]


log = structlog.get_logger()

GROUP: Final = "turnmill.summarizers"
"""The entry point group a package offers its summarizers in."""

_OWN: Final = {
    OFFLINE: "turnmill_worker.summarizers.registry:OfflineFactory",
    "openai": "turnmill_worker.summarizers.openai.factory:OpenAiFactory",
}
"""Turnmill's own: a new one is its folder and its line here."""


class Registry:
    """The ``Summarizers`` port. Each factory is made once, when it is named first.

    Code of others is trusted with the conversation, not with the session: whatever it raises
    counts as a summarizer's failure, and the next summarizer stands in.
    """

    def __init__(self, settings: Settings, gates: Gates | None = None) -> None:
        self._settings = settings
        self._gates = gates
        own = {name: EntryPoint(name, path, GROUP) for name, path in _OWN.items()}
        self._offered = {entry.name: entry for entry in entry_points(group=GROUP)} | own
        self._made: dict[str, SummarizerFactory] = {}

    def __call__(self, policy: Policy) -> Sequence[Summarizer]:
        """The summarizers of the name in the policy, and ``extractive`` after them."""
        last = self.factory(OFFLINE).summarizers(policy)
        return last if policy.summarizer == OFFLINE else [*self._asked(policy), *last]

    @property
    def names(self) -> list[str]:
        """The names a policy may use here."""
        return sorted(self._offered)

    def factory(self, name: str) -> SummarizerFactory:
        """The factory of this name.

        Raises:
            UnknownSummarizer: there is none; says which there are.
            SummarizerMisconfigured: it cannot be loaded.
        """
        entry = self._offered.get(name)
        if entry is None:
            raise UnknownSummarizer(f"no summarizer {name!r}: there are {', '.join(self.names)}")
        with IMPORTING:
            if name not in self._made:
                with self.guarding(name):
                    self._made[name] = entry.load()(self._settings, self._gates)
            return self._made[name]

    def problems(self) -> dict[str, str]:
        """Why each cannot be asked with this worker's settings, or ``""``; makes no call."""
        return {name: self._problem(name) for name in self.names}

    @contextmanager
    def guarding(self, name: str) -> Iterator[None]:
        """Turn what other people's code raises into a ``SummarizerFailed``, without its words.

        Our own errors pass unchanged: a defect of turnmill has to be seen.
        """
        try:
            yield
        except (SummaryRejected, SummarizerFailed, Transient):
            raise
        except Exception as error:
            if name in _OWN:
                raise
            problem = f"summarizer {name!r}: {type(error).__name__} at {where(error)}"
        else:
            return
        log.warning("summarizer failed", summarizer=name, why=problem)
        raise SummarizerMisconfigured(problem)

    def _asked(self, policy: Policy) -> Sequence[Summarizer]:
        name = policy.summarizer
        try:
            with self.guarding(name):
                found = self.factory(name).summarizers(policy)
                return [_Guarded(self, name, each) for each in found]
        except SummarizerFailed as error:
            return [_Unusable(error)]

    def _problem(self, name: str) -> str:
        try:
            with self.guarding(name):
                return str(self.factory(name).problem())
        except (SummarizerFailed, Transient) as error:
            return str(error)


class _Guarded:
    """The ``Summarizer`` port over one that may be somebody else's."""

    def __init__(self, registry: Registry, name: str, summarizer: Summarizer) -> None:
        self._registry = registry
        self._name = name
        self._summarizer = summarizer

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """Its summary."""
        with self._registry.guarding(self._name):
            summary = self._summarizer.summarize(request, counter)
        if isinstance(summary, Summary):
            return summary
        problem = f"summarizer {self._name!r} gave back a {type(summary).__name__}, no Summary"
        log.warning("summarizer failed", summarizer=self._name, why=problem)
        raise SummarizerMisconfigured(problem)


class _Unusable:
    """The ``Summarizer`` port in the place of one that cannot be loaded."""

    def __init__(self, error: SummarizerFailed) -> None:
        self._error = error

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:  # noqa: ARG002
        """Fails; the next one stands in, and the record has the error's kind."""
        log.warning("summarizer not usable", why=str(self._error))
        raise self._error


class RegisteredBatches:
    """The ``BatchEndpoint`` port: each batch is with the summarizer its policy named."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def submit(
        self, policy: Policy, request: SummaryRequest, counter: Counter
    ) -> AwaitedSummary | None:
        """Hand the request in; None when it cannot be asked in a batch."""
        name = policy.summarizer
        with self._registry.guarding(name):
            endpoint = self._registry.factory(name).batches()
            submitted = endpoint.submit(policy, request, counter) if endpoint else None
            return submitted and submitted.model_copy(update={"summarizer": name})

    def poll(self, policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """A summarizer that has the answer, or None while there is none."""
        with self._registry.guarding(awaited.summarizer):
            found = self._of(awaited).poll(policy, awaited)
            return found and _Guarded(self._registry, awaited.summarizer, found)

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """What it has cost by now, if its summarizer can be asked and tells."""
        with suppress(SummarizerFailed), self._registry.guarding(awaited.summarizer):
            return self._of(awaited).cost(awaited)
        return NOTHING

    def discard(self, awaited: AwaitedSummary) -> None:
        """End it, if its summarizer can be asked."""
        with suppress(SummarizerFailed), self._registry.guarding(awaited.summarizer):
            self._of(awaited).discard(awaited)

    def _of(self, awaited: AwaitedSummary) -> BatchEndpoint:
        endpoint = self._registry.factory(awaited.summarizer).batches()
        if endpoint is None:
            raise SummarizerMisconfigured(f"{awaited.summarizer!r} takes no batches any more")
        return endpoint
