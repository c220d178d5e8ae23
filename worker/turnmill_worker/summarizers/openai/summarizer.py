"""Summaries by models: live, or in batches, over one endpoint's connections; imports ``openai``.

In chunks, between marks, checked before it is believed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Self, TypeVar

import openai
from openai.types import Batch
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from turnmill.contract.estimate import Counter
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import (
    BatchFailed,
    SummarizerMisconfigured,
    SummarizerUnavailable,
    UnusableSummary,
)
from turnmill_worker.ports.protocols import AwaitedSummary, Gates, digest
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import Settings
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.summarizers.openai.checked_request import Setup, Work
from turnmill_worker.summarizers.openai.endpoint import (
    Answer,
    Api,
    Endpoint,
    GatedEndpoint,
    ModelEndpoint,
    ModelOptions,
    from_chat,
    from_response,
    from_usage,
    read_key,
)
from turnmill_worker.summarizers.openai.prices import Prices, load_prices
from turnmill_worker.summarizers.openai.verify import Standing
from turnmill_worker.summarizers.redaction import Redactor, load_redactor


class OpenAiSummarizer:
    """Writes summaries with one model; cheap to make, safe to use from many threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        options: ModelOptions,
        *,
        redactor: Redactor | None = None,
        prices: Prices | None = None,
        nonce: Callable[[int], str] = secrets.token_hex,
        standing: Standing | None = None,
    ) -> None:
        """A summarizer; nothing is sent yet.

        Args:
            endpoint: who is asked.
            options: how.
            redactor: what is applied to all text before it leaves.
            prices: what tokens cost; OpenAI's list prices when None.
            nonce: makes the code of a request's marks: this many bytes as hex digits.
            standing: how far the model is believed; nothing is held against it when None.
        """
        self.setup = Setup(
            endpoint=endpoint,
            options=options,
            prices=prices or load_prices(),
            redactor=redactor,
            nonce=nonce,
            standing=standing or Standing(),
        )

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """A summarizer with all of this setup."""
        return cls(
            setup.endpoint,
            setup.options,
            redactor=setup.redactor,
            prices=setup.prices,
            nonce=setup.nonce,
            standing=setup.standing,
        )

    def __repr__(self) -> str:
        return f"OpenAiSummarizer(model={self.setup.options.model!r})"

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """A checked summary of at most ``request.budget_tokens`` by this counter, and its cost.

        Raises:
            SummarizerUnavailable: the same request may succeed later.
            SummarizerMisconfigured: it will not until a setting is changed.
            UnusableSummary: the model's texts must not be committed.
        """
        return written(Work(self.setup, request, counter))


def written(work: Work, answered: Answer | None = None) -> Summary:
    """The work's summary and its cost; ``answered`` as of ``Work.write``, errors as above."""
    try:
        made = work.write(answered)
    except (SummarizerUnavailable, SummarizerMisconfigured, UnusableSummary) as error:
        error.spent, error.items = error.spent + work.asker.spent, work.dropped
        raise
    spent = work.asker.spent
    return Summary(
        text=made.text,
        model=work.setup.options.model,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        cost_usd=spent.cost_usd,
        items=made.items,
        added=made.added,
        dropped=made.dropped,
    )


T = TypeVar("T")

_PATHS: Final[dict[Api, Any]] = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
_FILES_LIVE_S: Final = 2 * 24 * 3600
"""A batch takes a day at most; nobody looks for its files on the day after the next."""

_ENDED: Final = frozenset({"failed", "expired", "cancelled", "cancelling"})
_SILENCE_S: Final = 20.0
"""Longest silence when something is only looked up: most of those calls come too early."""

_CONNECT_S: Final = 5.0
_OK: Final = 200
_OUTPUT_SHARE: Final = 4
"""Answers take this part of a window at most, or a small one leaves nothing for what is said."""


