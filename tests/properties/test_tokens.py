"""What holds of counts and bounds for any text and any message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizer_files import WORST, saved
from turnmill.contract.codec import encode_json
from turnmill.contract.estimate import bound_by_bytes, bound_tokens, bound_turn, estimate_tokens
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill.contract.tools import bound_tools, count_tools, tools_body
from turnmill_worker.tokens import (
    CountedOnce,
    TokenCounter,
    count_message,
    count_request,
    counter_for,
)
from turnmill_worker.tokens.counters import HeuristicCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter

O200K, CL100K = counter_for("o200k_base"), counter_for("cl100k_base")
REFERENCE = TiktokenCounter("o200k_base")
HEURISTIC = HeuristicCounter()

# Surrogates cannot be in JSON that is UTF-8, so nothing pushed has them.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
any_texts = st.text(st.characters(), max_size=300)
pieces = st.one_of(
    st.sampled_from(
        ["\n", "\n", " ", "\t", "\r\n", "/", "//", "word", "'s", "1234", "...", "\xa0", "["]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)
"""What lines begin and end with, most of all."""
calls = st.fixed_dictionaries(
    {
        "id": texts,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": texts, "arguments": texts}),
    }
)
parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": texts}),
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
        "content": st.one_of(st.none(), texts, st.lists(parts, max_size=4)),
    },
    optional={
        "name": texts,
        "tool_call_id": texts,
        "tool_calls": st.lists(calls, max_size=4),
        "reasoning_content": texts,
    },
)


def body_of(turn: list[dict[str, Any]]) -> bytes:
    return json.dumps({"messages": turn}, ensure_ascii=False, separators=(",", ":")).encode()


@given(any_texts)
def test_any_text_counts_like_tiktoken(text: str) -> None:
    assert O200K.count(text) == REFERENCE.count(text)


@given(st.lists(pieces, min_size=1, max_size=12))
def test_a_text_has_the_tokens_of_its_lines(said: list[str]) -> None:
    text = "".join(said)
    text *= 250 // len(text) + 1  # a shorter one is counted whole

    for counter in (O200K, CL100K):
        assert CountedOnce(counter).count(text) == counter.count(text)


@given(texts)
def test_a_bound_is_never_more_than_a_token_per_byte(text: str) -> None:
    assert bound_tokens(text.encode()) <= len(text.encode())


@given(st.lists(messages, max_size=6))
def test_any_turn_stays_under_its_bound(turn: list[dict[str, Any]]) -> None:
    exact = max(count_request(O200K, turn), count_request(CL100K, turn))

    assert bound_turn(body_of(turn)) >= exact


@given(messages, st.text(min_size=1, max_size=8), any_texts)
def test_more_in_a_message_never_costs_less(
    message: dict[str, Any], field: str, value: str
) -> None:
    extra = {field: value} if field not in message else {}

    assert count_message(O200K, message | extra) >= count_message(O200K, message)


@given(any_texts)
def test_the_heuristic_is_never_below_the_plain_estimate(text: str) -> None:
    assert HEURISTIC.count(text) >= estimate_tokens(text)


@given(any_texts)
def test_no_token_is_less_than_a_byte(text: str) -> None:
    """Prompts rely on it: what has fewer bytes than there is room need not be counted."""
    size = len(text.encode("utf-8", "surrogatepass"))

    assert max(each.count(text) for each in (O200K, CL100K, HEURISTIC)) <= size


# The worst tokenizers of files

# Characters whose form NFC is longer, and marks that are joined and reordered there.
LONG = "\u0958\u2adc\U0001d160\u0344\u0390\ufb2c"
odd_texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(LONG + "ae\u0301\u0323")
)
kinds = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer"]), "description": odd_texts}
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(odd_texts, kinds, max_size=3)},
    optional={"title": odd_texts, "items": kinds},
)
tools = st.fixed_dictionaries(
    {"name": odd_texts, "description": odd_texts, "input_schema": schemas}
)


@pytest.fixture(scope="module", params=range(len(WORST)))
def counter(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TokenCounter:
    folder: Path = tmp_path_factory.mktemp("tokenizers")
    return counter_for("file:worst", folder=saved(WORST[request.param], folder, "worst"))


@given(text=odd_texts)
def test_any_text_stays_under_its_bound_in_the_worst_tokenizers(
    counter: TokenCounter, text: str
) -> None:
    assert counter.count(text) <= bound_by_bytes(text.encode())


@given(turn=st.lists(messages, min_size=1, max_size=4), more=odd_texts)
def test_any_turn_stays_under_its_bound_in_the_worst_tokenizers(
    counter: TokenCounter, turn: list[dict[str, Any]], more: str
) -> None:
    turn = [*turn, {"role": "user", "content": more}]

    bound = bound_turn(encode_json(turn), FORMULAS[DEFAULT_FORMULA], "file:worst")

    assert count_request(counter, turn) <= bound


@given(made=st.lists(tools, max_size=3))
def test_any_tools_stay_under_their_bound(
    counter: TokenCounter, made: list[dict[str, Any]]
) -> None:
    body = tools_body(made)

    assert count_tools(counter.count, body) <= bound_tools(body, bound_by_bytes)
