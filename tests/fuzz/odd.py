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

    def parts(self, *kinds: Draw) -> Any:
        """A content: a text, nothing, or parts."""
        return self.one(self.text, self.text, None, "", lambda: self.some(*kinds))

    def turn(self, *kinds: Draw) -> list[Json]:
        drawn = self.one(*kinds)
        return drawn if isinstance(drawn, list) else [drawn]

    def answered(self, asked: list[Json], results: list[Json]) -> list[Json]:
        """Calls with results: as they came, in another order, one twice, or one not at all."""
        self.random.shuffle(results)
        results += self.one([], [], results[:1])
        return [*asked, *results[self.one(0, 0, 0, 1) :]]


class Chat(Odd):
    """Chat Completions."""

    def turns(self) -> Iterator[list[Json]]:
        while True:
            yield self.turn(self.user, self.assistant, self.tool, self.step)

    def written(self) -> Json:
        return {"type": "text", "text": self.text()}

    def image(self) -> Json:
        url = self.one(PICTURE, "https://e.org/a.png", "", "data:image/png,x")
        return {"type": "image_url", "image_url": {"url": url}}

    def refused(self) -> Json:
        return {"type": "refusal", "refusal": self.text()}

    def call(self) -> Json:
        function = {"name": self.one(*NAMES), "arguments": self.arguments()}
        given: Json = {"id": self.one(*IDS), "type": "function", "function": function}
        custom = {"name": "run", "input": self.text()}
        made: Json = self.one(given, given, given, {"id": "c", "type": "custom", "custom": custom})
        return made

    def assistant(self) -> Json:
        calls = self.one([], [], lambda: self.some(self.call))
        return {
            "role": "assistant",
            "content": self.parts(self.written, self.refused),
            **({"tool_calls": calls} if calls else {}),
            **self.now_and_then(
                tool_calls=lambda: self.one(None, []),
                refusal=self.text,
                audio={"id": "audio_1", "transcript": "Hello", "data": "UklG", "expires_at": 1},
                reasoning_content=self.text,
                annotations=[],
                function_call={"name": "look", "arguments": "{}"},
                name=lambda: self.one("Ann", ""),
                colour="red",
                x_mark=1,
            ),
        }

    def tool(self) -> Json:
        content = self.parts(self.written, self.refused)
        return {"role": "tool", "tool_call_id": self.one(*IDS), "content": content}

    def user(self) -> Json:
        role = self.one("user", "user", "user", "developer", "system")
        content = self.parts(self.written, self.image, lambda: WAV, lambda: FILE)
        named = self.now_and_then(name=lambda: self.one("Ann", "näme", ""), colour="red")
        return {"role": role, "content": content, **named}

    def step(self) -> list[Json]:
        asked = self.assistant()
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": self.text()}
            for call in asked.get("tool_calls") or ()
        ]
        return self.answered([asked], results)


WAV: Final = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
FILE: Final = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}


class Anthropic(Odd):
    """The Messages API."""

    def turns(self) -> Iterator[list[Json]]:
        while True:
            yield self.turn(self.user, self.assistant, self.step)

    def written(self) -> Json:
        cited = self.now_and_then(citations=lambda: self.one([], None, [CITED]), colour="red")
        return {"type": "text", "text": self.text(), **cited}

    def image(self) -> Json:
        data = {"type": "base64", "media_type": "image/png", "data": PICTURE.partition(",")[2]}
        there = {"type": "url", "url": "https://e.org/a.png"}
        source = self.one(data, there, {"type": "file", "file_id": "file_1"})
        return {"type": "image", "source": source}

    def document(self) -> Json:
        parts = [{"type": "text", "text": "x"}]
        there = {"type": "url", "url": "https://e.org/a.pdf"}
        source = self.one(PAPER, there, {"type": "content", "content": parts})
        more = self.now_and_then(title=self.text, context=self.text, citations={"enabled": True})
        return {"type": "document", "source": source, **more}

    def thought(self) -> Json:
        thought, sign = self.one("", "Hm."), self.one("", "c2ln")
        hidden = {"type": "redacted_thinking", "data": "EmwK"}
        made: Json = self.one(hidden, {"type": "thinking", "thinking": thought, "signature": sign})
        return made

    def use(self) -> Json:
        name, given = self.one(*NAMES), self.any_json()
        return {"type": "tool_use", "id": self.one(*IDS), "name": name, "input": given}

    def result(self, call_id: str = "") -> Json:
        content = self.parts(self.written, self.image, self.document, lambda: FOUND)
        said = self.now_and_then(is_error=True, content=content)
        return {"type": "tool_result", "tool_use_id": call_id or self.one(*IDS), **said}

    def assistant(self) -> Json:
        hosted = (lambda: SEARCH, lambda: SEARCHED)
        content = self.parts(self.written, self.use, self.use, self.thought, *hosted)
        return {"role": "assistant", "content": content}

    def user(self) -> Json:
        shown = (self.image, self.document, lambda: FOUND, self.result)
        content = self.parts(self.written, *shown)
        role = self.one("user", "user", "user", "system")
        return {"role": role, "content": content, **self.now_and_then(colour="red")}

    def step(self) -> list[Json]:
        asked = self.assistant()
        blocks = asked["content"] if isinstance(asked["content"], list) else []
        results = [self.result(block["id"]) for block in blocks if block["type"] == "tool_use"]
        return [asked, *([{"role": "user", "content": results}] if results else [])]


