"""Keys, waits and connections."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from pydantic import SecretStr

from tests.unit.summarizers.openai.talks import COUNTER, KEY, connected, request
from turnmill.testing import FakeEndpoint
from turnmill_worker.errors import SummarizerMisconfigured, SummarizerUnavailable, UnusableSummary
from turnmill_worker.summarizers.openai.endpoint import (
    ModelEndpoint,
    from_chat,
    from_response,
    read_key,
    retry_after_s,
    translated,
)


def test_a_key_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\n")

    assert read_key(SecretStr(""), file=file).get_secret_value() == KEY
    assert read_key(SecretStr("given"), file=file).get_secret_value() == "given"


def test_a_key_that_is_nowhere_is_a_setting_to_change(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()

    with pytest.raises(SummarizerMisconfigured, match="no key"):
        read_key(SecretStr(""))
    with pytest.raises(SummarizerMisconfigured, match="is empty"):
        read_key(SecretStr(""), file=empty)
    with pytest.raises(SummarizerMisconfigured, match="FileNotFoundError"):
        read_key(SecretStr(""), file=tmp_path / "none")


@pytest.mark.parametrize("key", ["", "sk-a b", "sk-a\nb", "sk-ä"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    with pytest.raises(SummarizerMisconfigured, match=f"got {len(key)} characters") as caught:
        ModelEndpoint(api_key=SecretStr(key))

    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://[half", "ftp://host"])
def test_a_base_url_that_is_none_is_a_setting_to_change(url: str) -> None:
    with pytest.raises(SummarizerMisconfigured, match="base_url"):
        ModelEndpoint(api_key=SecretStr(KEY), base_url=url)


def test_an_endpoint_shows_no_key() -> None:
    with ModelEndpoint(api_key=SecretStr(KEY)) as endpoint:
        assert KEY not in repr(endpoint)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(1_800_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(1_700_000_000, usegmt=True)}, 0.0),
    ],
)
def test_how_long_to_wait_is_read_in_all_its_forms(
    headers: dict[str, str], wait: float | None
) -> None:
    assert retry_after_s(headers, now_s=1_800_000_000.0) == wait


@pytest.mark.parametrize("code", ["insufficient_quota", "context_length_exceeded"])
def test_some_refusals_do_not_pass_whatever_their_status(code: str) -> None:
    response: Any = SimpleNamespace(status_code=429, headers={}, request=None)
    error = openai.RateLimitError("secret words", response=response, body={"code": code})

    failure = translated(error, model="m", timeout_s=1)

    assert isinstance(failure, SummarizerMisconfigured)
    assert str(failure) == f"m: HTTP 429, {code}"


def test_a_redirect_is_a_setting_to_change() -> None:
    response: Any = SimpleNamespace(status_code=307, headers={}, request=None)
    error = openai.APIStatusError("moved", response=response, body=None)

    assert isinstance(translated(error, model="m", timeout_s=1), SummarizerMisconfigured)


@pytest.mark.parametrize("read", [from_chat, from_response])
@pytest.mark.parametrize("answer", [None, "a page", SimpleNamespace(choices=[], output=None)])
def test_what_is_no_answer_is_an_error(read: Any, answer: Any) -> None:
    with pytest.raises((AttributeError, IndexError, TypeError)):
        read(answer)


def test_an_answer_whose_content_is_no_text_is_an_error() -> None:
    message = SimpleNamespace(content=["a"], refusal=None)
    choice = SimpleNamespace(message=message, finish_reason="stop")

    with pytest.raises(TypeError, match="not text"):
        from_chat(SimpleNamespace(choices=[choice]))


@pytest.mark.parametrize(
    "error",
    [
        SummarizerUnavailable("m: HTTP 429", retry_after_s=3.0),
        SummarizerMisconfigured("m: HTTP 401"),
        UnusableSummary("m: empty", kinds=("empty", "empty")),
    ],
)
def test_errors_survive_the_way_between_processes(error: Exception) -> None:
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_many_threads_share_one_summarizer() -> None:
    with FakeEndpoint(latency_s=0.2) as slow:
        summarizer = connected(slow)
        with ThreadPoolExecutor(16) as pool:
            texts = list(
                pool.map(lambda _: summarizer.summarize(request(), COUNTER).text, range(32))
            )

        assert len(set(texts)) == 1
        assert slow.peak > 8
