"""What is sent to a model, and what comes back, over real HTTP."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.unit.summarizers.openai.talks import (
    COUNTER,
    ORDER,
    TALK,
    connected,
    request,
    user,
)
from turnmill.contract.marks import MEMORIES
from turnmill.testing import FakeEndpoint
from turnmill_worker.summarizers.openai.checks.section_parser import SECTIONS, parse
from turnmill_worker.summarizers.redaction import redact

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" + "A" * 2_000


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_summary_has_all_sections_and_the_facts(
    endpoint: FakeEndpoint, api: Literal["chat", "responses"]
) -> None:
    summary = connected(endpoint, api=api).summarize(request(), COUNTER)

    parsed = parse(summary.text)
    assert tuple(parsed.bodies) == SECTIONS
    assert "never write to my old address" in parsed.bodies["Constraints"]
    assert ORDER in summary.text
    assert "credit_card_4421" in summary.text
    assert "#1–#7" in parsed.bodies["Where to look"]
    assert COUNTER.count(summary.text) <= 400


def test_the_responses_api_is_told_to_store_nothing(endpoint: FakeEndpoint) -> None:
    connected(endpoint, api="responses", max_output_tokens=900).summarize(request(), COUNTER)

    body = endpoint.requests[0].body
    assert endpoint.requests[0].path == "/v1/responses"
    assert (body["store"], body["max_output_tokens"]) == (False, 900)
    assert body["temperature"] == 0.2


def test_every_message_is_sent_once_with_who_said_it(endpoint: FakeEndpoint) -> None:
    connected(endpoint, nonce=lambda _: "0123456789ab").summarize(request(), COUNTER)

    given = endpoint.requests[0].body["messages"][1]["content"]
    for seq, message in enumerate(TALK, 1):
        assert given.count(f"<<0123456789ab #{seq} {message['role']}>>") == 1
    assert f'calls get_order({{"order": "{ORDER}"}})' in given


def test_instructions_are_the_same_for_every_request(endpoint: FakeEndpoint) -> None:
    summarizer = connected(endpoint)
    summarizer.summarize(request(), COUNTER)
    summarizer.summarize(request(user("Please find the invoice 2291."), budget=200), COUNTER)

    first, second = (each.body["messages"][0] for each in endpoint.requests)
    assert first == second


def test_memories_are_left_out(endpoint: FakeEndpoint) -> None:
    memory = {"role": "user", "name": MEMORIES, "content": "an old secret of another session"}

    connected(endpoint).summarize(request(memory, *TALK), COUNTER)

    assert "old secret" not in endpoint.requests[0].prompt


def test_images_are_sent_as_a_word(endpoint: FakeEndpoint) -> None:
    parts = [
        {"type": "text", "text": "What does this screenshot of invoice 4417 show?"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "image_url", "image_url": {"url": "blob:00ff;image/png;10x10"}},
    ]
    pasted = user(f"And this one, pasted: {IMAGE} with {IMAGE.partition(',')[2]} below it.")

    connected(endpoint).summarize(request(user(parts), pasted), COUNTER)

    prompt = endpoint.requests[0].prompt
    assert prompt.count("[image]") == 4
    assert "AAAA" not in prompt
    assert "blob:" not in prompt


def test_nothing_leaves_unredacted(endpoint: FakeEndpoint) -> None:
    secrets = ("sk-abcdefghijklmnop1234", "ann@example.org", "4111 1111 1111 1111")
    talk = [user(f"Use {secret} for the shop.") for secret in secrets]
    previous = f"The user gave {secrets[0]} for the shop."

    summary = connected(endpoint, redactor=redact).summarize(
        request(*talk, previous=previous), COUNTER
    )

    for secret in secrets:
        assert secret not in endpoint.requests[0].prompt
        assert secret not in summary.text
    assert "[redacted email]" in endpoint.requests[0].prompt


def test_a_long_conversation_is_read_in_parts_and_put_together(endpoint: FakeEndpoint) -> None:
    talk = [
        user(f"Please note that crate {at} weighs {at * 3} kg and must not be stacked anywhere.")
        for at in range(1, 400)
    ]

    summary = connected(endpoint, window_tokens=8_000, max_output_tokens=1_000).summarize(
        request(*talk, budget=800), COUNTER
    )

    prompts = [each.prompt for each in endpoint.requests]
    parts = [prompt for prompt in prompts if "This is part" in prompt]
    assert len(parts) > 2
    for at in range(1, 400):
        assert sum(f"crate {at} weighs" in part for part in parts) == 1
    positions = [part.index("#") for part in parts]
    assert positions == sorted(positions)
    assert "The notes above" in prompts[-1]
    assert all(COUNTER.count(prompt) + 1_000 <= 8_000 for prompt in prompts)
    assert COUNTER.count(summary.text) <= 800
    assert summary.prompt_tokens == sum(len(prompt) // 4 for prompt in prompts)


def test_notes_that_do_not_fit_together_are_folded_oldest_first(endpoint: FakeEndpoint) -> None:
    talk = [
        user(f"Please note that crate {at} weighs {at * 3} kg and must not be stacked anywhere.")
        for at in range(1, 400)
    ]

    connected(endpoint, window_tokens=2_700, max_output_tokens=400).summarize(
        request(*talk, budget=600), COUNTER
    )

    folds = [each.prompt for each in endpoint.requests if "The notes above" in each.prompt]
    assert len(folds) > 1
    assert "crate 1 weighs" in folds[0]
    assert "<<summary so far" not in folds[0]
    assert all("<<summary so far" in fold for fold in folds[1:])