CITED: Final = {
    "type": "char_location", "cited_text": "4 %", "document_index": 0, "document_title": None,
    "start_char_index": 0, "end_char_index": 3,
}  # fmt: skip
PAPER: Final = {"type": "text", "media_type": "text/plain", "data": "The rate is 4 %."}
FOUND: Final = {
    "type": "search_result", "source": "https://e.org", "title": "Rates",
    "content": [{"type": "text", "text": "4 %"}],
}  # fmt: skip
SEARCH: Final = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
SEARCHED: Final = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


class Responses(Odd):
    """The Responses API."""

    def turns(self) -> Iterator[list[Json]]:
        while True:
            yield self.turn(self.user, self.message, self.step, self.step, self.answer)

    def written(self) -> Json:
        return {"type": "input_text", "text": self.text()}

    def image(self) -> Json:
        url = self.one(PICTURE, "https://e.org/a.png")
        return {"type": "input_image", "detail": "auto", "image_url": url}

    def output(self) -> Json:
        text = {"type": "output_text", "text": self.text(), "annotations": self.one([], [NOTE])}
        made: Json = self.one(text, {"type": "refusal", "refusal": self.text()})
        return made

    def user(self) -> Json:
        role = self.one("user", "user", "developer", "system")
        file = {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
        content = self.parts(self.written, self.image, lambda: file)
        more = self.now_and_then(colour="red", status="completed")
        return {**self.one({}, {"type": "message"}), "role": role, "content": content, **more}

    def message(self) -> Json:
        item = {"type": "message", "id": self.one("msg_1", "msg_2"), "role": "assistant"}
        content = self.one(self.text, lambda: self.some(self.output))
        return {**item, "status": self.one("completed", "incomplete"), "content": content}

    def reasoning(self) -> Json:
        summary = self.some(lambda: {"type": "summary_text", "text": self.text()}, most=1)
        more = self.now_and_then(encrypted_content=self.text, content=[])
        return {"type": "reasoning", "id": "rs_1", "summary": summary, **more}

    def call(self) -> Json:
        by = {"call_id": self.one(*IDS), **self.one({}, {"id": "fc_1", "status": "completed"})}
        if self.one(1, 0, 0):
            name = {"name": "run", "input": self.text()}
            return {"type": "custom_tool_call", "call_id": by["call_id"], **name}
        name = {"name": self.one(*NAMES), "arguments": self.arguments()}
        return {"type": "function_call", **by, **name}

    def answer(self, call_id: str = "", kind: str = "function_call") -> Json:
        said = self.one(self.text, self.text, lambda: self.some(self.written, self.image))
        return {"type": f"{kind}_output", "call_id": call_id or self.one(*IDS), "output": said}

    def step(self) -> list[Json]:
        asked = self.some(self.reasoning, self.message, self.call, self.call, most=4)
        calls = [each for each in asked if "call_id" in each]
        return self.answered(asked, [self.answer(each["call_id"], each["type"]) for each in calls])


NOTE: Final = {
    "type": "url_citation", "url": "https://e.org", "title": "", "start_index": 0, "end_index": 1,
}  # fmt: skip


AGENTS: Final[Mapping[str, Callable[[int], Iterator[list[Json]]]]] = {
    "chat": lambda seed: Chat(seed).turns(),
    "anthropic": lambda seed: Anthropic(seed).turns(),
    "responses": lambda seed: Responses(seed).turns(),
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
