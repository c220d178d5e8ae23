"""``python -m tests.fuzz.odd``: conversations as no documentation shows them, read in all dialects.

Whatever is accepted leaves in each dialect as its provider takes it, as UTF-8; what is refused is
refused with its place, and changes nothing. A fault says the seed it was found with.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import redis
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter, ValidationError

from tests.fuzz.compactions import any_policy, invalid, over
from tests.image_parts import data_url, png
from tests.redis.conftest import Worker
from turnmill import Context, ContextClient, InvalidInput, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.dialects.convert import DIALECTS

Json = dict[str, Any]
Draw = Callable[..., Any]
"""One of these, drawn anew."""

TEXTS: Final = (
    "", " ", "\n\t", "a\ud800b", "\udfff", "x\x00y", "\x1b[31mred\x7f", "👍🏽 “so”\u2028",
    "</s> {{x}}", "Where is it?", "It lies at pier 4. " * 40, "null",
    "data:text/csv;base64," + "QUJD" * 2000,
)  # fmt: skip
IDS: Final = (
    "call_1",
    "call_1",
    "call_2",
    "call_3",
    "",
    " ",
    "ид-1",
    "a.b:c",
    "x" * 200,
    "a\ud83d",
)
NAMES: Final = ("look", "look", "find_it", "", "näme", "a b", "n" * 100, "a\udc00")
ARGUMENTS: Final = (
    "{}", '{"q": 1}', "", '""', '{"a": ', "[1]", "null", "1", "{'a': 1}", '{"a": NaN}', " {} ",
    '{"a": "\ud800"}', '{"a": "\\ud800"}', '{"a":' * 60 + "1" + "}" * 60, '{"a": 1, "a": 2}',
)  # fmt: skip
LARGE: Final = json.dumps({"text": "word " * 200_000})
PICTURE: Final = data_url(png(1, size=300))
PDF: Final = "data:application/pdf;base64,JVBERi0xLjQ="


class Odd:
    """Draws parts of conversations."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one(self, *of: Any) -> Any:
        drawn = self.random.choice(of)
        return drawn() if callable(drawn) else drawn

    def some(self, *of: Any, most: int = 3) -> list[Any]:
        return [self.one(*of) for _ in range(self.random.randint(0, most))]

    def now_and_then(self, **fields: Any) -> Json:
        """Each of the fields in one of ten cases."""
        chosen = [name for name in fields if self.random.random() < 0.1]
        return {name: self.one(fields[name]) for name in chosen}

    def text(self) -> str:
        return str(self.one(*TEXTS))

    def arguments(self) -> str:
        return LARGE if self.random.random() < 0.002 else str(self.one(*ARGUMENTS))

    def any_json(self) -> Any:
        return self.one({}, {"q": 1}, {"": {"a": [None]}}, "text", [], None, 1, {"q": "a\ud800"})


def _parts(draw: Odd, kinds: Mapping[str, Draw]) -> Any:
    """A content: a text, nothing, or parts."""
    return draw.one(draw.text, draw.text, None, "", lambda: draw.some(*kinds.values()))


