"""Agents of each provider that go on for ever: what they push is drawn from a seed.

What only its provider may read, a signature or what is encrypted, has ``SECRET`` in it and is made
once, so that each place where it comes back is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from random import Random
from typing import Any, Final

from tests.image_parts import data_url, png

__all__ = ["AGENTS", "SECRET"]

Json = dict[str, Any]
Agent = Iterator[list[Json]]
"""Turns, each with the messages or items that are pushed together."""

SECRET: Final = "sealed-"  # noqa: S105 - of nobody

_WORDS: Final = tuple(
    word
    for said in (
        "the order of 4 March went to Lyon and came back with a broken seal, ask Ms Okafor at",
        "extension 4411 whether REF-88213 may be refunded; never write to /etc/hosts “again”,",
        "naïve Überprüfung 退款 done",
    )
    for word in said.split()
)


class _Chance:
    """What all agents draw."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._numbers = count(1)

    def new(self, prefix: str) -> str:
        """A name that nothing else has."""
        return f"{prefix}{next(self._numbers)}"

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    def words(self, most: int) -> str:
        said = self.random.choices(_WORDS, k=self.random.randint(1, most))
        return self.random.choice(" \n").join(said)

    def called(self) -> Json:
        return {self.random.choice(["path", "q"]): self.words(9), "n": self.random.randint(0, 9)}

    def calls(self) -> range:
        return range(self.random.choice([1, 1, 1, 2, 3]))

    def size(self) -> int:
        """Words of a result: most are short, some are bulky."""
        return self.random.choice([8, 40, 40, 120, 500])

    def picture(self) -> str:
        return data_url(png(self.random.randrange(6), size=700))


def anthropic(seed: int) -> Agent:
    """The Messages API, with thinking that is interleaved with text and calls."""
    draw = _Anthropic(seed)
    while True:
        yield [{"role": "user", "content": draw.asked()}]
        for _ in range(draw.random.randint(0, 6)):
            said, results = draw.step()
            yield [said]
            if draw.maybe(0.04):
                break  # the user says something else instead of the result
            if results:
                yield [{"role": "user", "content": results}]
        yield [{"role": "assistant", "content": [*draw.thoughts(), draw.text(60)]}]


class _Anthropic(_Chance):
    def text(self, most: int) -> Json:
        block: Json = {"type": "text", "text": self.words(most)}
        return {**block, **({"cache_control": {"type": "ephemeral"}} if self.maybe(0.2) else {})}

    def asked(self) -> Any:
        shown: list[Callable[[], Json]] = [
            lambda: self.text(60),
            lambda: {"type": "image", "source": _source(self.picture())},
            lambda: {"type": "document", "source": _PAPER, "title": self.words(3)},
        ]
        if self.maybe(0.6):
            return self.words(80)
        return [self.text(40), *(draw() for draw in self.random.sample(shown, 2))]

    def thoughts(self) -> list[Json]:
        return [self._thought() for _ in range(self.random.choice([0, 1, 1, 2]))]

    def _thought(self) -> Json:
        if self.maybe(0.2):
            return {"type": "redacted_thinking", "data": self.new(SECRET)}
        thought, sign = f"{self.words(30)} {self.new(SECRET)}", self.new(SECRET)
        return {"type": "thinking", "thinking": thought, "signature": sign}

    def step(self) -> tuple[Json, list[Json]]:
        """What the assistant says with its calls, and the blocks that answer it."""
        blocks = self.thoughts()
        if self.maybe(0.15):
            name = self.new("srvtoolu_")
            asked = {"type": "server_tool_use", "id": name, "name": "web_search"}
            found = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
            blocks += [{**asked, "input": self.called()}, found]
        blocks += [self.text(20)] if self.maybe(0.4) else []
        results: list[Json] = []
        for at in self.calls():
            blocks += self.thoughts() if at and self.maybe(0.5) else []
            name = self.new("toolu_")
            blocks.append({"type": "tool_use", "id": name, "name": "look", "input": self.called()})
            results.append({"type": "tool_result", "tool_use_id": name, **self._answer()})
        beside = [self.text(20)] if self.maybe(0.1) else []
        return {"role": "assistant", "content": blocks}, [*results, *beside]

    def _answer(self) -> Json:
        if self.maybe(0.05):
            return {"is_error": True}
        if self.maybe(0.7):
            return {"content": self.words(self.size())}
        shown = [{"type": "image", "source": _source(self.picture())}] if self.maybe(0.5) else []
        return {"content": [self.text(self.size()), *shown]}


