"""What workers tell OpenTelemetry: every instrument by name, and the spans of jobs.

Nothing here has content. Namespaces are labels only where ``TURNMILL_METRICS_NAMESPACES`` names
them: there may be thousands. Without a meter and a tracer a job costs some microseconds more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from turnmill.contract.job_outcomes import Compaction, Outcome
from turnmill.telemetry import HEADER, Instrument, Span, Teller, headers, traceparent, traces_in
from turnmill_worker.spending import Spent

__all__ = ["HEADER", "INSTRUMENTS", "headers", "traceparent", "traces_in"]

SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)

JOBS: Final = Instrument(
    "histogram",
    "turnmill.job.duration",
    "Jobs, by what came of them: an outcome says why nothing was compacted, too",
    unit="s",
    labels=("task", "outcome", "error_type", "namespace"),
    buckets=SECONDS,
)
COMPACTIONS: Final = Instrument(
    "counter",
    "turnmill.compactions",
    "Contexts committed; trigger: the limit that was exceeded, counts, idle, or asked",
    labels=("strategy", "trigger", "summarizer", "namespace"),
)
TOKENS: Final = Instrument(
    "counter",
    "turnmill.compaction.tokens",
    "Tokens of contexts before their compactions and after them",
    labels=("when", "namespace"),
)
QUALITY: Final = Instrument(
    "histogram",
    "turnmill.compaction.quality",
    "Scores of contexts committed, 0 to 1",
    labels=("strategy", "summarizer", "namespace"),
    buckets=(0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
)
FAILED: Final = Instrument(
    "counter",
    "turnmill.summaries.failed",
    "Summaries that a summarizer did not write, or whose text was refused, by the check or error",
    labels=("why", "namespace"),
)
ITEMS: Final = Instrument(
    "counter",
    "turnmill.summaries.items",
    "Statements of models, kept or not, by the check that they failed; answers asked for again",
    labels=("what", "namespace"),
)
MODEL: Final = Instrument(
    "histogram",
    "turnmill.model.duration",
    "Calls of models, answered or not",
    unit="s",
    labels=("model", "error_type"),
    buckets=(0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0),
)
MODEL_TOKENS: Final = Instrument(
    "counter", "turnmill.model.tokens", "Tokens that models were billed", labels=("model", "type")
)
COST: Final = Instrument(
    "counter",
    "turnmill.model.cost_usd",
    "What models cost at list price, in US dollars",
    labels=("model",),
)

SESSIONS: Final = Instrument(
    "gauge",
    "turnmill.sessions",
    "Sessions to be counted (backlog), to be compacted now (due) or later (later), over a limit, "
    "parked, or with turns for the archive (unarchived)",
    labels=("state", "namespace"),
)
BACKLOG: Final = Instrument(
    "gauge",
    "turnmill.backlog.age",
    "For how long the oldest session has waited to be counted",
    unit="s",
    labels=("namespace",),
)
DUE: Final = Instrument(
    "gauge",
    "turnmill.due.age",
    "For how long a session has been due to be compacted without a worker that does it, at most",
    unit="s",
    labels=("namespace",),
)
ARCHIVE: Final = Instrument(
    "gauge",
    "turnmill.archive.lag",
    "For how long covered turns have waited for the archive, at most",
    unit="s",
    labels=("namespace",),
)
QUEUES: Final = Instrument(
    "gauge", "turnmill.queue.depth", "Messages that wait in the broker", labels=("queue",)
)
BREAKER: Final = Instrument(
    "gauge",
    "turnmill.model.breaker",
    "1 while the breaker of a model is open",
    labels=("model", "endpoint"),
)
REDIS: Final = Instrument("gauge", "turnmill.redis.up", "Whether the state store answers")
MEMORY: Final = Instrument(
    "gauge", "turnmill.redis.memory", "Memory used, of maxmemory; without a limit 0", unit="1"
)
NAMESPACES: Final = Instrument(
    "gauge",
    "turnmill.namespaces",
    "Namespaces in use; those that are not counted here are left out of all other numbers",
    labels=("counted",),
)

GAUGES: Final = (SESSIONS, BACKLOG, DUE, ARCHIVE, QUEUES, BREAKER, REDIS, MEMORY, NAMESPACES)
"""Of all workers together; every worker tells the same."""

INSTRUMENTS: Final = (
    *(JOBS, COMPACTIONS, TOKENS, QUALITY, FAILED, ITEMS, MODEL, MODEL_TOKENS, COST),
    *GAUGES,
)

MOST_MODELS: Final = 50
"""Agents name models in policies: more than so many are told as one."""


class _Worker(Teller):
    """Of one process; ``names`` are the namespaces that may be labels."""

    def __init__(self) -> None:
        super().__init__(INSTRUMENTS)
        self.names: Collection[str] = ()
        self._models: set[str] = set()

    def label(self, namespace: str) -> str:
        return namespace if namespace in self.names or "*" in self.names else ""

    def model(self, name: str) -> str:
        if len(self._models) < MOST_MODELS:
            self._models.add(name)
        return name if name in self._models else "other"


_worker = _Worker()


def use(meter: Any, tracer: Any, names: Collection[str]) -> None:
    """Tell these from now on, with these namespaces as labels."""
    _worker.names = names
    _worker.use(meter, tracer)


def label_of(namespace: str) -> str:
    """The namespace, if it may be a label."""
    return _worker.label(namespace)


class Job:
    """One session's part of a job: its time, what came of it, and a span."""

    def __init__(self, task: str, namespace: str, session: str, parent: str) -> None:
        """``parent``: the ``traceparent`` that the job's message brought, if any."""
        self._task, self._namespace, self._outcome = task, namespace, ""
        told = {"gen_ai__conversation__id": session, "turnmill__namespace": namespace}
        self._span = Span(_worker.tracer, task, "CONSUMER", parent, **told)
        self._began_s = time.perf_counter()

    @property
    def ids(self) -> dict[str, str]:
        """What a log line says of the span."""
        if self._span.span is None:
            return {}
        context = self._span.span.get_span_context()
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def done(self, outcome: Outcome) -> None:
        """Say what came of it."""
        self._outcome = outcome.outcome
        fields = ("outcome", "turns", "tokens_before", "tokens_after", "strategy", "quality")
        told = {f"turnmill__{name}": getattr(outcome, name) for name in fields}
        self._span.tell(**told)
        if outcome.outcome != "committed":  # else its record tells
            _tell_failed(outcome.failed or (), outcome.items or {}, self._namespace)

    def __enter__(self) -> Self:
        self._span.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        _worker.record(
            JOBS,
            time.perf_counter() - self._began_s,
            task=self._task.removeprefix("turnmill."),
            outcome=self._outcome,
            error_type="" if kind is None else kind.__name__,
            namespace=_worker.label(self._namespace),
        )
        self._span.__exit__(kind, *error)