def chat(seed: int) -> Iterator[list[Json]]:
    """Chat Completions."""
    draw = Odd(seed)
    text: Draw = lambda: {"type": "text", "text": draw.text()}  # noqa: E731
    image: Draw = lambda: {  # noqa: E731
        "type": "image_url",
        "image_url": {"url": draw.one(PICTURE, "https://e.org/a.png", "", "data:image/png,x")},
    }
    audio = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
    file = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
    refusal: Draw = lambda: {"type": "refusal", "refusal": draw.text()}  # noqa: E731
    asked = {"t": text, "i": image, "a": lambda: audio, "f": lambda: file}
    said = {"t": text, "r": refusal}

    def call() -> Json:
        function = {"name": draw.one(*NAMES), "arguments": draw.arguments()}
        given: Json = {"id": draw.one(*IDS), "type": "function", "function": function}
        custom = {"name": "run", "input": draw.text()}
        made: Json = draw.one(given, given, given, {"id": "c", "type": "custom", "custom": custom})
        return made

    def assistant() -> Json:
        calls = draw.one([], [], lambda: draw.some(call))
        return {
            "role": "assistant",
            "content": _parts(draw, said),
            **({"tool_calls": calls} if calls else {}),
            **draw.now_and_then(
                tool_calls=lambda: draw.one(None, []),
                refusal=draw.text,
                audio={"id": "audio_1", "transcript": "Hello", "data": "UklG", "expires_at": 1},
                reasoning_content=draw.text,
                annotations=[],
                function_call={"name": "look", "arguments": "{}"},
                name=draw.one("Ann", ""),
                colour="red",
                x_mark=1,
            ),
        }

    def tool() -> Json:
        return {"role": "tool", "tool_call_id": draw.one(*IDS), "content": _parts(draw, said)}

    def user() -> Json:
        role = draw.one("user", "user", "user", "developer", "system")
        named = draw.now_and_then(name=lambda: draw.one("Ann", "näme", ""), colour="red")
        return {"role": role, "content": _parts(draw, asked), **named}

    while True:
        yield _turn(draw, user, assistant, tool, lambda: _answered(draw, assistant(), _of_chat))


def _of_chat(draw: Odd, message: Json) -> list[Json]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": draw.text()}
        for call in message.get("tool_calls") or ()
        if call
    ]


def _answered(draw: Odd, asking: Any, results_of: Callable[[Odd, Any], list[Json]]) -> list[Json]:
    """Calls with results: as they came, in another order, one twice, or one not at all."""
    results = results_of(draw, asking)
    draw.random.shuffle(results)
    results += draw.one([], [], results[:1])
    return [*(asking if isinstance(asking, list) else [asking]), *results[draw.one(0, 0, 0, 1) :]]


def _turn(draw: Odd, *kinds: Draw) -> list[Json]:
    drawn = draw.one(*kinds)
    return drawn if isinstance(drawn, list) else [drawn]


def anthropic(seed: int) -> Iterator[list[Json]]:
    """The Messages API."""
    draw = Odd(seed)
    cited = {
        "type": "char_location", "cited_text": "4 %", "document_index": 0,
        "document_title": None, "start_char_index": 0, "end_char_index": 3,
    }  # fmt: skip
    paper = {"type": "text", "media_type": "text/plain", "data": "The rate is 4 %."}
    text: Draw = lambda: {  # noqa: E731
        "type": "text",
        "text": draw.text(),
        **draw.now_and_then(citations=lambda: draw.one([], None, [cited]), colour="red"),
    }
    base64 = {"type": "base64", "media_type": "image/png", "data": PICTURE.partition(",")[2]}
    image: Draw = lambda: {  # noqa: E731
        "type": "image",
        "source": draw.one(base64, {"type": "url", "url": "https://e.org/a.png"},
                           {"type": "file", "file_id": "file_1"}),
    }  # fmt: skip
    document: Draw = lambda: {  # noqa: E731
        "type": "document",
        "source": draw.one(paper, {"type": "url", "url": "https://e.org/a.pdf"},
                           {"type": "content", "content": [{"type": "text", "text": "x"}]}),
        **draw.now_and_then(title=draw.text, context=draw.text, citations={"enabled": True}),
    }  # fmt: skip
    found = {
        "type": "search_result", "source": "https://e.org", "title": "Rates",
        "content": [{"type": "text", "text": "4 %"}],
    }  # fmt: skip
    thinking: Draw = lambda: draw.one(  # noqa: E731
        lambda: {
            "type": "thinking", "thinking": draw.one("", "Hm."), "signature": draw.one("", "c2ln")
        },
        {"type": "redacted_thinking", "data": "EmwK"},
    )  # fmt: skip
    asked_of = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    told = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    use: Draw = lambda: {  # noqa: E731
        "type": "tool_use", "id": draw.one(*IDS), "name": draw.one(*NAMES),
        "input": draw.any_json(),
    }  # fmt: skip

    def result(call_id: str) -> Json:
        kinds = {"t": text, "i": image, "d": document, "s": lambda: found}
        content = draw.now_and_then(content=None) or {"content": _parts(draw, kinds)}
        return {
            "type": "tool_result", "tool_use_id": call_id, **content,
            **draw.now_and_then(is_error=True),
        }  # fmt: skip

    def assistant() -> Json:
        kinds = {"t": text, "u": use, "h": thinking, "s": lambda: asked_of, "w": lambda: told}
        return {"role": "assistant", "content": _parts(draw, kinds)}

    def user() -> Json:
        kinds = {
            "t": text, "i": image, "d": document, "s": lambda: found,
            "r": lambda: result(draw.one(*IDS)),
        }  # fmt: skip
        role = draw.one("user", "user", "user", "system")
        return {"role": role, "content": _parts(draw, kinds), **draw.now_and_then(colour="red")}

    def results_of(_: Odd, message: Json) -> list[Json]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        answers = [result(block["id"]) for block in blocks if block["type"] == "tool_use"]
        return [{"role": "user", "content": answers}] if answers else []

    while True:
        yield _turn(draw, user, assistant, lambda: _answered(draw, assistant(), results_of))


