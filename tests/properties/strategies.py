"""What agents may push: messages, turns and whole conversations, legal and not.

Sizes vary on purpose: most texts are short, some are empty, few are far larger than any limit the
tests use. Conversations hold parallel calls, results pushed apart or with their calls, one call id
used for many calls, dead calls, orphan results, open calls at the end, pins, images, CJK and emoji.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
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
    "refund the order #W1234567",
    "2026-11-21T00:27:36Z",
    '{"status":"pending","price":46.66}',
    "我们明天去北京。",
    "👩‍💻🚀",
    "/usr/lib/python3/site-packages",
    "The agent looked at the logs again and found nothing.",
)
_ODD = ("", " ", "\n\n", "\x00\x1b[0m", "日本語のテキスト", "Ünïcödé" * 3, "a=b; c: d", "x" * 300)


@cache
def _pool(most_words: int) -> tuple[str, ...]:
    """Texts of many kinds, shortest first: one draw each, where building them would take many."""
    sizes = sorted({1, 2, 3, max(most_words // 4, 1), most_words})
    long = [" ".join([word, *_WORDS[:2]] * size) for size in sizes for word in _WORDS]
    return tuple(sorted([*_ODD, *_WORDS, *long], key=len))


def texts(most_words: int = 40) -> st.SearchStrategy[str]:
    """Texts of many kinds: none at all, a few words, pages, and what nobody would write."""
    pool = _pool(most_words)  # by place: the repr of a strategy holds what it samples from
    return st.integers(0, len(pool) - 1).map(pool.__getitem__)


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

_PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
_IMAGE = {"type": "image_url", "image_url": {"url": _PIXEL, "detail": "low"}}
_IDS = ("call_1", "call_2", "toolu_01A09q90qw90lq917835lq9")
_NAMES = ("get_order", "search", "run_python")


def _said(role: str, words: int) -> st.SearchStrategy[Message]:
    return st.builds(_saying, st.just(role), texts(words), st.sampled_from("sssssspi"))


def _saying(role: str, text: str, form: str) -> Message:
    """A message with its text as a string, as parts, or beside an image."""
    part: dict[str, Any] = {"type": "text", "text": text}
    shown = [part, _IMAGE] if role == "user" else [part]  # providers take no others' images
    forms: dict[str, Any] = {"s": text, "p": [part, part], "i": shown}
    return {"role": role, "content": forms[form]}


def _calling(words: int) -> st.SearchStrategy[Message]:
    contents = st.sampled_from([None, "", "Let me look."])
    return st.builds(
        _make_calls, contents, st.sampled_from(_IDS), st.integers(1, 3), texts(max(words // 4, 1))
    )


def _make_calls(content: str | None, call_id: str, calls: int, argument: str) -> Message:
    """Parallel calls of one message never share an id; calls of two messages may."""
    arguments = json.dumps({"query": argument}, ensure_ascii=False)
    made = [
        {
            "id": f"{call_id}_{at}" if at else call_id,
            "type": "function",
            "function": {"name": _NAMES[at], "arguments": arguments},
        }
        for at in range(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": made}


def _result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _orphan(words: int) -> st.SearchStrategy[Message]:
    return st.builds(_result, st.sampled_from(_IDS), texts(words))


def messages(words: int = 40) -> st.SearchStrategy[Message]:
    """One message, of any role."""
    return st.one_of(
        _said("user", words), _said("assistant", words), _calling(words), _orphan(words)
    )


def turns(words: int = 40) -> st.SearchStrategy[GivenTurn]:
    """One turn of any messages, whether or not they make sense together."""
    return st.builds(
        GivenTurn,
        st.lists(messages(words), min_size=1, max_size=3).map(tuple),
        st.sampled_from([False] * 9 + [True]),
    )


def _batch(
    calling: Message, text: str, lost: int, order: int, form: str
) -> list[tuple[Message, ...]]:
    """Calls and their results: in one turn, in a turn of their own, or each in one; some lost."""
    ids = [call["id"] for call in calling["tool_calls"]]
    results = [_result(each, text) for each in ids[: len(ids) - lost]]
    results = results[order:] + results[:order]
    if form == "together":
        return [(calling, *results)]
    if form == "behind" and results:
        return [(calling,), tuple(results)]
    return [(calling,), *((result,) for result in results)]


def _alone(message: Message) -> list[tuple[Message, ...]]:
    return [(message,)]


def _stretches(words: int, *, legal: bool) -> st.SearchStrategy[list[tuple[Message, ...]]]:
    """A few turns in a row that belong together."""
    lost = st.just(0) if legal else st.sampled_from([0, 0, 0, 1, 3])
    forms = st.sampled_from(["together", "behind", "apart"])
    batch = st.builds(_batch, _calling(words), texts(words), lost, st.integers(0, 2), forms)
    spoken = (_said("user", words) | _said("assistant", words)).map(_alone)
    if legal:
        return spoken | batch
    return spoken | batch | spoken | batch | _orphan(words).map(_alone)


def _conversations(
    words: int, least: int, most: int, *, legal: bool, pins: bool
) -> st.SearchStrategy[list[GivenTurn]]:
    return st.builds(
        _join,
        st.lists(_stretches(words, legal=legal), min_size=least, max_size=most),
        st.sets(st.integers(0, most), max_size=3) if pins else st.just(set()),
        st.none() | st.none() | _calling(words),
    )


def _join(
    stretches: list[list[tuple[Message, ...]]], pinned: set[int], open_call: Message | None
) -> list[GivenTurn]:
    said = [turn for stretch in stretches for turn in stretch]
    if open_call is not None:
        said.append((open_call,))
    return [GivenTurn(turn, at in pinned) for at, turn in enumerate(said)]


def conversations(
    words: int = 40, *, least: int = 1, most: int = 24, pins: bool = True
) -> st.SearchStrategy[list[GivenTurn]]:
    """Whole conversations as agents really push them: dead calls and orphan results included."""
    return _conversations(words, least, most, legal=False, pins=pins)


def legal_conversations(
    words: int = 40, *, least: int = 1, most: int = 24, pins: bool = True
) -> st.SearchStrategy[list[GivenTurn]]:
    """Conversations a provider would accept as they are; the last calls may still be open."""
    return _conversations(words, least, most, legal=True, pins=pins)


def policies(sizes: Sequence[int] = (512, 1024, 2048)) -> st.SearchStrategy[Policy]:
    """Policies of small contexts, so that a short conversation already fills them."""
    ladders = st.permutations(["elide", "rolling", "window"]).flatmap(
        lambda names: st.integers(1, 3).map(lambda most: tuple(names[:most]))
    )
    ratios = st.sampled_from([(0.8, 0.5, 0.2), (0.9, 0.7, 0.3), (0.6, 0.3, 0.1), (1.0, 0.5, 0.25)])
    return st.builds(
        lambda size, ratio, keep, progress, bulky, ladder, ledger: Policy(
            max_tokens=size,
            soft_ratio=ratio[0],
            target_ratio=ratio[1],
            summary_ratio=ratio[2],
            recent_turns_to_keep=keep,
            min_progress_ratio=progress,
            elide_over_tokens=bulky,
            strategies=ladder,
            ledger_ratio=ledger,
        ),
        st.sampled_from(sizes),
        ratios,
        st.integers(0, 4),
        st.sampled_from([0.0, 0.1, 0.3]),
        st.sampled_from([64, 200]),
        ladders,
        st.sampled_from([0.1, 0.0, 0.5]),
    )
