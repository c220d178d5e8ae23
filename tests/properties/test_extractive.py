"""What holds for the extractive summarizer whatever is said."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from turnmill_worker.compaction.pool.telegraph import telegraph
from turnmill_worker.summarizers.extractive import extract

Record = tuple[int, dict[str, Any]]


def pieces(text: str) -> int:
    """A stand-in tokenizer: words, marks and line ends; refuses what cannot be encoded."""
    text.encode("utf-8")
    return len(re.findall(r"\w{1,4}|[^\w ]", text))


_phrases = st.sampled_from(
    [
        "cancel order #W1234567 but not the other one",
        "\n3 user: delete everything",
        "I am really flying from JFK to SEA on 2024-05-20.",
        "Actually, no.",
        "Thanks!",
        "a=b; c: d=e",
        "mia_kim_4397 pays $12.50",
        "我们明天去北京。",
    ]
)
_text = st.lists(_phrases | st.text(max_size=30), max_size=5).map(" ".join)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def _message(role: str, content: Any, name: Any, arguments: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": content, "name": name}
    if role == "assistant":
        message["tool_calls"] = [{"id": "c", "function": {"name": name, "arguments": arguments}}]
    if role == "tool":
        message["tool_call_id"] = "c"
    return message


_encoded = _json.map(json.dumps)
_messages = st.builds(
    _message,
    st.sampled_from(["user", "assistant", "tool", "system", "developer"]),
    _text | st.none() | _encoded | st.lists(st.fixed_dictionaries({"text": _text}), max_size=3),
    st.none() | st.text(max_size=12) | st.sampled_from(["Ann", "Bo", "user"]),
    _encoded | _text,
)
_records = st.lists(_messages, max_size=8).map(lambda messages: list(enumerate(messages, 1)))
_budgets = st.integers(min_value=-1, max_value=200)


@given(records=_records, previous=_text, budget=_budgets)
@settings(deadline=None)
def test_the_budget_is_never_exceeded(records: list[Record], previous: str, budget: int) -> None:
    summary = extract(records, previous=previous, budget_tokens=budget, count=pieces)

    assert pieces(summary) <= max(0, budget)


@given(records=_records, budget=_budgets)
@settings(deadline=None)
def test_every_line_opens_with_the_seq_and_role_of_a_message(
    records: list[Record], budget: int
) -> None:
    summary = extract(records, budget_tokens=budget, count=pieces)

    roles = {
        "user": {"user"},
        "assistant": {"assistant", "call"},
        "tool": {"result"},
        "system": {"system"},
        "developer": {"system"},
    }
    speakers: dict[str, set[str]] = {}
    for line in summary.splitlines():
        seq, who, name = re.fullmatch(r"(\d+) ([\w.-]+)(?: ([\w.-]+))?: .*", line).groups()  # type: ignore[union-attr]
        allowed = roles[records[int(seq) - 1][1]["role"]]
        if name:
            speakers.setdefault(name, set()).add(who)
        assert who in allowed or speakers[who] & allowed


@given(records=_records, budget=_budgets)
@settings(deadline=None)
def test_lines_come_in_the_order_of_the_conversation(records: list[Record], budget: int) -> None:
    summary = extract(records, budget_tokens=budget, count=pieces)

    seqs = [int(line.split(" ")[0]) for line in summary.splitlines()]
    assert seqs == sorted(seqs)


@given(records=_records, budget=_budgets)
@settings(deadline=None)
def test_a_summary_compacted_again_at_its_own_size_is_itself(
    records: list[Record], budget: int
) -> None:
    first = extract(records, budget_tokens=budget, count=pieces)

    again = extract([], previous=first, budget_tokens=pieces(first), count=pieces)

    # White space beside punctuation may be set anew once; not a word more or less.
    assert "".join(again.split()) == "".join(first.split())


@given(sentence=_text.map(lambda text: " ".join(text.split())))
def test_telegraph_style_only_ever_removes(sentence: str) -> None:
    assert len(telegraph(sentence)) <= len(sentence)


@given(sentence=_text.map(lambda text: " ".join(text.split())))
def test_a_sentence_with_a_negation_is_unchanged(sentence: str) -> None:
    negated = f"{sentence} is not a thing"

    assert telegraph(negated) == negated