def responses(seed: int) -> Iterator[list[Json]]:
    """The Responses API."""
    draw = Odd(seed)
    text: Draw = lambda: {"type": "input_text", "text": draw.text()}  # noqa: E731
    image: Draw = lambda: {  # noqa: E731
        "type": "input_image", "detail": "auto", "image_url": draw.one(PICTURE, "https://e.org/a.png")
    }  # fmt: skip
    file = {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
    note = {
        "type": "url_citation", "url": "https://e.org", "title": "",
        "start_index": 0, "end_index": 1,
    }  # fmt: skip
    output: Draw = lambda: draw.one(  # noqa: E731
        lambda: {"type": "output_text", "text": draw.text(), "annotations": draw.one([], [note])},
        lambda: {"type": "refusal", "refusal": draw.text()},
    )

    def user() -> Json:
        role = draw.one("user", "user", "developer", "system")
        content = _parts(draw, {"t": text, "i": image, "f": lambda: file})
        return {**draw.one({}, {"type": "message"}), "role": role, "content": content,
                **draw.now_and_then(colour="red", status="completed")}  # fmt: skip

    def message() -> Json:
        item = {"type": "message", "id": draw.one("msg_1", "msg_2"), "role": "assistant"}
        content = draw.one(draw.text, lambda: draw.some(output))
        return {**item, "status": draw.one("completed", "incomplete"), "content": content}

    def reasoning() -> Json:
        summary = draw.some(lambda: {"type": "summary_text", "text": draw.text()}, most=1)
        return {"type": "reasoning", "id": "rs_1", "summary": summary,
                **draw.now_and_then(encrypted_content=draw.text, content=[])}  # fmt: skip

    def call() -> Json:
        by = {"call_id": draw.one(*IDS), **draw.one({}, {"id": "fc_1", "status": "completed"})}
        function = {"type": "function_call", **by, "name": draw.one(*NAMES)}
        made: Json = draw.one(
            lambda: {**function, "arguments": draw.arguments()},
            lambda: {**function, "arguments": draw.arguments()},
            lambda: {"type": "custom_tool_call", "call_id": by["call_id"], "name": "run",
                     "input": draw.text()},
        )  # fmt: skip
        return made

    def answer(call_id: str, kind: str = "function_call") -> Json:
        said = draw.one(draw.text, draw.text, lambda: draw.some(text, image))
        return {"type": f"{kind}_output", "call_id": call_id, "output": said}

    def results_of(_: Odd, items: list[Json]) -> list[Json]:
        return [answer(each["call_id"], each["type"]) for each in items if "call_id" in each]

    def step() -> list[Json]:
        return _answered(draw, draw.some(reasoning, message, call, call, most=4), results_of)

    while True:
        yield _turn(draw, user, message, step, step, lambda: answer(draw.one(*IDS)))


AGENTS: Final[Mapping[str, Callable[[int], Iterator[list[Json]]]]] = {
    each.__name__: each for each in (chat, anthropic, responses)
}
_CHAT: Final = TypeAdapter[Any](list[ChatCompletionMessageParam])
_FIELDS: Final = frozenset(
    {
        *("role", "content", "name", "refusal", "audio", "tool_calls", "tool_call_id"),
        *("reasoning_content", "x_mark", "annotations", "function_call"),
    }
)
_SAYING: Final = frozenset({"tool_calls", "audio", "function_call", "refusal"})


def unfit(context: Context) -> Iterator[str]:
    """Why it cannot be sent."""
    yield from invalid(context)
    for dialect in DIALECTS:
        asked = context.request_for(dialect)
        try:
            json.dumps(asked, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            yield f"{dialect}: no UTF-8"
    messages = context.messages_for("chat")
    try:
        _CHAT.validate_json(json.dumps(messages))
    except ValidationError as error:
        yield f"chat: {error.error_count()} errors in its shape"
    for message in messages:
        if message.get("content") == [] or message.get("tool_calls") == []:
            yield "chat: an empty list"
        if extra := message.keys() - _FIELDS:
            yield f"chat: fields {sorted(extra)}"
        if message.get("content") is None and not message.keys() & _SAYING:
            yield f"chat: nothing said by {message['role']}"
        parts = message["content"] if message["role"] == "tool" else ""
        if isinstance(parts, list) and {each["type"] for each in parts} - {"text", "image_url"}:
            yield "chat: a result with other parts than texts and images"


class Player:
    """Pushes, compacts now and then, and reads; ``faults`` and ``refused`` go on over all runs."""

    def __init__(self, url: str) -> None:
        self.faults: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self.contexts = 0
        self._redis = redis.Redis.from_url(url)
        self._client = ContextClient(url, namespace="odd", broker=SilentWaker())
        self._worker = Worker(self._redis, "odd")

    def close(self) -> None:
        """Leave the server."""
        self._client.close()
        self._redis.close()

    def play(self, dialect: str, seed: int, turns: int = 12) -> None:
        """One conversation."""
        random, agent = Random(seed), AGENTS[dialect](seed)
        self._redis.flushdb()
        policy = any_policy(random, dialect)
        self._client.open("s", policy)
        pushed = 0
        for at in range(turns):
            fault = partial(self._fault, f"{dialect}, seed {seed}, turn {at}")
            turn = next(agent)
            before = self._client.info("s").last_seq
            try:
                self._client.push("s", turn)
                pushed += 1
            except InvalidInput as error:
                self.refused[str(error)[:60]] += 1
                if self._client.info("s").last_seq != before:
                    fault("refused, and stored")
            if random.random() < 0.2:
                self._worker.pipeline.estimate(self._worker.ref("s"))
                self._worker.pipeline.summarize(self._worker.ref("s"))
            if pushed:
                context = self._client.read("s")
                self.contexts += 1
                for what in (*unfit(context), *over(context, policy.hard_limit)):
                    fault(what)

    def _fault(self, where: str, what: str) -> None:
        self.faults[what] += 1
        self.first.setdefault(what, where)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play so many; 1 if a context was not what it must be."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.odd", description=__doc__)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), durable=False) as server,
        closing(Player(server.url)) as player,
    ):
        for at in range(asked.runs):
            player.play(list(AGENTS)[at % 3], asked.seed + at // 3)
    told = (*player.faults.most_common(30), *player.refused.most_common(40))
    for what, times in told:
        print(f"{times} x {what!a} {player.first.get(what, '')}")  # noqa: T201 - it is a command
    print(f"{asked.runs} runs, {player.contexts} contexts, {len(player.faults)} faults")  # noqa: T201
    return bool(player.faults)


if __name__ == "__main__":
    sys.exit(main())
