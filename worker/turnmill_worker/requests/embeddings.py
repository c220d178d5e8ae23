"""Vectors of texts from an OpenAI-compatible endpoint; imports ``openai``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Self

import openai
from pydantic import SecretStr

from turnmill_worker.errors import SummarizerFailed
from turnmill_worker.requests.grounding import EmbeddingsUnavailable, Vector


class OpenAiEmbedder:
    """The ``Embedder`` port over ``POST {base_url}/embeddings``."""

    def __init__(
        self,
        *,
        model: str,
        api_key: SecretStr,
        base_url: str | None = None,
        timeout_s: float = 2.0,
        batch: int = 64,
        longest: int = 8_000,
        redactor: Callable[[str], str] | None = None,
    ) -> None:
        """An embedder; nothing is sent yet.

        Args:
            model: the endpoint's name for it.
            api_key: shown to the endpoint and nowhere else.
            base_url: such as ``http://localhost:11434/v1``; OpenAI's own when None.
            timeout_s: for one request of one batch; a question waits for a few at most.
            batch: texts per request.
            longest: characters of a text that are sent: endpoints refuse texts over their window.
            redactor: applied to every text before it leaves; when it fails, no text leaves.
        """
        self._client = openai.OpenAI(
            api_key=api_key.get_secret_value(),
            base_url=base_url,
            timeout=timeout_s,
            # A second try helps nobody while an agent waits: BM25 has answered already.
            max_retries=0,
            # Texts go where the operator said; redirects are not followed.
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
        # Imports parts of the package now, so that no request does beside other threads.
        self._embeddings = self._client.embeddings
        self._redactor = redactor
        self._model = model
        self._batch = batch
        self._longest = longest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order; see ``Embedder``."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch):
            # Endpoints refuse empty texts.
            clean = map(self._redacted, texts[start : start + self._batch])
            vectors.extend(self._request([text[: self._longest] or " " for text in clean]))
        if len({len(vector) for vector in vectors}) > 1:
            raise EmbeddingsUnavailable(f"{self._model} answered vectors of different lengths")
        return vectors

    def _redacted(self, text: str) -> str:
        try:
            return text if self._redactor is None else self._redactor(text)
        except SummarizerFailed as error:
            raise EmbeddingsUnavailable(str(error)) from None

    def _request(self, texts: list[str]) -> list[Vector]:
        try:
            answer = self._embeddings.create(model=self._model, input=texts)
            found = {item.index: item.embedding for item in answer.data}
            vectors: list[Vector] = [
                [float(value) for value in found[place]] for place in range(len(texts))
            ]
        except openai.OpenAIError as error:
            # Only the kind: an endpoint's message may repeat what it was sent.
            raise EmbeddingsUnavailable(f"{self._model}: {type(error).__name__}") from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise EmbeddingsUnavailable(
                f"{self._model} answered no vectors for {len(texts)} texts"
            ) from None
        if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
            raise EmbeddingsUnavailable(f"{self._model} answered vectors that are not finite")
        return vectors
