"""Prints how much of each context a provider's prompt cache has seen before, per strategy.

    python -m benchmarks.prefix_stability FOLDER [--only tau demo] [--strategies rolling …]

FOLDER holds real sessions as `.jsonl.gz`. Short ones are joined until they need many compactions;
`demo` are the agents of `turnmill demo`. Each message is one turn; after each, the pipeline runs
and the context is read, as an agent whose workers keep up would see it.

    mean     over all contexts but a session's first: the share of its tokens in the messages at its
             beginning that are, byte for byte, those of the session's context before it
    pooled   the same over all tokens: what a cache that forgets nothing would serve
    ceiling  the mean if nothing were ever taken out: the newest turn is always new
    commits  compactions, the share right after one, and what they cost the mean, per strategy
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import redis

from benchmarks.survival import load
from tests.properties.stepping import SentHints
from turnmill import Context, ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill_cli.demo import ScriptedAgent
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import count_message, counter_for

NAMESPACE = "prefix"
DEMO = "demo"
IMAGES = "webvoyager"
_LONGEST = 7
"""Times as long as the others: sessions for a policy of many more tokens."""

POLICIES: Mapping[str, Policy] = {
    "rolling": Policy(),
    "iterations": Policy(strategies=("images", "elide", "iterations", "window")),
    "iterations-150k": Policy.iterations(),
    "managed": Policy.managed(),
    "images": Policy.image_history(max_tokens=32_000, max_history_images=3),
    "window": Policy(strategies=("window",), quality_threshold=0),
}
PLAIN = "plain"
"""Drops the oldest turns, at every turn, until the rest fits the default policy's hard limit."""

_counter = counter_for("o200k_base", "gpt-4o")
_known: dict[bytes, int] = {}


@dataclass(frozen=True, slots=True)
class Seen:
    """One context: its messages as sent, and what made its version."""

    messages: tuple[bytes, ...]
    tokens: tuple[int, ...]
    by: str

    @classmethod
    def of(cls, messages: Sequence[JsonMessage], by: str) -> Seen:
        """The context of these messages."""
        sent = tuple(json.dumps(m, ensure_ascii=False).encode() for m in messages)
        for text, message in zip(sent, messages, strict=True):
            if text not in _known:
                _known[text] = count_message(_counter, message)
        return cls(sent, tuple(_known[text] for text in sent), by)

    def shared(self, before: Seen) -> int:
        """Tokens of the messages at its beginning that were at the beginning before, too."""
        pairs = zip(self.messages, before.messages, strict=False)
        same = next(
            (at for at, (ours, theirs) in enumerate(pairs) if ours != theirs),
            min(len(self.messages), len(before.messages)),
        )
        return sum(self.tokens[:same])


@dataclass
class Score:
    """What was found of one strategy."""

    shares: list[float] = field(default_factory=list)
    ceilings: list[float] = field(default_factory=list)
    shared: int = 0
    total: int = 0
    broken: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, before: Seen, now: Seen) -> None:
        """Takes in one context and the one before it."""
        total = sum(now.tokens)
        shared = now.shared(before)
        ceiling = (total - now.tokens[-1]) / total
        self.shares.append(shared / total)
        self.ceilings.append(ceiling)
        self.shared += shared
        self.total += total
        if now.by:
            self.broken[now.by].append((shared / total, ceiling - shared / total))

    def __str__(self) -> str:
        cells = [
            f"mean {statistics.mean(self.shares):.3f}",
            f"pooled {self.shared / self.total:.3f}",
            f"ceiling {statistics.mean(self.ceilings):.3f}",
            f"contexts {len(self.shares)}",
        ]
        for by, found in sorted(self.broken.items()):
            after = statistics.mean(share for share, _ in found)
            cost = sum(loss for _, loss in found) / len(self.shares)
            cells.append(f"{by} x{len(found)} after {after:.2f} costs {cost:.3f}")
        return "  ".join(cells)


class Agent(Protocol):
    """Who says the next message, and may look at the context for it."""

    system_prompt: str

    def next(self, seen: Context | None) -> JsonMessage | None:
        """The next message, or None at the end."""


class Recorded:
    """A session that happened: it is said again, whatever the context."""

    def __init__(self, messages: Sequence[JsonMessage]) -> None:
        prompts = [m["content"] for m in messages[:1] if m["role"] == "system"]
        self.system_prompt = "".join(prompts)
        self.messages = messages[len(prompts) :]
        self._rest = iter(self.messages)

    def next(self, seen: Context | None) -> JsonMessage | None:  # noqa: ARG002 - see above
        """The next message, or None at the end."""
        return next(self._rest, None)


