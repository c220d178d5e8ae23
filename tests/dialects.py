"""Conversations as agents of each provider have them, made by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

words = st.text("abc xyz äß“”\n", min_size=1, max_size=40).filter(lambda text: bool(text.strip()))
cached = st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}])
texts = st.builds(lambda text, more: {"type": "text", "text": text, **more}, words, cached)
PNG = "iVBORw0KGgo="
images = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]
)
documents = st.sampled_from(
    [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "The rate is 4 %."},
            "title": "Rates",
            "citations": {"enabled": True},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="},
        },
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
    ]
)
thinking = st.builds(
    lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign},
    words,
    st.text("abcXYZ/+=", min_size=4, max_size=12),
) | st.just({"type": "redacted_thinking", "data": "EmwKAhgBEgy="})
search = st.just(
    [
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []},
    ]
)
inputs = st.dictionaries(st.sampled_from(["path", "q", "n"]), words | st.integers(0, 9), max_size=2)


@st.composite
def anthropic_turns(draw: st.DrawFn) -> list[list[Json]]:
    """Turns of a conversation with the Messages API."""
    turns: list[list[Json]] = []
    for at in range(draw(st.integers(1, 4))):
        asked = draw(words | st.lists(texts | images | documents, min_size=1, max_size=3))
        turns.append([{"role": "user", "content": asked}])
        for step in range(draw(st.integers(0, 3))):
            turns += _anthropic_step(draw, f"toolu_{at}_{step}")
        last = draw(words | st.tuples(thinking, texts).map(list))
        turns.append([{"role": "assistant", "content": last}])
    return turns


def _anthropic_step(draw: st.DrawFn, name: str) -> list[list[Json]]:
    before = draw(st.lists(thinking, max_size=2)) + draw(st.just([]) | search)
    said = draw(st.lists(texts, max_size=1))
    ids = [f"{name}_{n}" for n in range(draw(st.integers(1, 3)))]
    calls = [{"type": "tool_use", "id": i, "name": "look", "input": draw(inputs)} for i in ids]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": i,
            "content": draw(words | st.lists(texts | images, min_size=1, max_size=2)),
            **draw(st.sampled_from([{}, {"is_error": True}])),
        }
        for i in ids
    ]
    more = draw(st.lists(texts, max_size=1))
    return [
        [{"role": "assistant", "content": [*before, *said, *calls]}],
        [{"role": "user", "content": [*results, *more]}],
    ]


@st.composite
def responses_turns(draw: st.DrawFn) -> list[list[Json]]:
    """Turns of a conversation with the Responses API: a user's items, a model's, their outputs."""
    turns: list[list[Json]] = []
    for at in range(draw(st.integers(1, 4))):
        turns.append([draw(_asked())])
        for step in range(draw(st.integers(0, 3))):
            turns += _responses_step(draw, f"call_{at}_{step}")
        turns.append([*draw(_reasoning(f"rs_{at}")), _message(f"msg_{at}", draw(words))])
    return turns


@st.composite
def _asked(draw: st.DrawFn) -> Json:
    plain = draw(words)
    parts = [
        {"type": "input_text", "text": plain},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
    ]
    return draw(
        st.sampled_from(
            [
                {"role": "user", "content": plain},
                {"type": "message", "role": "user", "content": parts},
            ]
        )
    )


@st.composite
def _reasoning(draw: st.DrawFn, name: str) -> list[Json]:
    item = {"type": "reasoning", "id": name, "summary": [], "encrypted_content": draw(words)}
    return draw(st.sampled_from([[], [item]]))


def _message(name: str, text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": name,
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _responses_step(draw: st.DrawFn, name: str) -> list[list[Json]]:
    items: list[Json] = [*draw(_reasoning(f"rs_{name}"))]
    items += draw(st.sampled_from([[], [_message(f"msg_{name}", "So far")]]))
    outputs: list[Json] = []
    for n in range(draw(st.integers(1, 3))):
        call_id = f"{name}_{n}"
        kind, call, output = draw(st.sampled_from(_KINDS))
        items.append({"type": kind, "call_id": call_id, **_named(call, call_id)})
        outputs.append({"type": f"{kind}_output", "call_id": call_id, **_named(output, call_id)})
    return [items, outputs]


def _named(item: Json, name: str) -> Json:
    """With an id of its own, if it has one: the API takes none twice."""
    return {**item, "id": f"{item['id']}_{name}"} if "id" in item else item


_COMPUTER: Json = {
    "id": "cu",
    "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
    "pending_safety_checks": [],
    "status": "completed",
}
_SHELL: Json = {
    "id": "ls",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
    "status": "completed",
}
_KINDS: list[tuple[str, Json, Json]] = [
    ("function_call", {"name": "look", "arguments": '{"q": 1}', "id": "f"}, {"output": "found"}),
    (
        "function_call",
        {"name": "look", "arguments": "{}"},
        {"output": [{"type": "input_text", "text": "a"}]},
    ),
    ("custom_tool_call", {"name": "run", "input": "ls -l"}, {"output": "total 0"}),
    (
        "computer_call",
        _COMPUTER,
        {"output": {"type": "computer_screenshot", "image_url": "https://example.org/s.png"}},
    ),
    ("local_shell_call", _SHELL, {"output": "a.txt", "id": "lo"}),
]
