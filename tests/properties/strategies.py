"""What agents may push: messages, turns and whole conversations, legal and not.

Sizes vary on purpose: most texts are short, some are empty, few are far larger than any limit the
tests use. Conversations hold parallel calls, results pushed apart or with their calls, one call id
used for many calls, dead calls, orphan results, open calls at the end, pins, images, CJK and emoji.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from turnmill.contract.policy import Policy

__all__ = [
    "SYSTEM_PROMPTS",
    "GivenTurn",
    "conversations",
    "json_values",
    "legal_conversations",
    "messages",
    "policies",
    "texts",
    "turns",
]

Message = dict[str, Any]


class GivenTurn(NamedTuple):
    """A turn before it is pushed."""

    messages: tuple[Message, ...]
    pinned: bool = False

    def as_pushed(self) -> dict[str, Any]:
        """What ``push`` takes."""
        return {"messages": list(self.messages), "pinned": self.pinned}


SYSTEM_PROMPTS = st.sampled_from(["", "You are terse.", "You plan trips. " * 12])

_WORDS = (
    "flight",
    "refund the order",
    "#W1234567",
    "2026-11-21T00:27:36Z",
    '{"status":"pending","price":46.66}',
    "我们明天去北京。",
    "日本語のテキスト",
    "👩‍💻🚀",
    "Ünïcödé",
    "/usr/lib/python3/site-packages",
    "a=b; c: d",
    "The agent looked at the logs again and found nothing.",
)


def texts(most_words: int = 40) -> st.SearchStrategy[str]:
    """Texts of many kinds: none at all, a few words, pages, and what nobody would write."""
    phrase = st.sampled_from(_WORDS)
    few = st.lists(phrase, max_size=6).map(" ".join)
    pages = st.builds(
        lambda words, times: " ".join(words * times),
        st.lists(phrase, min_size=1, max_size=4),
        st.integers(1, most_words),
    )
    odd = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    return st.one_of(few, few, pages, odd, st.just(""))


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
)
json_values = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
"""Any JSON value, lone surrogates and NULs included."""

_PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAIAAAUAAXpeqz8="
_IDS = st.sampled_from(["call_1", "call_2", "call_3", "toolu_01A09q90qw90lq917835lq9"])
_NAMES = st.sampled_from(["get_order", "search", "run_python"])


def _parts(words: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    text = st.builds(lambda value: {"type": "text", "text": value}, texts(words))
    image = st.just({"type": "image_url", "image_url": {"url": _PIXEL, "detail": "low"}})
    return st.lists(text | text | image, min_size=1, max_size=3)


def _said(role: str, words: int) -> st.SearchStrategy[Message]:
    content = texts(words) | texts(words) | _parts(words)
    return st.builds(lambda value: {"role": role, "content": value}, content)


def _call(call_id: str, name: str, argument: str) -> dict[str, Any]:
    arguments = json.dumps({"query": argument}, ensure_ascii=False)
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _calling(words: int) -> st.SearchStrategy[Message]:
    calls = st.lists(
        st.builds(_call, _IDS, _NAMES, texts(max(words // 4, 1))), min_size=1, max_size=3
    ).map(_with_different_ids)
    return st.builds(
        lambda content, made: {"role": "assistant", "content": content, "tool_calls": made},
        st.none() | texts(3),
        calls,
    )


def _with_different_ids(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parallel calls of one message never share an id; calls of two messages may."""
    return [
        {**call, "id": call["id"] if at == 0 else f"{call['id']}_{at}"}
        for at, call in enumerate(calls)
    ]


def _result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def messages(words: int = 40) -> st.SearchStrategy[Message]:
    """One message, of any role."""
    return st.one_of(
        _said("user", words),
        _said("assistant", words),
        _calling(words),
        st.builds(_result, _IDS, texts(words)),
    )


