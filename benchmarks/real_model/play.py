"""Sessions whose compactions are written by a model and, for the same turns, without one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.real_model.sessions import Session
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import OFFLINE, Policy
from turnmill_cli.evaluate.measuring import InMemorySession, MeteredSummarizer
from turnmill_worker.compaction.plan import Plan
from turnmill_worker.errors import SummarizerUnavailable
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.summarizers.openai.endpoint import Answer, Endpoint, ModelOptions, Prompt
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import CountedOnce, counter_for


@dataclass(slots=True)
class Call:
    """One request to the model: what was sent, what came back, and how long that took."""

    prompt: Prompt
    answer: Answer | None
    error: str
    seconds: float


class Listening:
    """The ``Endpoint`` port over another; keeps what passes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.calls: list[Call] = []

    def ask(self, prompt: Prompt, options: ModelOptions, alive: Any = bool) -> Answer:
        """Its answer."""
        began, answer, error = time.perf_counter(), None, ""
        try:
            answer = self._endpoint.ask(prompt, options, alive)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            self.calls.append(Call(prompt, answer, error, time.perf_counter() - began))
        return answer

    def run(self, call: Any, options: ModelOptions) -> Any:
        """See ``ModelEndpoint.run``."""
        return self._endpoint.run(call, options)

    def body(self, prompt: Prompt, options: ModelOptions) -> Any:
        """See ``ModelEndpoint.body``."""
        return self._endpoint.body(prompt, options)


class Recorded:
    """The ``Endpoint`` port over answers that a model gave, in their order; then it is down.

    Whatever is asked, so that they can be looked at again with other checks.
    """

    def __init__(self, answers: Iterable[tuple[str, str]], model: str) -> None:
        """Each answer is a text and why it ended."""
        self._answers = iter(answers)
        self._model = model

    def ask(self, prompt: Prompt, options: ModelOptions, alive: Any = bool) -> Answer:  # noqa: ARG002
        """The next answer."""
        text, finish = next(self._answers, ("", ""))
        if not finish:
            raise SummarizerUnavailable("no more answers were recorded")
        return Answer(text=text, finish=finish, refused=False, model=self._model, has_usage=False)

    def run(self, call: Any, options: ModelOptions) -> Any:
        """Nothing else can be asked."""
        raise NotImplementedError

    body = run


Answers = dict[int, list[tuple[str, str]]]
"""Of each compaction: texts, each with why it ended."""


def recorded_answers(file: Path) -> dict[str, tuple[int, Answers]]:
    """Of each session: its window, and the answers in a board's ``answers.jsonl``."""
    found: dict[str, tuple[int, Answers]] = {}
    for line in file.read_text().splitlines():
        told = json.loads(line)
        _, answers = found.setdefault(told["session"], (told["max_tokens"], {}))
        answers.setdefault(told["compaction"], []).append((told["text"], told["finish"]))
    return found


def replayed(answers: Answers, like: OpenAiSummarizer) -> ModelOf:
    """Who gives these answers, and is believed as far as the model is."""
    model = like.setup.options.model
    return lambda at: OpenAiSummarizer.of(
        replace(like.setup, endpoint=Recorded(answers.get(at, ()), model))
    )


@dataclass(slots=True, kw_only=True)
class Row:
    """One compaction, with the model and without it.

    Attributes:
        plan: what it covers.
        committed: the first of the two drafts became the context.
        context: as read after it.
    """

    plan: Plan
    draft: Draft
    twin: Draft
    cpu_ms: float
    twin_cpu_ms: float
    calls: Sequence[Call]
    committed: bool = False
    context: Sequence[JsonMessage] = ()

    @property
    def is_models(self) -> bool:
        """Whether words of the model were committed."""
        return self.committed and any(each.model != OFFLINE for each in self.draft.summaries)


ModelOf = Callable[[int], OpenAiSummarizer]
"""Who is asked in a session's first compaction, in its second, and so on."""


@dataclass(slots=True)
class Both:
    """Writes each draft twice, and gives back the one that the model was asked for.

    Both are asked on snapshots that have heard nothing yet: neither saves the other time.
    """

    model_of: ModelOf
    rows: list[Row] = field(default_factory=list)

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft:  # noqa: ARG002
        """As of ``Writer.best``."""
        setup = self.model_of(len(self.rows) + 1).setup
        listening, last = Listening(setup.endpoint), ExtractiveSummarizer()
        model = OpenAiSummarizer.of(replace(setup, endpoint=listening))
        twin, twin_ms = _timed([last], plan, counter)
        draft, ms = _timed([model, last], plan, counter)
        if calls := listening.calls:
            self.rows.append(
                Row(plan=plan, draft=draft, twin=twin, cpu_ms=ms, twin_cpu_ms=twin_ms, calls=calls)
            )
        return draft


def _timed(summarizers: Sequence[Summarizer], plan: Plan, counter: Counter) -> tuple[Draft, float]:
    """The draft, and milliseconds of processor time."""
    snapshot = replace(plan.snapshot, unelided=replace(plan.snapshot.before, memo={}), memo={})
    own = replace(plan, snapshot=snapshot)
    began = time.process_time()
    draft = Writer(lambda _policy: summarizers, TemplateLoader()).best(own, counter)
    return draft, 1e3 * (time.process_time() - began)


def played(session: Session, model_of: ModelOf, compactions: int) -> Iterator[Row]:
    """The session's compactions for which the model was asked, up to so many."""
    both, counter = Both(model_of), CountedOnce(counter_for("o200k_base"))
    policy = Policy(max_tokens=session.max_tokens, summarizer="openai", model="any")
    metered = MeteredSummarizer(ExtractiveSummarizer(), counter)
    live = InMemorySession(policy, session.system, metered)
    live._writer = both  # type: ignore[assignment]
    for message in session.messages:
        seen = len(both.rows)
        live.push(dict(message))
        for row in both.rows[seen:]:
            row.committed = live.stored is row.draft.context
            row.context = live.read()
            yield row
        if len(both.rows) >= compactions:
            break
