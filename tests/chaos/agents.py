"""What agents did, written down as they did it: one JSON line when a call begins, one when it ends.

Each line is on disk before the agent goes on. A call without an end is one whose outcome nobody
knows: its agent was killed. Times are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from tests.image_parts import png, showing
from turnmill import AsyncContextClient, Context, ContextClient, SilentWaker, Turn, TurnmillError
from turnmill.contract.context import JsonMessage, Receipt
from turnmill.contract.names import Seq, SessionId, Version
from turnmill_cli.promises import fingerprint

Kind = Literal["push", "read"]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a read returned; its messages by fingerprint."""

    version: int
    watermark: int
    last_seq: int
    tokens: int
    exact: bool
    projection: dict[str, Any] | None
    system_prompt: str
    keys: tuple[str, ...]

    @classmethod
    def of(cls, context: Context) -> ReadResult:
        """The same, without the messages."""
        return cls(
            version=context.version,
            watermark=context.watermark,
            last_seq=context.last_seq,
            tokens=context.tokens,
            exact=context.exact,
            projection=context.projection.model_dump() if context.projection else None,
            system_prompt=context.system_prompt,
            keys=tuple(fingerprint(message).hex() for message in context.messages),
        )

    def context(self, session: str, messages: dict[str, JsonMessage]) -> Context:
        """The context as the agent got it."""
        return Context(
            messages=[messages[key] for key in self.keys],
            session=SessionId(session),
            version=Version(self.version),
            watermark=Seq(self.watermark),
            last_seq=Seq(self.last_seq),
            tokens=self.tokens,
            exact=self.exact,
            projection=Receipt(**self.projection) if self.projection else None,
            system_prompt=self.system_prompt,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an agent.

    Attributes:
        turns: what it pushed, in order.
        ended_s: when it returned or raised; None when nobody knows whether it did.
        seqs: of a push that was acknowledged; those of ``turns``, in order.
        read: of a read that returned.
        error: the kind of what it raised, or ``""``.
    """

    agent: str
    kind: Kind
    session: str
    began_s: float
    turns: tuple[str, ...] = ()
    ended_s: float | None = None
    seqs: tuple[int, ...] = ()
    read: ReadResult | None = None
    error: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether the agent was told that it was done."""
        return self.ended_s is not None and not self.error


@dataclass(frozen=True)
class History:
    """All calls of all agents, and the messages their reads showed, by fingerprint."""

    calls: tuple[Call, ...]
    messages: dict[str, JsonMessage] = field(default_factory=dict)

    def of(self, session: str, kind: Kind) -> Iterator[Call]:
        """The calls of one kind in one session, in the order in which they began."""
        return iter(self._sorted.get((session, kind), ()))

    @cached_property
    def _sorted(self) -> dict[tuple[str, str], list[Call]]:
        found: dict[tuple[str, str], list[Call]] = {}
        for call in self.calls:
            found.setdefault((call.session, call.kind), []).append(call)
        return found


class Recorder:
    """Writes one agent's history."""

    def __init__(self, file: Path, agent: str) -> None:
        self._file = file
        self._agent = agent
        self._number = 0
        self._seen: set[str] = set()

    def begin(self, kind: Kind, session: str, turns: Sequence[str] = ()) -> int:
        """Note that a call begins; returns its number."""
        self._number += 1
        said = {"agent": self._agent, "kind": kind, "session": session, "turns": turns}
        self._write({"n": self._number, "began_s": time.monotonic(), **said})
        return self._number

    def end(self, number: int, *, seqs: Sequence[int] = (), error: str = "") -> None:
        """Note that it ended, with the seqs of what it pushed or an error."""
        self._write({"n": number, "ended_s": time.monotonic(), "seqs": seqs, "error": error})

    def end_read(self, number: int, context: Context) -> None:
        """Note what a read returned."""
        at = time.monotonic()
        result = ReadResult.of(context)
        shown = dict(zip(result.keys, context.messages, strict=True))
        new = {key: message for key, message in shown.items() if key not in self._seen}
        self._seen.update(new)
        slots = {name: getattr(result, name) for name in ReadResult.__slots__}
        self._write({"n": number, "ended_s": at, "read": slots, "messages": new})

    def _write(self, value: dict[str, Any]) -> None:
        with self._file.open("a") as file:  # whole lines: the agent may be killed at any moment
            file.write(json.dumps(value) + "\n")


def load(folder: Path) -> History:
    """The history of all agents that wrote into the folder."""
    calls: list[Call] = []
    messages: dict[str, JsonMessage] = {}
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[int, dict[str, Any]] = {}
        for line in _lines(file):
            messages |= line.pop("messages", {})
            begun.setdefault(line.pop("n"), {}).update(line)
        calls += map(_call, begun.values())
    calls.sort(key=lambda call: call.began_s)
    return History(tuple(calls), messages)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last one of a killed agent may be cut off
            yield json.loads(line)


def _call(line: dict[str, Any]) -> Call:
    read = line.pop("read", None)
    if read is not None:
        read["keys"] = tuple(read["keys"])
    line |= {name: tuple(line.get(name, ())) for name in ("turns", "seqs")}
    return Call(**line, read=ReadResult(**read) if read else None)


_WORDS = ("parcel", "street", "order", "invoice", "window", "harbour", "ticket", "engine")


def turn_id(agent: str, session: str, number: int, style: str) -> str:
    """The id of an agent's turn of this number in a session."""
    return f"{agent}/{session}/{number}/{style}"


@lru_cache(maxsize=20_000)
def message_of(turn: str) -> JsonMessage:
    """The one message of a turn."""
    _, _, number, style = turn.rsplit("/", 3)
    seed = int.from_bytes(hashlib.blake2b(turn.encode(), digest_size=8).digest())
    if style == "small":
        return {"role": "user", "content": f"{turn} {seed % 997}"}
    if style == "images" and int(number) % 4 == 0:
        # As long as an image must be to be kept apart from its turn.
        return showing(png(seed, size=1200), text=f"{turn}: look")
    if style == "tools" and int(number) % 6 in (2, 3):
        return _calling(turn, number) if int(number) % 6 == 2 else _result(turn, number, seed)
    role = "assistant" if int(number) % 2 else "user"
    return {"role": role, "content": f"{turn}: {_prose(seed, 12 + seed % 30)}"}


def _calling(turn: str, number: str) -> JsonMessage:
    function = {"name": "look_up", "arguments": f'{{"of": "{turn}"}}'}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _result(turn: str, number: str, seed: int) -> JsonMessage:
    content = f"{turn}: {_prose(seed, 60 + seed % 200)}"
    return {"role": "tool", "tool_call_id": f"call-{int(number) - 1}", "content": content}


def _prose(seed: int, words: int) -> str:
    said = (
        f"{_WORDS[seed // (at + 1) % len(_WORDS)]} {seed // (at + 7) % 991}" for at in range(words)
    )
    return " ".join(said)


_TRIES = 200


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent does.

    Attributes:
        name: of this life of the agent; turn ids begin with it.
        url: of the state store; ``broker`` of the broker, or ``""`` to send no hints.
        sessions: names with the style of turns each gets.
        batch: most turns of one call; ``burst`` of some, in sessions without summaries of a model.
        read_share: how many of its calls are reads.
        pause_s: longest pause between two calls of a session.
    """

    name: str
    url: str
    broker: str
    namespace: str
    sessions: dict[str, str]
    folder: str
    kind: Literal["sync", "async"] = "sync"
    seed: int = 0
    batch: int = 4
    burst: int = 0
    read_share: float = 0.3
    pause_s: float = 0.2
    timeout_s: float = 5.0


def spawn(plan: AgentPlan) -> subprocess.Popen[bytes]:
    """Start the agent."""
    log = (Path(plan.folder) / f"{plan.name}.log").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.agents", json.dumps(asdict(plan))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Agent:
    """What sync and async agents share: which call comes next, and what is written of it."""

    def __init__(self, plan: AgentPlan, client: Any) -> None:
        self.plan = plan
        self.stopped = False
        self._client = client
        self._recorder = Recorder(Path(plan.folder) / f"{plan.name}.jsonl", plan.name)
        self._random = random.Random(f"{plan.seed} {plan.name}")
        self._numbers: Counter[str] = Counter()
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopped = True

    async def step(self, session: str) -> None:
        """One call, tried until it is acknowledged."""
        if self._numbers[session] and self._random.random() < self.plan.read_share:
            await self._try("read", session, ())
            return
        style = self.plan.sessions[session]
        count = self._count(style)
        first = self._numbers[session]
        self._numbers[session] += count
        turns = [turn_id(self.plan.name, session, first + at, style) for at in range(count)]
        for _ in range(_TRIES):
            if self.stopped or await self._try("push", session, turns):
                return
            await self._sleep(0.02)

    def _count(self, style: str) -> int:
        """How many turns to push in one call: mostly one, at times many at once."""
        chance = self._random.random()
        if style in ("small", "tools") and chance < 0.4 and self.plan.burst:
            return self._random.randint(self.plan.burst // 5, self.plan.burst)
        if style == "small":
            return self.plan.batch
        return 1 if chance < 0.6 else self._random.randint(1, self.plan.batch)

    async def _sleep(self, seconds: float) -> None:
        if self.plan.kind == "sync":
            time.sleep(seconds)  # noqa: ASYNC251 - nobody else runs in this thread
        else:
            await asyncio.sleep(seconds)

    async def _try(
        self, kind: Literal["push", "read"], session: str, turns: list[str] | tuple[()]
    ) -> bool:
        number = self._recorder.begin(kind, session, turns)
        try:
            result = self._call(kind, session, turns)
            result = await result if inspect.isawaitable(result) else result
        except TurnmillError as error:
            self._recorder.end(number, error=type(error).__name__)
            return False
        if kind == "read":
            self._recorder.end_read(number, result)
        else:
            pushed = result if isinstance(result, list) else [result]
            self._recorder.end(number, seqs=[each.seq for each in pushed])
        return True

    def _call(self, kind: str, session: str, turns: list[str] | tuple[()]) -> Any:
        if kind == "read":
            return self._client.read(session)
        if len(turns) == 1:
            return self._client.push(session, message_of(turns[0]), turn_id=turns[0])
        made = [Turn(messages=[message_of(one)], turn_id=one) for one in turns]
        return self._client.push_many((session, one) for one in made)

    def pause_s(self) -> float:
        """Until the next call."""
        return self._random.random() * self.plan.pause_s


def run_sync(plan: AgentPlan) -> None:
    """All sessions in turn."""
    with ContextClient(plan.url, **_options(plan)) as client:
        agent = Agent(plan, client)
        while not agent.stopped:
            for session in plan.sessions:
                with suppress(StopIteration):
                    agent.step(session).send(None)  # its client is a sync one: it never suspends
                time.sleep(agent.pause_s())


async def run_async(plan: AgentPlan) -> None:
    """All sessions at once."""

    async def live(session: str) -> None:
        while not agent.stopped:
            await agent.step(session)
            await asyncio.sleep(agent.pause_s())

    async with AsyncContextClient(plan.url, **_options(plan)) as client:
        agent = Agent(plan, client)
        await asyncio.gather(*map(live, plan.sessions))


def _options(plan: AgentPlan) -> dict[str, Any]:
    broker = plan.broker or SilentWaker()
    return {"namespace": plan.namespace, "broker": broker, "timeout_s": plan.timeout_s}


if __name__ == "__main__":
    what = AgentPlan(**json.loads(sys.argv[1]))
    run_sync(what) if what.kind == "sync" else asyncio.run(run_async(what))