class Sessions:
    """Sessions in a Redis of their own, compacted after every turn."""

    def __init__(self, url: str) -> None:
        connection: Any = redis.Redis.from_url(url)
        self._client = ContextClient(url, namespace=NAMESPACE, broker=SilentWaker())
        self._pipeline = Pipeline(
            sessions=RedisSessions(connection),
            hints=SentHints(),
            counters=counter_for,
            summarizers=lambda _policy: [ExtractiveSummarizer()],
            templates=TemplateLoader(),
        )

    def contexts(self, agent: Agent, policy: Policy) -> Iterator[Seen]:
        """The context after each message."""
        name = "session"
        self._client.open(name, policy, system_prompt=agent.system_prompt or None)
        ref = SessionRef(Namespace(NAMESPACE), SessionId(name))
        read = None
        while (message := agent.next(read)) is not None:
            self._client.push(name, message)
            self._pipeline.estimate(ref)
            outcome = self._pipeline.summarize(ref)
            by = outcome.strategy if outcome.outcome == "committed" else ""
            read = self._client.read(name)
            yield Seen.of(read.messages, "projection" if read.projection else by or "")
        self._client.forget(name)


def plain(agent: Agent) -> Iterator[Seen]:
    """The contexts of a window that slides at every turn once it is full."""
    limit = Policy().hard_limit
    prompt = agent.system_prompt
    system: list[JsonMessage] = [{"role": "system", "content": prompt}] if prompt else []
    kept: list[JsonMessage] = []
    read = None
    while (message := agent.next(read)) is not None:
        kept.append(message)
        while sum((seen := Seen.of([*system, *kept], "")).tokens) > limit and len(kept) > 1:
            del kept[0]
        read = Context(
            messages=[*system, *kept],
            session=SessionId("plain"),
            version=Version(0),
            watermark=Seq(0),
            last_seq=Seq(0),
            tokens=sum(seen.tokens),
            exact=True,
        )
        yield seen


def agents(folder: Path, name: str, *, least_tokens: int, most: int) -> list[Agent]:
    """Real sessions one after the other in one, under the first one's system prompt; or a demo."""
    if name == DEMO:
        return [ScriptedAgent(index, steps=max(200, least_tokens // 300)) for index in range(most)]
    found: list[Agent] = []
    joined: list[JsonMessage] = []
    tokens = 0
    for session in load(folder, name):
        messages = [_usable(message) for message in session["messages"]]
        joined += messages if not joined else [m for m in messages if m["role"] != "system"]
        tokens += session.get("tokens_o200k") or 0
        if tokens >= least_tokens:
            found.append(Recorded(joined))
            joined, tokens = [], 0
        if len(found) == most:
            break
    return found or [Recorded(joined)]


def _usable(message: JsonMessage) -> JsonMessage:
    """Images in files by an address any agent may give."""
    text = json.dumps(message).replace("file://images/", "https://example.org/")
    usable: JsonMessage = json.loads(text)
    return usable


def measure(found: Sequence[Agent], contexts: Callable[[Agent], Iterator[Seen]]) -> Score:
    """The score of all of them."""
    score = Score()
    for agent in found:
        before: Seen | None = None
        for now in contexts(agent):
            if before is not None:
                score.add(before, now)
            before = now
    return score


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a line per data set and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=["tau", "coding", DEMO, "webvoyager"])
    names = [*POLICIES, PLAIN]
    parser.add_argument("--strategies", nargs="+", default=names, choices=names)
    parser.add_argument("--least-tokens", type=int, default=60_000, help="of a joined session")
    parser.add_argument("--sessions", type=int, default=4, help="joined ones per data set")
    options = parser.parse_args(argv)
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), durable=False) as server,
    ):
        running = Sessions(server.url)
        for name in options.only:
            for strategy in options.strategies:
                policy = POLICIES.get(strategy, Policy())
                if policy.max_history_images is not None and name != IMAGES:
                    continue
                longer = policy.max_tokens // Policy().max_tokens
                found = agents(
                    options.folder,
                    name,
                    least_tokens=options.least_tokens * min(longer, _LONGEST),
                    most=max(options.sessions // longer, 1),
                )
                contexts = plain if strategy == PLAIN else partial(running.contexts, policy=policy)
                print(f"{name:<11} {strategy:<16} {measure(found, contexts)}", flush=True)


if __name__ == "__main__":
    main()
