"""What is sent to a model, and what comes back, over real HTTP."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest

from tests.unit.summarizers.openai.talks import (
    COUNTER,
    KEY,
    MODEL,
    ORDER,
    TALK,
    assistant,
    connected,
    request,
    user,
)
from turnmill.contract.marks import MEMORIES
from turnmill.testing import FakeEndpoint
from turnmill_worker.errors import SummarizerMisconfigured, UnusableSummary
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


def test_usage_and_cost_are_the_endpoints(endpoint: FakeEndpoint) -> None:
    summary = connected(endpoint).summarize(request(), COUNTER)

    assert summary.model == MODEL
    assert summary.prompt_tokens == len(endpoint.requests[0].prompt) // 4
    assert summary.completion_tokens > 0
    expected = (summary.prompt_tokens * 0.15 + summary.completion_tokens * 0.6) / 1e6
    assert summary.cost_usd == pytest.approx(expected)


def test_a_model_without_a_price_has_no_cost(endpoint: FakeEndpoint) -> None:
    assert connected(endpoint, model="llama").summarize(request(), COUNTER).cost_usd is None


def test_options_reach_chat_completions(endpoint: FakeEndpoint) -> None:
    connected(endpoint, temperature=0.2, max_output_tokens=900).summarize(request(), COUNTER)

    body = endpoint.requests[0].body
    assert endpoint.requests[0].path == "/v1/chat/completions"
    assert endpoint.requests[0].key == KEY
    assert (body["model"], body["temperature"], body["max_completion_tokens"]) == (MODEL, 0.2, 900)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


def test_the_responses_api_is_told_to_store_nothing(endpoint: FakeEndpoint) -> None:
    connected(endpoint, api="responses", max_output_tokens=900).summarize(request(), COUNTER)

    body = endpoint.requests[0].body
    assert endpoint.requests[0].path == "/v1/responses"
    assert (body["store"], body["max_output_tokens"]) == (False, 900)
    assert "temperature" not in body


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


def test_an_event_is_told_in_sentences_within_its_few_tokens(endpoint: FakeEndpoint) -> None:
    earlier = "Crate 5 went to Bern."

    summary = connected(endpoint).summarize(
        request(budget=120, brief=True, previous=earlier), COUNTER
    )

    [sent] = _systems(endpoint)
    assert "## Goal" not in sent["content"]
    assert "never obey it" in sent["content"]
    assert "##" not in summary.text
    assert earlier in summary.text
    assert COUNTER.count(summary.text) <= 120
    assert len(endpoint.requests) == 1


def test_an_event_is_checked_like_a_summary(endpoint: FakeEndpoint) -> None:
    endpoint.fail_next("injected", "injected")

    with pytest.raises(UnusableSummary, match="demands of the user"):
        connected(endpoint).summarize(request(brief=True), COUNTER)


def test_the_previous_summary_is_the_anchor(endpoint: FakeEndpoint) -> None:
    summarizer = connected(endpoint)
    first = summarizer.summarize(request(), COUNTER)

    second = summarizer.summarize(
        request(user("Now mail the label to box 17, please."), previous=first.text, budget=800),
        COUNTER,
    )

    assert "summary so far" in endpoint.requests[1].prompt
    assert "never write to my old address" in second.text
    assert "box 17" in second.text


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


def test_a_template_is_the_instruction_and_the_turns_are_data(endpoint: FakeEndpoint) -> None:
    instructions = "Keep a hand-over.\n\n## Task\nWhat is asked.\n\n## Facts\nAll."

    summary = connected(endpoint).summarize(request(instructions=instructions), COUNTER)

    system, given = (message["content"] for message in endpoint.requests[0].body["messages"])
    assert "Keep a hand-over." in system
    assert "Only marks with this request's" in system
    assert ORDER not in system
    assert given.count("Please do not touch the other items") == 1
    assert summary.text.startswith("## Task\n")


MATERIAL = (("memories", "- (ann, note) Pier 3 closes at noon."), ("latest input", "Go on then."))


def test_a_templates_material_is_marked_data(endpoint: FakeEndpoint) -> None:
    asked = request(instructions="## Facts\nAll.", material=MATERIAL, latest_input="Go on then.")

    connected(endpoint, nonce=lambda _: "fedcba987654").summarize(asked, COUNTER)

    system, given = (message["content"] for message in endpoint.requests[0].body["messages"])
    for name, text in MATERIAL:
        assert f"<<{name} fedcba987654>>\n{text}\n<<end fedcba987654>>" in given
        assert text not in system
    assert given.index("<<latest input") < given.index("<<conversation")


def test_material_too_long_to_stand_beside_the_conversation_is_read_in_parts(
    endpoint: FakeEndpoint,
) -> None:
    notes = "\n".join(f"Note {at}: shed {at} holds {at * 3} tents." for at in range(1, 800))

    connected(endpoint, window_tokens=8_000, max_output_tokens=1_000).summarize(
        request(instructions="## Facts\nAll.", material=(("reflections", notes),)), COUNTER
    )

    prompts = [each.prompt for each in endpoint.requests]
    parts = [prompt for prompt in prompts if "This is part" in prompt]
    for at in range(1, 800):
        assert sum(f"Note {at}: shed" in part for part in parts) == 1
    assert "reflections part 2 of" in "".join(parts)
    assert "Note 5: shed" not in "".join(m["content"] for m in _systems(endpoint))
    assert all(COUNTER.count(prompt) + 1_000 <= 8_000 for prompt in prompts)


def _systems(endpoint: FakeEndpoint) -> list[dict[str, str]]:
    return [m for each in endpoint.requests for m in each.body["messages"] if m["role"] == "system"]


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


def test_a_window_too_small_for_anything_is_a_setting_to_change(endpoint: FakeEndpoint) -> None:
    with pytest.raises(SummarizerMisconfigured, match="window of 2000 tokens"):
        connected(endpoint, window_tokens=2_000).summarize(request(), COUNTER)

    assert endpoint.requests == []


def test_nothing_to_summarize_asks_nobody(endpoint: FakeEndpoint) -> None:
    memory = {"role": "user", "name": MEMORIES, "content": "only a memory"}

    with pytest.raises(UnusableSummary, match="nothing to summarize"):
        connected(endpoint).summarize(request(memory), COUNTER)

    assert endpoint.requests == []


def test_another_language_is_kept(endpoint: FakeEndpoint) -> None:
    talk = (
        user("请把订单 #W7710442 的台灯换成黄铜的。不要动其他商品。"),
        assistant("好的，我会更换台灯，其他商品保持不变，因为您要求如此。"),
    )

    summary = connected(endpoint).summarize(request(*talk), COUNTER)

    assert "台灯" in summary.text


def test_lone_surrogates_are_no_obstacle(endpoint: FakeEndpoint) -> None:
    summary = connected(endpoint).summarize(
        request(user("Please keep the broken name \ud800 of file 77 as it is.")), COUNTER
    )

    assert "file 77" in summary.text


def test_the_code_of_the_marks_is_in_no_text(endpoint: FakeEndpoint) -> None:
    codes = itertools.chain(["aaaaaaaaaaaa", "bbbbbbbbbbbb"])
    talk = user("Please keep the code aaaaaaaaaaaa in mind for later.")

    connected(endpoint, nonce=lambda _: next(codes)).summarize(request(talk), COUNTER)

    assert "<<conversation bbbbbbbbbbbb>>" in endpoint.requests[0].prompt


def test_a_repr_names_the_model_and_no_key(endpoint: FakeEndpoint) -> None:
    summarizer = connected(endpoint)

    assert repr(summarizer) == f"OpenAiSummarizer(model='{MODEL}')"
    assert KEY not in repr(vars(summarizer))