class OpenAiBatches:
    """Batches at one endpoint, for one model; cheap to make, safe to use from many threads."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._endpoint = setup.endpoint
        self._options: ModelOptions = setup.options

    def submit(self, request: SummaryRequest, counter: Counter) -> AwaitedSummary | None:
        """Hand in what a live request would send first; None when one prompt does not hold it.

        Raises:
            SummarizerUnavailable, SummarizerMisconfigured: the endpoint did not take it.
            UnusableSummary: there is nothing to summarize.
        """
        work = Work(self._setup, request, counter)
        prompt = work.only_prompt()
        if prompt is None:
            return None
        key = digest(request)
        line = {
            "custom_id": _custom_id(key),
            "method": "POST",
            "url": _PATHS[self._options.api],
            "body": self._endpoint.body(prompt, self._options),
        }
        content = json.dumps(line).encode() + b"\n"
        file_id = self._run(lambda client: _upload(client, content, self._timeout()))
        try:
            batch_id = self._run(lambda client: self._create(client, file_id))
        except (SummarizerUnavailable, SummarizerMisconfigured):
            with suppress(SummarizerUnavailable, SummarizerMisconfigured):
                self._delete(file_id)
            raise
        return AwaitedSummary(
            batch=batch_id,
            file=file_id,
            nonce=work.marks.nonce,
            model=self._options.model,
            digest=key,
        )

    def poll(self, awaited: AwaitedSummary) -> BatchedAnswer | None:
        """The answer, as a summarizer that has it; None while the endpoint works on it.

        Raises:
            SummarizerUnavailable: it cannot be asked now.
            BatchFailed, SummarizerMisconfigured: there will be no answer.
        """
        batch = self._run(lambda client: _retrieve(client, awaited.batch))
        if batch.status in _ENDED:
            raise BatchFailed(f"{awaited.model}: the batch is {batch.status}")
        if batch.status != "completed":
            return None
        file_id = batch.output_file_id
        if not file_id:
            raise BatchFailed(f"{awaited.model}: the batch has no answer")
        return BatchedAnswer(self._setup, awaited, self._answer(file_id, awaited))

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """What the batch has cost by now, if the endpoint can be asked and tells.

        Priced by the usage of the batch, else by that of the answer. Nothing while there is
        neither: a batch that is cancelled under way may still be billed, and no call says so.
        Nothing as well while the endpoint cannot be asked.
        """
        with suppress(SummarizerUnavailable, SummarizerMisconfigured, BatchFailed):
            batch = self._run(lambda client: _retrieve(client, awaited.batch))
            answer = from_usage(batch.usage, awaited.model)
            if answer is None and batch.output_file_id:
                answer = self._answer(batch.output_file_id, awaited)
            if answer is not None:
                return self._setup.prices.spent(replace(answer, batched=True), awaited.model)
        return NOTHING

    def discard(self, awaited: AwaitedSummary) -> None:
        """End the batch if it is under way, and delete its files; what fails is left to expire."""
        with suppress(SummarizerUnavailable):
            files: list[str | None] = [awaited.file]
            with suppress(SummarizerMisconfigured):
                batch = self._run(lambda client: _retrieve(client, awaited.batch))
                files += [batch.output_file_id, batch.error_file_id]
                if batch.status != "completed" and batch.status not in _ENDED:
                    self._run(lambda client: client.batches.cancel(awaited.batch, timeout=_soon()))
            for file_id in filter(None, files):
                with suppress(SummarizerMisconfigured):
                    self._delete(file_id)

    def _answer(self, file_id: str, awaited: AwaitedSummary) -> Answer:
        text = self._run(lambda client: client.files.content(file_id, timeout=self._timeout()).text)
        return _answer_in(text, awaited, self._options.api)

    def _create(self, client: openai.OpenAI, file_id: str) -> str:
        batch = client.batches.create(
            completion_window="24h",
            endpoint=_PATHS[self._options.api],
            input_file_id=file_id,
            output_expires_after={"anchor": "created_at", "seconds": _FILES_LIVE_S},
            timeout=self._timeout(),
        )
        return _text(batch.id)

    def _delete(self, file_id: str) -> None:
        self._run(lambda client: client.files.delete(file_id, timeout=_soon()))

    def _run(self, call: Callable[[openai.OpenAI], T]) -> T:
        return self._endpoint.run(call, self._options)

    def _timeout(self) -> openai.Timeout:
        return openai.Timeout(self._options.timeout_s, connect=_CONNECT_S)


class BatchedAnswer:
    """The ``Summarizer`` port over a batch's answer: checked as a live one is.

    If the answer may not be committed, one other prompt is asked live, as after a live answer.
    Any request but the batch's own is asked live altogether.
    """

    def __init__(self, setup: Setup, awaited: AwaitedSummary, answer: Answer) -> None:
        self._setup = setup
        self._awaited = awaited
        self._answer = answer

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The summary, and its cost; see ``OpenAiSummarizer.summarize``."""
        if digest(request) != self._awaited.digest:
            return OpenAiSummarizer.of(self._setup).summarize(request, counter)
        setup = replace(self._setup, nonce=lambda _: self._awaited.nonce)
        return written(Work(setup, request, counter), self._answer)