def _tell_failed(why: Collection[str], items: Mapping[str, int], namespace: str) -> None:
    for each in why:
        _worker.record(FAILED, 1, why=each, namespace=_worker.label(namespace))
    for what, times in items.items():
        _worker.record(ITEMS, times, what=what, namespace=_worker.label(namespace))


def commit_span() -> Span:
    """A span around the commit."""
    return Span(_worker.tracer, "turnmill.commit")


def compacted(namespace: str, trigger: str, record: Compaction) -> None:
    """Tell of a compaction that was committed."""
    name = _worker.label(namespace)
    made = {"strategy": record.strategy, "summarizer": _worker.model(record.model or "none")}
    _worker.record(COMPACTIONS, 1, trigger=trigger, namespace=name, **made)
    _worker.record(TOKENS, record.tokens_before, when="before", namespace=name)
    _worker.record(TOKENS, record.tokens_after, when="after", namespace=name)
    if record.quality is not None:
        _worker.record(QUALITY, record.quality, namespace=name, **made)
    _tell_failed(record.failed, record.items, namespace)


class ModelCall:
    """A call of a model: its time, and a span by the conventions for generative AI."""

    def __init__(self, model: str, most_tokens: int) -> None:
        self._model = model
        self._span = Span(
            _worker.tracer,
            f"chat {model}",
            "CLIENT",
            gen_ai__operation__name="chat",
            gen_ai__provider__name="openai",
            gen_ai__request__model=model,
            gen_ai__request__max_tokens=most_tokens,
        )

    def answered(self, model: str, read: int, written: int) -> None:
        """Say which model answered, and its tokens."""
        self._span.tell(
            gen_ai__response__model=model or None,
            gen_ai__usage__input_tokens=read,
            gen_ai__usage__output_tokens=written,
        )

    def __enter__(self) -> Self:
        self._began_s = time.perf_counter()
        self._span.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        took_s, why = time.perf_counter() - self._began_s, kind.__name__ if kind else ""
        _worker.record(MODEL, took_s, model=_worker.model(self._model), error_type=why)
        self._span.__exit__(kind, *error)


def spent(model: str, spent: Spent) -> None:
    """Tell what an answer cost."""
    name = _worker.model(model)
    _worker.record(MODEL_TOKENS, spent.prompt_tokens, model=name, type="input")
    _worker.record(MODEL_TOKENS, spent.completion_tokens, model=name, type="output")
    if spent.cost_usd:
        _worker.record(COST, spent.cost_usd, model=name)
