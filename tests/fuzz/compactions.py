"""``python -m tests.fuzz.compactions``: compact sessions of every dialect, and check every context.

Each context must be valid for the provider of each dialect, within its limit, and have each
thought, each encrypted item, byte for byte as it was pushed or not at all; thoughts of Anthropic's
models only behind exactly what they were thought behind, for their API binds them to that. A fault
says the seed it was found with: ``--seed N --compactions 1`` plays that session again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import redis
from anthropic.types import MessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

from tests.image_parts import data_url, png
from tests.redis.conftest import Worker
from turnmill import Context, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.errors import NoCheckpoint, Transient
from turnmill.contract.legality import CallTracker
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

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

    def call_id(self, prefix: str) -> str:
        """An id of a call: now and then one that others have, or that few providers take."""
        return f"{prefix}{self.random.choice(' 1')}" if self.maybe(0.1) else self.new(prefix)

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
                yield [{"role": "user", "content": draw.asked()}]
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
            call, answer = self._call(self.call_id("call_"))
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
            calls = [_chat_call(draw.call_id("call_"), draw.called()) for _ in draw.calls()]
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


_SHAPES: Final[Mapping[str, TypeAdapter[Any]]] = {
    "anthropic": TypeAdapter(list[MessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
}
MOST_MARKS: Final = 4
"""Cache marks that Anthropic takes in a request."""


def invalid(context: Context) -> Iterator[str]:
    """Why a provider would refuse it, in its own dialect or in another.

    While calls wait for their results no agent asks its model, so only chat's rules hold then.
    """
    waits = _is_waiting(context)
    for dialect in DIALECTS:
        messages = context.messages_for(dialect)
        if dialect == "chat" or not waits:
            yield from (f"{dialect}: {what}" for what in violations(messages, dialect))
        text = json.dumps(messages)
        if '"native"' in text:
            yield f"{dialect}: has what another dialect says beside"
        if dialect != context.dialect and SECRET in text:
            yield f"{dialect}: has what only another provider may read"
        try:
            if dialect in _SHAPES:
                _SHAPES[dialect].validate_json(json.dumps(list(map(_identified, messages))))
        except ValidationError as error:
            yield f"{dialect}: {error.error_count()} errors in its shape"
    marks = json.dumps(context.request_for("anthropic")).count('"cache_control"')
    if marks > MOST_MARKS:
        yield f"anthropic: {marks} cache marks"


def _is_waiting(context: Context) -> bool:
    """Whether a call has no result yet."""
    tracker = CallTracker()
    tracker.follow(context.messages_for("chat"))
    return bool(tracker.open)


def _identified(item: Json) -> Json:
    """The API takes an assistant's parts without an id; its types say that they have one."""
    is_answer = item.get("type") == "message" and item["role"] == "assistant"
    return {"id": "msg", "status": "completed", **item} if is_answer else item


def over(context: Context, limit: int) -> Iterator[str]:
    """Whether it says that it has more tokens than it may."""
    if context.tokens > limit:
        yield f"{context.tokens} tokens, the limit is {limit}"


class Sealed:
    """All that was pushed of thoughts, reasoning and compactions, and what was said with it.

    A *run* is what stands in one pushed message, or in Responses right behind each other, of
    blocks or items that nobody may change. It comes back as it was, byte for byte, or not at all.
    """

    def __init__(self) -> None:
        self._runs: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._behind: dict[str, str] = {}
        self.shown = 0

    def add(self, turn: Sequence[Json]) -> None:
        """Note what was pushed."""
        for run in _runs(turn):
            said = tuple(map(json.dumps, run))
            for each in said:
                self._runs[each] = len(self._runs), said
        for item, behind in pairwise(turn):
            if item.get("type") == "reasoning":
                self._behind[item["id"]] = str(behind.get("id"))

    def broken(self, context: Context) -> Iterator[str]:
        """What of it came back otherwise."""
        shown, newest = list(_runs(context.messages)), -1
        self.shown = sum(map(len, shown))
        for run in shown:
            said = tuple(map(json.dumps, run))
            at, pushed = self._runs.get(said[0], (-1, ()))
            if said != pushed:
                yield "a thought is not as it was pushed, or a part of it is missing"
            elif at <= newest:
                yield "thoughts have changed places"
            newest = max(newest, at)
        if json.dumps(context.messages).count(SECRET) != json.dumps(shown).count(SECRET):
            yield "a thought stands where none was pushed"
        if context.dialect == "responses":
            yield from self._apart(context.messages)

    def _apart(self, items: Sequence[Json]) -> Iterator[str]:
        """Items of one output without each other: the API knows by their ids what they had."""
        reasoned = {item["id"] for item in items if item.get("type") == "reasoning"}
        for item, behind in pairwise([*items, {}]):
            if item.get("type") == "reasoning" and behind.get("id") != self._behind[item["id"]]:
                yield "reasoning stands before another item than it led to"
        for before, led_to in self._behind.items():
            if before not in reasoned and any(item.get("id") == led_to for item in items):
                yield "an item has its id, and not the reasoning that led to it"


