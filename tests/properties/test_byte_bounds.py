"""No message and no tool has more tokens than its bound by bytes, in the worst tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_tokens import messages
from tests.tokenizer_files import WORST, saved
from turnmill.contract.codec import encode_json
from turnmill.contract.estimate import bound_by_bytes, bound_turn
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill.contract.tools import bound_tools, count_tools, tools_body
from turnmill_worker.tokens import TokenCounter, count_request, counter_for

# Characters whose form NFC is longer, and marks that are joined and reordered there.
LONG = "\u0958\u2adc\U0001d160\u0344\u0390\ufb2c"
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(LONG + "ae\u0301\u0323"))
kinds = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer"]), "description": texts}
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(texts, kinds, max_size=3)},
    optional={"title": texts, "items": kinds},
)
tools = st.fixed_dictionaries({"name": texts, "description": texts, "input_schema": schemas})


@pytest.fixture(scope="module", params=range(len(WORST)))
def counter(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TokenCounter:
    folder: Path = tmp_path_factory.mktemp("tokenizers")
    return counter_for("file:worst", folder=saved(WORST[request.param], folder, "worst"))


@given(text=texts)
def test_any_text_stays_under_its_bound(counter: TokenCounter, text: str) -> None:
    assert counter.count(text) <= bound_by_bytes(text.encode())


@given(turn=st.lists(messages, min_size=1, max_size=4), more=texts)
def test_any_turn_stays_under_its_bound(
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