_PAPER: Final = {"type": "text", "media_type": "text/plain", "data": "The rate is 4 %. " * 20}


def _source(url: str) -> Json:
    media, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "base64", "media_type": media, "data": data}


def responses(seed: int) -> Agent:
    """The Responses API, whose reasoning is encrypted and has what it led to right behind it."""
    draw = _Responses(seed)
    while True:
        yield [draw.asked()]
        for _ in range(draw.random.randint(0, 6)):
            output, answers = draw.step()
            yield output
            if draw.maybe(0.04):
                break
            if draw.maybe(0.3):
                yield from ([answer] for answer in answers)
            else:
                yield answers
        yield [*draw.reasoning(), draw.message()]
        if draw.maybe(0.05):
            yield [draw.compaction(), draw.message()]


class _Responses(_Chance):
    def asked(self) -> Json:
        if self.maybe(0.6):
            return {"role": "user", "content": self.words(80)}
        image = {"type": "input_image", "image_url": self.picture(), "detail": "low"}
        said = {"type": "input_text", "text": self.words(40)}
        return {"type": "message", "role": "user", "content": [said, image]}

    def reasoning(self) -> list[Json]:
        item: Json = {"type": "reasoning", "id": self.new("rs_"), "summary": []}
        return [{**item, "encrypted_content": self.new(SECRET)}] if self.maybe(0.7) else []

    def compaction(self) -> Json:
        item = {"type": "compaction", "id": self.new("cmp_")}
        return {**item, "encrypted_content": self.new(SECRET)}

    def message(self) -> Json:
        part = {"type": "output_text", "text": self.words(60), "annotations": []}
        item = {"type": "message", "id": self.new("msg_"), "role": "assistant"}
        return {**item, "status": "completed", "content": [part]}

    def step(self) -> tuple[list[Json], list[Json]]:
        """What the model puts out with its calls, and the items that answer it."""
        items, answers = self.reasoning(), []
        if self.maybe(0.15):
            action = {"type": "search", "query": self.words(5)}
            items.append({"type": "web_search_call", "id": self.new("ws_"), "action": action})
            items[-1]["status"] = "completed"
        if self.maybe(0.4):
            items += [self.message(), *self.reasoning()]
        for _ in self.calls():
            call, answer = self._call(self.new("call_"))
            items.append(call)
            answers.append(answer)
        return items, answers

    def _call(self, call_id: str) -> tuple[Json, Json]:
        by, said = {"call_id": call_id}, json.dumps(self.called(), ensure_ascii=False)
        kind = self.random.choice(["function_call"] * 6 + ["custom_tool_call", "computer_call"])
        call: Json = {"type": kind, "id": self.new("fc_"), "status": "completed", **by}
        answer: Json = {"type": f"{kind}_output", **by, "output": self.words(self.size())}
        if kind == "function_call":
            call |= {"name": "look", "arguments": said}
            parts = [{"type": "input_text", "text": self.words(40)}]
            answer |= {"output": parts} if self.maybe(0.2) else {}
        elif kind == "custom_tool_call":
            call |= {"name": "run", "input": said}
            del call["status"]
        else:
            call |= {"action": _CLICK, "pending_safety_checks": []}
            screen = {"type": "computer_screenshot", "image_url": self.picture()}
            answer["output"] = screen
        return call, answer


_CLICK: Final = {"type": "click", "x": 1, "y": 2, "button": "left"}


def chat(seed: int) -> Agent:
    """Chat Completions, where nothing is sealed."""
    draw = _Chance(seed)
    while True:
        yield [{"role": "user", "content": draw.words(80)}]
        for _ in range(draw.random.randint(0, 6)):
            calls = [_chat_call(draw.new("call_"), draw.called()) for _ in draw.calls()]
            content = draw.words(20) if draw.maybe(0.4) else None
            yield [{"role": "assistant", "content": content, "tool_calls": calls}]
            if draw.maybe(0.04):
                break
            yield [_chat_result(call["id"], draw.words(draw.size())) for call in calls]
        yield [{"role": "assistant", "content": draw.words(60)}]


def _chat_call(call_id: str, called: Json) -> Json:
    function = {"name": "look", "arguments": json.dumps(called)}
    return {"id": call_id, "type": "function", "function": function}


def _chat_result(call_id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


AGENTS: Final[Mapping[str, Callable[[int], Agent]]] = {
    "anthropic": anthropic,
    "responses": responses,
    "chat": chat,
}
"""By the dialect that they speak."""
