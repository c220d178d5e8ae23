"""Embeddings reorder what BM25 found; when their endpoint fails, BM25's order stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.unit.grounding.endpoint import Endpoint, serving
from turnmill_worker.ports.values import Memory
from turnmill_worker.requests import grounding as hybrid_module
from turnmill_worker.requests.embeddings import OpenAiEmbedder
from turnmill_worker.requests.grounding import (
    EmbeddingsUnavailable,
    Found,
    HybridSearch,
    MemoryIndex,
)
from turnmill_worker.summarizers.redaction import redact, safely

KEY = "sk-very-secret"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as served:
        yield served


@pytest.fixture
def embedder(endpoint: Endpoint) -> Iterator[OpenAiEmbedder]:
    with connected(endpoint) as made:
        yield made


def connected(endpoint: Endpoint, **more: Any) -> OpenAiEmbedder:
    values: dict[str, Any] = {"timeout_s": 5.0, **more}
    return OpenAiEmbedder(model="small", api_key=SecretStr(KEY), base_url=endpoint.url, **values)


def found(query: str, *texts: str) -> list[Found]:
    index = MemoryIndex(Memory(id=text, kind="pushed", text=text) for text in texts)
    return index.search(query, hybrid_module.CANDIDATES)


def test_texts_are_redacted_before_they_are_cut_and_leave(endpoint: Endpoint) -> None:
    with connected(endpoint, longest=30, redactor=redact) as embedder:
        embedder.embed(["tea for somebody.long@example.com"])

    assert [request["input"] for request in endpoint.requests] == [["tea for [redacted email]"]]


def test_a_redactor_that_fails_lets_no_text_leave(endpoint: Endpoint) -> None:
    with (
        connected(endpoint, redactor=safely(lambda text: text[999], "mine")) as embedder,
        pytest.raises(EmbeddingsUnavailable, match="redactor 'mine': IndexError"),
    ):
        embedder.embed(["tea"])

    assert endpoint.requests == []


def test_an_endpoint_cannot_send_texts_on(endpoint: Endpoint, embedder: OpenAiEmbedder) -> None:
    with serving() as elsewhere:
        endpoint.status, endpoint.location = 307, f"{elsewhere.url}/embeddings"
        with pytest.raises(EmbeddingsUnavailable):
            embedder.embed(["tea"])

    assert elsewhere.requests == []


def test_the_meaning_of_a_question_reorders_what_its_words_found(embedder: OpenAiEmbedder) -> None:
    plain = found("red boat", "red tea", "a red kayak", "the feline slept on a red blanket")

    best, degraded = HybridSearch(embedder).order("red boat", plain, 3)

    assert plain[0].memory.id != "a red kayak"
    assert best[0].memory.id == "a red kayak"
    assert degraded == ""
    assert all(0 <= each.relevance <= 1 for each in best)


NOT_VECTORS = [
    b"",
    b"not json",
    b"{}",
    b'{"data": null}',
    b'{"data": [{"index": 0, "embedding": "!!"}, {"index": 1, "embedding": "!!"}]}',
    b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1]}]}',
    b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]}',
]


@pytest.mark.parametrize("body", NOT_VECTORS)
def test_an_answer_without_vectors_leaves_the_words_order(
    endpoint: Endpoint, embedder: OpenAiEmbedder, body: bytes
) -> None:
    endpoint.body = body
    plain = found("kayak", "a red kayak")

    best, degraded = HybridSearch(embedder).order("kayak", plain, 3)

    assert best == plain
    assert degraded.startswith("small")


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_endpoint_that_refuses_leaves_the_words_order_and_leaks_nothing(
    endpoint: Endpoint, embedder: OpenAiEmbedder, status: int
) -> None:
    endpoint.status = status
    endpoint.body = b'{"error": {"message": "refused: a red kayak"}}'
    plain = found("kayak", "a red kayak")

    best, degraded = HybridSearch(embedder).order("kayak", plain, 3)

    assert best == plain
    assert "kayak" not in degraded
    assert KEY not in degraded
    assert len(endpoint.requests) == 1


def test_an_endpoint_that_failed_is_left_alone_for_a_while(
    endpoint: Endpoint, embedder: OpenAiEmbedder
) -> None:
    now = [100.0]
    hybrid = HybridSearch(embedder, clock=lambda: now[0])
    plain = found("kayak", "a red kayak")
    endpoint.status = 503

    told = [hybrid.order("kayak", plain, 3)[1] for _ in range(3)]
    asked = len(endpoint.requests)
    endpoint.status = 200
    now[0] += hybrid_module.REST_S
    _, after = hybrid.order("kayak", plain, 3)

    assert told == ["small: InternalServerError"] * 3
    assert asked == 1
    assert after == ""
