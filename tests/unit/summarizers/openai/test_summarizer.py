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
from turnmill.contract.names import Seq
from turnmill.contract.rules import Rule
from turnmill.testing import FakeEndpoint
from turnmill_worker.compaction.items import items_of
from turnmill_worker.summarizers.redaction import redact

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" + "A" * 2_000


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_summary_has_items_and_the_facts(
    endpoint: FakeEndpoint, api: Literal["chat", "responses"]
) -> None:
    summary = connected(endpoint, api=api).summarize(request(), COUNTER)

    found = items_of(summary.text)
    assert {item[:3] for item in found} == {item[:3] for item in summary.items}
    assert "never write to my old address" in next(
        item.text for item in found if item.kind == "rule" and item.seqs == (5,)
    )
    assert ORDER in summary.text
    assert "credit_card_4421" in summary.text
    assert COUNTER.count(summary.text) <= 400


def test_the_responses_api_is_told_to_store_nothing(endpoint: FakeEndpoint) -> None:
    connected(endpoint, api="responses", max_output_tokens=300).summarize(request(), COUNTER)

    body = endpoint.requests[0].body
    assert endpoint.requests[0].path == "/v1/responses"
    assert (body["store"], body["max_output_tokens"]) == (False, 300)
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


def test_a_long_conversation_is_read_in_parts_that_each_give_items(endpoint: FakeEndpoint) -> None:
    talk = [
        user(f"Please note that crate {at} weighs {at * 3} kg and must not be stacked anywhere.")
        for at in range(100, 500)
    ]

    summary = connected(endpoint, window_tokens=8_000, max_output_tokens=1_000).summarize(
        request(*talk, budget=800), COUNTER
    )

    prompts = [each.prompt for each in endpoint.requests]
    assert len(prompts) > 2
    for at in range(100, 500):
        assert sum(f"crate {at} weighs" in prompt for prompt in prompts) == 1
    assert all(COUNTER.count(prompt) + 1_000 <= 8_000 for prompt in prompts)
    cited = {seq for item in summary.items for seq in item.seqs}
    assert min(cited) < 100
    assert max(cited) > 200
    assert COUNTER.count(summary.text) <= 800
    assert summary.prompt_tokens == sum(len(prompt) // 4 for prompt in prompts)


def test_a_managed_text_about_a_long_conversation_is_written_from_items(
    endpoint: FakeEndpoint,
) -> None:
    talk = [
        user(f"Please note that crate {at} weighs {at * 3} kg and must not be stacked anywhere.")
        for at in range(100, 500)
    ]

    connected(endpoint, window_tokens=8_000, max_output_tokens=1_000).summarize(
        request(*talk, budget=600, instructions="Write it.\n\n## Story"), COUNTER
    )

    *parts, last = endpoint.requests
    assert len(parts) > 2
    assert all("`items`" in part.body["messages"][0]["content"] for part in parts)
    assert last.body["messages"][0]["content"].startswith("Write it.")
    assert "<<notes" in last.body["messages"][1]["content"]


def test_what_stands_anyway_is_shown_and_not_said_again(endpoint: FakeEndpoint) -> None:
    previous = '- done: calls get_order({"order": "#W7710442"}) (#2)\n1 user: Hello?'
    rule = Rule(seq=Seq(5), text=str(TALK[4]["content"]))

    summary = connected(endpoint).summarize(request(previous=previous, rules=(rule,)), COUNTER)

    given = endpoint.requests[0].body["messages"][1]["content"]
    shown = given[given.index("<<summary so far") : given.index("<<conversation")]
    assert rule.text in shown
    assert previous.split("\n", maxsplit=1)[0] in shown
    assert "Hello" not in shown
    assert summary.text.count("calls get_order") == 1
    assert rule.text not in summary.text
    assert summary.dropped["stated"] == 1