def _custom_id(key: str) -> str:
    return f"turnmill-{key[:32]}"


def _upload(client: openai.OpenAI, content: bytes, timeout: openai.Timeout) -> str:
    file = client.files.create(
        file=("turnmill.jsonl", content, "application/jsonl"),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": _FILES_LIVE_S},
        timeout=timeout,
    )
    return _text(file.id)


def _retrieve(client: openai.OpenAI, batch_id: str) -> Batch:
    batch = client.batches.retrieve(batch_id, timeout=_soon())
    _text(batch.status)
    return batch


def _soon() -> openai.Timeout:
    return openai.Timeout(_SILENCE_S, connect=_CONNECT_S)


def _text(value: Any) -> str:
    """The value, which must be a text: the package checks nothing."""
    if not isinstance(value, str) or not value:
        raise TypeError("not a text")
    return value


def _answer_in(text: str, awaited: AwaitedSummary, api: Api) -> Answer:
    """The answer to the request in a batch's output file."""
    try:
        lines = [json.loads(line) for line in text.split("\n") if line.strip()]
        own = next(one for one in lines if one["custom_id"] == _custom_id(awaited.digest))
        response = own["response"]
        if response["status_code"] == _OK:
            body = response["body"]
            answer = (
                from_response(Response.construct(**body))
                if api == "responses"
                else from_chat(ChatCompletion.construct(**body))
            )
            return replace(answer, batched=True)
        problem = f"HTTP {int(response['status_code'])}"
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        problem = type(error).__name__
    raise BatchFailed(f"{awaited.model}: the batch's answer is an error ({problem})")


class Connected:
    """One process's connections, for all models at the settings' endpoint."""

    def __init__(self, settings: Settings, gates: Gates | None) -> None:
        """Nothing is sent yet.

        Raises:
            SummarizerMisconfigured: there is no key, or a setting cannot be used.
        """
        self._settings = settings
        self._gates = gates
        self._redactor = load_redactor(settings.redactor)
        self._prices = load_prices(settings.model_prices, url=settings.model_url)
        key = read_key(settings.model_key, file=settings.model_key_file)
        self._endpoint = ModelEndpoint(api_key=key, base_url=settings.model_url)
        self._summarizer = lru_cache(maxsize=64)(self._new_summarizer)

    def summarizer(self, model: str, policy: Policy) -> OpenAiSummarizer:
        """The summarizer that asks this model as the policy says."""
        window = self._window_tokens(model)
        return self._summarizer(
            ModelOptions(
                model=model,
                temperature=policy.temperature,
                reasoning_effort=policy.reasoning_effort,
                max_output_tokens=min(policy.max_output_tokens, window // _OUTPUT_SHARE),
                timeout_s=policy.model_timeout_s,
                window_tokens=window,
                api=self._settings.model_api,
            )
        )

    def batches(self, model: str, policy: Policy) -> OpenAiBatches:
        """Batches of requests to this model."""
        return OpenAiBatches(self.summarizer(model, policy).setup)

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _window_tokens(self, model: str) -> int:
        """What the model reads at once: as set, or else as the endpoint tells."""
        settings = self._settings
        if "model_window_tokens" in settings.model_fields_set:
            return settings.model_window_tokens
        return self._endpoint.window_tokens(model) or settings.model_window_tokens

    def _new_summarizer(self, options: ModelOptions) -> OpenAiSummarizer:
        gate = self._gates(self._settings.model_url, options.model) if self._gates else None
        return OpenAiSummarizer(
            GatedEndpoint(self._endpoint, gate) if gate else self._endpoint,
            options,
            redactor=self._redactor,
            prices=self._prices,
        )