def turns(words: int = 40) -> st.SearchStrategy[GivenTurn]:
    """One turn of any messages, whether or not they make sense together."""
    return st.builds(
        GivenTurn,
        st.lists(messages(words), min_size=1, max_size=3).map(tuple),
        st.sampled_from([False] * 9 + [True]),
    )


@st.composite
def _batches(
    draw: st.DrawFn, *, words: int, legal: bool
) -> tuple[tuple[Message, ...], list[tuple[Message, ...]]]:
    """An assistant's calls, and the turns their results come in: together, apart, or too few."""
    calling = draw(_calling(words))
    ids = [call["id"] for call in calling["tool_calls"]]
    answered = ids if legal else ids[: draw(st.integers(0, len(ids)))]
    results = [_result(each, draw(texts(words))) for each in draw(st.permutations(answered))]
    together, parts = draw(st.sampled_from(["all", "results", "apart"])), []
    if together == "all":
        return (calling, *results), []
    if together == "results" and results:
        parts = [tuple(results)]
    else:
        parts = [(result,) for result in results]
    return (calling,), parts


@st.composite
def _stretches(draw: st.DrawFn, *, words: int, legal: bool) -> list[tuple[Message, ...]]:
    """A few turns in a row that belong together."""
    kind = draw(st.sampled_from(["said", "said", "called", "called"] + ([] if legal else ["orphan"])))
    if kind == "said":
        spoken = _said("user", words) | _said("assistant", words)
        return [tuple(draw(st.lists(spoken, min_size=1, max_size=2)))]
    if kind == "orphan":
        return [(_result(draw(_IDS), draw(texts(words))),)]
    first, rest = draw(_batches(words=words, legal=legal))
    return [first, *rest]


@st.composite
def _conversations(
    draw: st.DrawFn, *, words: int, most: int, legal: bool, pins: bool
) -> list[GivenTurn]:
    stretches = draw(st.lists(_stretches(words=words, legal=legal), min_size=1, max_size=most))
    pinned = st.sampled_from([False] * 11 + [True]) if pins else st.just(False)
    said = [turn for stretch in stretches for turn in stretch]
    made = [GivenTurn(turn, draw(pinned)) for turn in said]
    if draw(st.integers(0, 3)) == 0:
        made.append(GivenTurn((draw(_calling(words)),)))  # still open
    return made


def conversations(
    words: int = 40, *, most: int = 24, pins: bool = True
) -> st.SearchStrategy[list[GivenTurn]]:
    """Whole conversations as agents really push them: dead calls and orphan results included."""
    return _conversations(words=words, most=most, legal=False, pins=pins)


def legal_conversations(
    words: int = 40, *, most: int = 24, pins: bool = True
) -> st.SearchStrategy[list[GivenTurn]]:
    """Conversations a provider would accept as they are; the last calls may still be open."""
    return _conversations(words=words, most=most, legal=True, pins=pins)


def policies(sizes: Sequence[int] = (512, 1024, 2048)) -> st.SearchStrategy[Policy]:
    """Policies of small contexts, so that a short conversation already fills them."""
    ladders = st.permutations(["elide", "rolling", "window"]).flatmap(
        lambda names: st.integers(1, 3).map(lambda most: tuple(names[:most]))
    )
    ratios = st.sampled_from([(0.8, 0.5, 0.2), (0.9, 0.7, 0.3), (0.6, 0.3, 0.1), (1.0, 0.5, 0.25)])
    return st.builds(
        lambda size, ratio, keep, progress, bulky, ladder: Policy(
            max_tokens=size,
            soft_ratio=ratio[0],
            target_ratio=ratio[1],
            summary_ratio=ratio[2],
            recent_turns_to_keep=keep,
            min_progress_ratio=progress,
            elide_over_tokens=bulky,
            strategies=ladder,
        ),
        st.sampled_from(sizes),
        ratios,
        st.integers(0, 4),
        st.sampled_from([0.0, 0.1, 0.3]),
        st.sampled_from([64, 200]),
        ladders,
    )
