"""The fake endpoint is one to real clients, and fails as it is told."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import typer
from typer.testing import CliRunner

from turnmill.testing import FAULTS, FakeEndpoint, Fault
from turnmill.testing.faults import Faults
from turnmill.testing.model import INJECTED
from turnmill_cli.app import app

SAID = "Please move meeting 4411 to Friday. Never invite Bob. Can you book room 7?"


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as serving:
        yield serving


@pytest.fixture
def client(endpoint: FakeEndpoint) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=endpoint.base_url, max_retries=0, timeout=0.5) as made:
        yield made


def ask(client: openai.OpenAI, text: str = SAID) -> Any:
    return client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": text}]
    )


def test_a_chat_completion_keeps_what_was_said(client: openai.OpenAI) -> None:
    answer = ask(client)

    text = answer.choices[0].message.content
    assert text.startswith("## Goal\n- Please move meeting 4411 to Friday.")
    assert "## Constraints\n- Please move meeting 4411 to Friday.\n- Never invite Bob." in text
    assert "## Open questions\n- Can you book room 7?" in text
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == len(SAID) // 4


def test_a_response_says_the_same(client: openai.OpenAI) -> None:
    response = client.responses.create(model="fake", input=SAID)

    assert response.output_text == ask(client).choices[0].message.content
    assert response.status == "completed"


def test_the_same_input_gives_the_same_answer(client: openai.OpenAI) -> None:
    assert ask(client).choices[0].message.content == ask(client).choices[0].message.content


def test_sections_are_those_the_instructions_name(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fake",
        messages=[
            {"role": "system", "content": "# Help\n\n## Task\nWhat.\n\n## Facts\nAll."},
            {"role": "user", "content": SAID},
        ],
    )

    text = answer.choices[0].message.content or ""
    assert [line for line in text.split("\n") if line.startswith("## ")] == ["## Task", "## Facts"]


def test_an_answer_stays_within_what_it_was_allowed(client: openai.OpenAI) -> None:
    long = " ".join(f"Item {at} costs {at} dollars." for at in range(500))

    answer = ask(client, f"{long}\nWrite at most 150 tokens.")

    assert answer.usage.completion_tokens <= 150


def test_embeddings_are_alike_where_words_are(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="fake", input=["a red lamp", "the red lamp", "tea"])

    one, two, three = (item.embedding for item in found.data)

    def alike(left: list[float], right: list[float]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True))

    assert alike(one, two) > alike(one, three) + 0.3


def test_models_are_listed() -> None:
    with (
        FakeEndpoint(models=["big", "small"]) as endpoint,
        openai.OpenAI(api_key="k", base_url=endpoint.base_url) as client,
    ):
        assert [model.id for model in client.models.list()] == ["big", "small"]
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="huge", messages=[])


def test_only_its_own_key_is_accepted() -> None:
    with (
        FakeEndpoint(key="right") as endpoint,
        openai.OpenAI(api_key="wrong", base_url=endpoint.base_url) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        ask(client)


def test_requests_are_recorded(endpoint: FakeEndpoint, client: openai.OpenAI) -> None:
    endpoint.fail_next("empty")
    ask(client)

    (recorded,) = endpoint.requests
    assert recorded.path == "/v1/chat/completions"
    assert recorded.key == "k"
    assert recorded.prompt == SAID
    assert recorded.fault == "empty"


ERRORS: dict[Fault, type[Exception]] = {
    "400": openai.BadRequestError,
    "401": openai.AuthenticationError,
    "403": openai.PermissionDeniedError,
    "404": openai.NotFoundError,
    "429": openai.RateLimitError,
    "429-retry-after": openai.RateLimitError,
    "500": openai.InternalServerError,
    "503": openai.InternalServerError,
    "timeout": openai.APITimeoutError,
    "reset": openai.APIConnectionError,
    "malformed": json.JSONDecodeError,
}


@pytest.mark.parametrize(("fault", "error"), ERRORS.items())
def test_a_client_meets_the_error_that_was_asked_for(
    endpoint: FakeEndpoint, client: openai.OpenAI, fault: Fault, error: type[Exception]
) -> None:
    endpoint.fail_next(fault)

    with pytest.raises(error) as caught:
        ask(client)
    assert type(caught.value) is error
    assert ask(client).choices[0].finish_reason == "stop"


def test_retry_after_is_sent_only_when_asked_for(
    endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    waits = []
    endpoint.fail_next("429", "429-retry-after")
    for _ in range(2):
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client)
        waits.append(caught.value.response.headers.get("retry-after"))

    assert waits == [None, "1"]


@pytest.mark.parametrize(
    ("fault", "telling"),
    [
        ("empty", ""),
        ("refusal-text", "I'm sorry"),
        ("echo", SAID),
        ("oversize", "Remark 511"),
        ("wrong-language", "Пользователь"),
        ("injected", INJECTED),
        ("length", "## Goal"),
    ],
)
def test_a_bad_text_is_what_its_name_says(
    endpoint: FakeEndpoint, client: openai.OpenAI, fault: Fault, telling: str
) -> None:
    endpoint.fail_next(fault)
    choice = ask(client).choices[0]

    assert telling in choice.message.content
    assert choice.finish_reason == ("length" if fault == "length" else "stop")


def test_another_language_is_english_to_those_who_use_none(
    endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    endpoint.fail_next("wrong-language")

    assert "The person talked" in ask(client, "Переведи, пожалуйста").choices[0].message.content


def test_a_refusal_has_no_content(endpoint: FakeEndpoint, client: openai.OpenAI) -> None:
    endpoint.fail_next("refusal", "content-filter")

    assert ask(client).choices[0].message.refusal
    assert ask(client).choices[0].finish_reason == "content_filter"


def test_a_reset_is_one_on_the_wire(endpoint: FakeEndpoint) -> None:
    endpoint.fail_next("reset")
    url = urlsplit(endpoint.base_url)
    body = json.dumps({"messages": [{"role": "user", "content": SAID}]})

    with socket.create_connection((url.hostname, url.port or 0)) as connection:
        connection.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            f"{body}".encode()
        )
        with pytest.raises(ConnectionResetError):
            _read_to_the_end(connection)


def _read_to_the_end(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        time.sleep(0.01)


def test_faults_by_chance_are_repeatable_and_as_many_as_asked_for() -> None:
    shares: dict[Fault, float] = {"500": 0.2, "timeout": 0.1}
    drawn = [[Faults((), shares, seed).draw() for _ in range(1)] for seed in range(3)]
    again = [[Faults((), shares, seed).draw() for _ in range(1)] for seed in range(3)]
    many = Faults((), shares, seed=1)
    counted = Counter(many.draw() for _ in range(5_000))

    assert drawn == again
    assert 0.17 < counted["500"] / 5_000 < 0.23
    assert 0.08 < counted["timeout"] / 5_000 < 0.12


def test_a_script_comes_before_chance() -> None:
    faults = Faults(["404", "empty"], {"500": 1.0})
    faults.ask("reset")

    assert [faults.draw() for _ in range(4)] == ["404", "empty", "reset", "500"]


@pytest.mark.parametrize(
    ("script", "shares"), [(["418"], {}), ([], {"418": 0.1}), ([], {"500": 0.7, "401": 0.7})]
)
def test_faults_that_cannot_be_are_refused(script: list[Any], shares: Any) -> None:
    with pytest.raises(ValueError, match=r"allowed are|in 0\.\.1"):
        Faults(script, shares)


def test_it_recovers_when_told(client: openai.OpenAI, endpoint: FakeEndpoint) -> None:
    endpoint.fail_next("500", "500", "500")
    endpoint.recover()

    assert ask(client).choices


def test_requests_are_served_at_a_time_and_counted() -> None:
    with (
        FakeEndpoint(latency_s=1.0) as endpoint,
        openai.OpenAI(api_key="k", base_url=endpoint.base_url) as client,
        ThreadPoolExecutor(24) as pool,
    ):
        list(pool.map(lambda _: ask(client), range(24)))

        assert endpoint.peak > 12


def test_it_closes_at_once_with_requests_hanging() -> None:
    with ThreadPoolExecutor(1) as pool:
        with FakeEndpoint(script=["timeout"]) as endpoint:
            url = urlsplit(endpoint.base_url)

            def hang() -> None:
                connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
                try:
                    connection.request("POST", "/v1/embeddings", body="{}")
                    connection.getresponse()
                finally:
                    connection.close()

            hanging = pool.submit(hang)
            while not endpoint.requests:
                time.sleep(0.01)
            start = time.perf_counter()
        assert time.perf_counter() - start < 5
        assert isinstance(hanging.exception(timeout=5), ConnectionError | http.client.HTTPException)


def test_it_has_no_url_outside_its_block() -> None:
    with pytest.raises(RuntimeError, match="with block"):
        _ = FakeEndpoint().base_url


def test_what_is_no_json_or_no_path_is_answered_too(endpoint: FakeEndpoint) -> None:
    url = urlsplit(endpoint.base_url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    connection.request("POST", "/v1/chat/completions", body="{")
    first = connection.getresponse()
    first.read()
    connection.request("POST", "/v1/nothing", body="[]")
    second = connection.getresponse()
    second.read()
    connection.close()

    assert (first.status, second.status) == (200, 404)


# --- the command -------------------------------------------------------------------------------


def test_the_command_is_hidden_and_explains_itself() -> None:
    assert "fake-llm" not in CliRunner().invoke(app, ["--help"]).output
    assert "NAME=SHARE" in CliRunner().invoke(app, ["fake-llm", "--help"]).output


def test_the_command_serves_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupted(_: float) -> None:
        url = urlsplit(shown[0])
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        connection.request("GET", "/v1/models")
        seen.append(connection.getresponse().status)
        connection.close()
        raise KeyboardInterrupt

    shown: list[str] = []
    monkeypatch.setattr(time, "sleep", interrupted)
    monkeypatch.setattr(typer, "echo", shown.append)
    outcome = CliRunner().invoke(
        app, ["fake-llm", "--port", "0", "--latency", "0", "--fault", "500=0.1"]
    )

    assert outcome.exit_code == 0
    assert seen == [200]


@pytest.mark.parametrize("given", ["418=0.1", "500=x", "500=0.6 401=0.6"])
def test_the_command_refuses_faults_it_does_not_know(given: str) -> None:
    options = [word for item in given.split() for word in ("--fault", item)]

    outcome = CliRunner().invoke(app, ["fake-llm", *options])

    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("InvalidInput: --fault")


def test_a_body_that_drips_is_whole_in_the_end_or_breaks_off(endpoint: FakeEndpoint) -> None:
    endpoint.hang_s = 0.35
    endpoint.fail_next("drip")

    status, length, got, took_s = _post(endpoint)

    assert status == 200
    assert got == 3 < length
    assert took_s > 0.25


def test_a_huge_body_has_no_length_and_goes_on(endpoint: FakeEndpoint) -> None:
    endpoint.hang_s = 0.3
    endpoint.fail_next("huge")

    _, length, got, _ = _post(endpoint)

    assert length == -1
    assert got > 1_000_000


def _post(endpoint: FakeEndpoint) -> tuple[int, int, int, float]:
    """Status, length as told or -1, bytes that came, and seconds they took."""
    url = urlsplit(endpoint.base_url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    body = json.dumps({"messages": [{"role": "user", "content": SAID}]})
    start = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body=body)
    response = connection.getresponse()
    try:
        got = len(response.read())
    except http.client.IncompleteRead as error:
        got = len(error.partial)
    connection.close()
    length = int(response.headers.get("Content-Length") or -1)
    return response.status, length, got, time.perf_counter() - start


def test_every_fault_can_be_served(client: openai.OpenAI, endpoint: FakeEndpoint) -> None:
    endpoint.hang_s = 0.3
    for fault in FAULTS:
        endpoint.fail_next(fault)
    for _ in FAULTS:
        try:
            ask(client)
        except (openai.OpenAIError, ValueError):
            continue

    assert [recorded.fault for recorded in endpoint.requests] == list(FAULTS)