class Bound:
    """What stood before each thought when it was thought, as a signature binds it."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}

    def answer(self, asked: Context, turn: Sequence[Json]) -> None:
        """Note that the model answered with this turn."""
        messages = asked.messages_for("anthropic")
        self._before |= _before_thoughts(asked, [*messages, *turn])

    def misplaced(self, context: Context) -> Iterator[str]:
        """Which thoughts stand behind something else."""
        for thought, before in _before_thoughts(context, context.messages).items():
            if self._before.get(thought) != before:
                yield "a thought is bound to a different conversation"


def _before_thoughts(context: Context, messages: Sequence[Json]) -> dict[str, str]:
    """A digest of system prompt, messages and blocks before each thought; cache marks do not bind.

    Of the same thought again the last.
    """
    found: dict[str, str] = {}
    before = hashlib.sha256(context.system_prompt.encode())
    for message in messages:
        before.update(str(message.get("role")).encode())
        said = message.get("content")
        blocks = said if isinstance(said, list) else [{"type": "text", "text": said}]
        for block in blocks:
            if "thinking" in str(block.get("type")):
                found[json.dumps(block)] = before.hexdigest()
            before.update(json.dumps(_unmarked(block)).encode())
    return found


def _unmarked(block: Json) -> Json:
    """The block without cache marks, its own and those inside a result."""
    inner = block.get("content")
    content = {"content": list(map(_unmarked, inner))} if isinstance(inner, list) else {}
    return {name: own for name, own in (block | content).items() if name != "cache_control"}


def _runs(messages: Sequence[Json]) -> Iterator[list[Json]]:
    """The thoughts of each message; items that nobody may change, each alone."""
    for message in messages:
        if SECRET in str(message.get("encrypted_content")):
            yield [message]
        content = message.get("content")
        if isinstance(content, list):
            thoughts = [block for block in content if "thinking" in str(block.get("type"))]
            if thoughts:
                yield thoughts


NAMESPACE: Final = "fuzz"
TURNS: Final = 120
"""Of one session: enough for a dozen compactions of what was compacted before."""

LADDERS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"strategies": ("elide", "rolling", "window")},
    {"strategies": ("rolling",)},
    {"strategies": ("window",)},
    {"strategies": ("elide", "window"), "max_interactions": 2},
    {"strategies": ("images", "elide", "rolling", "window"), "max_history_images": 1},
    {"strategies": ("images", "rolling"), "max_history_images": 0, "keep_first_image": False},
    {"strategies": ("iterations", "window"), "keep_recent_iterations": 2, "soft_ratio": 1.0},
    {"strategies": ("managed", "window"), "recent_runs": 3, "passthrough_runs": 1},
)


def any_policy(random: Random, dialect: str, beside: int = 0) -> Policy:
    """Any strategies over a context so small that a few turns fill it; ``beside`` is the prompt."""
    return Policy(
        **{
            "dialect": random.choice([dialect, ""]),
            "max_tokens": random.choice([600, 1024, 2048]) + beside,
            "recent_turns_to_keep": random.randint(0, 4),
            "min_progress_ratio": random.choice([0.0, 0.1]),
            "quality_threshold": random.choice([0.0, 0.0, 0.6]),
            "checkpoint_interval": random.choice([0, 2]),
            "cache_marks": random.choice([True, False]),
            "ledger_ratio": random.choice([0.1, 0.0]),
            **random.choice(LADDERS),
        }
    )


@dataclass
class Tally:
    """What was looked at, and what was wrong with it."""

    turns: int = 0
    contexts: int = 0
    projected: int = 0
    thoughts: int = 0
    compactions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class Player:
    """Agents and a worker of one Redis, which is emptied before each session.

    ``tally`` goes on over all sessions; a fault names the dialect, the seed and the turn.
    """

    def __init__(self, url: str) -> None:
        self.tally = Tally()
        self.redis = redis.Redis.from_url(url)
        self.client = ContextClient(url, namespace=NAMESPACE, broker=SilentWaker())
        self.worker = Worker(self.redis, NAMESPACE)
        self._rollback = Rollback(RedisStates(self.redis), None, counter_for)

    def close(self) -> None:
        """Leave the server."""
        self.client.close()
        self.redis.close()

    def fuzz(self, dialect: str, seed: int, *, turns: int = TURNS) -> None:
        """One session of an agent, with workers that come now and then, and ways back."""
        random = Random(seed)
        policy = any_policy(random, dialect)
        self.begin(policy)
        sealed, bound, agent = Sealed(), Bound(), AGENTS[dialect](seed)
        for at in range(turns):
            turn = next(agent)
            sealed.add(turn)
            if any("thinking" in json.dumps(message) for message in turn) and at:
                bound.answer(self._asked(), turn)
                if random.random() < 0.2:  # while the model thinks
                    self.work()
            self.push({"messages": turn, "pinned": random.random() < 0.01})
            for what in self._happens(random):
                where = f"{dialect}, seed {seed}, turn {at}, {what}"
                self._look(where, policy, sealed, bound)

    def begin(self, policy: Policy, system_prompt: str = "You are terse.") -> None:
        """Forget all, and open a session."""
        self.redis.flushdb()
        self.client.open("s", policy, system_prompt=system_prompt)

    def push(self, turn: Any) -> None:
        """One more turn."""
        self.client.push("s", turn)
        self.tally.turns += 1

    def _happens(self, random: Random) -> Iterable[str]:
        """What a moment brings; an agent reads after each."""
        chance = random.random()
        if chance < 0.3:
            yield self.work()
        elif chance < 0.32:
            self.client.checkpoint("s", "a mark")
        elif chance < 0.34:
            yield self._goes_back(random)
        elif chance < 0.35:
            yield self._forced()
        elif chance < 0.36:
            self.client.open("s", system_prompt=f"You are terse. It is day {random.random()}.")
            yield "another prompt"
        elif chance < 0.6:
            yield "pushed"

    def _asked(self) -> Context:
        """What a model is asked: not while a call waits, as it may after going back."""
        context = self.client.read("s")
        if not _is_waiting(context):
            return context
        self.push({"role": "user", "content": "Go on."})
        return self.client.read("s")

    def work(self) -> str:
        """Have a worker look at the session; returns what became of it."""
        ref = self.worker.ref("s")
        self.worker.pipeline.estimate(ref)
        outcome = self.worker.pipeline.summarize(ref)
        if outcome.outcome == "committed":
            self.tally.compactions[outcome.strategy or "shortened"] += 1
        return outcome.outcome

    def _goes_back(self, random: Random) -> str:
        saved = [each.id for each in self.client.checkpoints("s")]
        try:
            to = random.choice([None, *saved])
            self._rollback.rollback(self.worker.ref("s"), to)
        except NoCheckpoint:
            return "nothing to go back to"
        return "rolled back"

    def _forced(self) -> str:
        try:
            done = self.worker.pipeline.force(self.worker.ref("s"), template="")
        except Transient:
            return "refused"
        self.tally.compactions["forced"] += bool(done.turns_summarized)
        return "forced"

    def _look(self, where: str, policy: Policy, sealed: Sealed, bound: Bound) -> None:
        context = self.client.read("s")
        found = [*sealed.broken(context)]
        if context.dialect == "anthropic":
            found += bound.misplaced(context)
        self.tally.thoughts += sealed.shown
        self.note(where, context, policy, found)

    def note(self, where: str, context: Context, policy: Policy, found: Iterable[str]) -> None:
        """Count a context, and what is wrong with it: ``found``, or what no context may be."""
        self.tally.contexts += 1
        self.tally.projected += context.projection is not None
        for what in (*invalid(context), *over(context, policy.hard_limit), *found):
            self.tally.faults[f"{what} ({where})"] += 1


MOST_FAULTS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Play until there were so many compactions; 1 if a context was not what it must be."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.compactions", description=__doc__)
    parser.add_argument("--compactions", type=int, default=10_000, help="of made-up sessions")
    parser.add_argument("--seed", type=int, default=1, help="of the first session")
    asked = parser.parse_args(arguments)
    return run(lambda player: _play(player, asked.compactions, asked.seed))


def run(play: Callable[[Player], Iterable[str]]) -> int:
    """Play on a server of its own, and show how far it got; 1 if there was a fault."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), durable=False) as server,
        closing(Player(server.url)) as player,
    ):
        for said in play(player):
            _show(said, player.tally)
        for fault, times in player.tally.faults.most_common(MOST_FAULTS):
            _say(f"{times} x {fault}")
        _say(str(dict(player.tally.compactions)))
        return bool(player.tally.faults)


def _play(player: Player, compactions: int, first: int) -> Iterator[str]:
    seed = first
    while player.tally.compactions.total() < compactions:
        for dialect in AGENTS:
            player.fuzz(dialect, seed)
        if seed % 20 == 0:
            yield f"up to seed {seed}"
        seed += 1
    yield f"seeds {first} to {seed - 1}"


def _show(name: str, tally: Tally) -> None:
    _say(
        f"{name}: {tally.turns} turns, {tally.compactions.total()} compactions, "
        f"{tally.contexts} contexts, {tally.projected} of them projected, "
        f"{tally.thoughts} thoughts shown, {tally.faults.total()} faults"
    )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is a command


if __name__ == "__main__":
    sys.exit(main())
