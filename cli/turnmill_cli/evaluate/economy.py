"""What a strategy saves: tokens sent, the stable beginning of prompts, and what both cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.policy import Policy
from turnmill_cli.evaluate.in_memory import POLICIES, InMemorySession, usable
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_cli.evaluate.survival import DataSet
from turnmill_worker.summarizers.openai.prices import Price

__all__ = ["Economy", "economy", "joined"]

# OpenAI's rule: a prompt's beginning is cached from 1,024 tokens on, in steps of 128.
_CACHED_FROM: Final = 1024
_CACHED_STEP: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Economy:
    """The numbers of one strategy over joined sessions; a model call before each assistant message.

    Attributes:
        calls: model calls an agent made.
        compactions: commits.
        tokens: sent in all calls; ``full_tokens`` had nothing ever been taken out.
        prefix: mean share of a context that is, byte for byte, the beginning of the one before.
        pooled: the same over all tokens.
        usd, usd_cached: the calls' input and the summarizer, without and with prompt caching.
        full_usd, full_usd_cached: of the calls' input, had nothing been taken out.
        summarizer_usd: part of ``usd`` that went to the summarizer.
    """

    calls: int
    compactions: int
    tokens: int
    full_tokens: int
    prefix: float
    pooled: float
    usd: float
    usd_cached: float
    full_usd: float
    full_usd_cached: float
    summarizer_usd: float

    @property
    def saved(self) -> float:
        """The share of tokens not sent."""
        return 1 - self.tokens / self.full_tokens if self.full_tokens else 0.0


def joined(data: DataSet, least_tokens: int, count: Any) -> list[tuple[str, list[JsonMessage]]]:
    """Conversations one after the other in sessions of at least so many tokens: prompt, messages.

    One shorter session when all together have fewer.
    """
    found: list[tuple[str, list[JsonMessage]]] = []
    system, messages, tokens = "", list[JsonMessage](), 0
    for conversation in data.conversations:
        if not messages:
            first = conversation["messages"][0] if conversation["messages"] else {}
            is_prompt = first.get("role") == "system" and isinstance(first.get("content"), str)
            system = str(first["content"]) if is_prompt else ""
        own = usable(conversation["messages"])
        messages += own
        tokens += count(own)
        if tokens >= least_tokens:
            found.append((system, messages))
            system, messages, tokens = "", [], 0
    return found or [(system, messages)]


def economy(
    sessions: Iterable[tuple[str, Sequence[JsonMessage]]],
    strategy: str,
    max_tokens: int,
    metered: MeteredSummarizer,
    price: Price,
) -> Economy:
    """What the pipeline's ladder of this name sends and costs over these sessions."""
    quality = 0.0 if strategy == "window" else Policy().quality_threshold
    policy = Policy(
        max_tokens=max_tokens,
        strategies=POLICIES[strategy],
        quality_threshold=quality,
        ledger_ratio=metered.ledger,
    )
    totals = _Totals(metered.counter.count_messages)
    before_usd = metered.cost_usd
    for system, messages in sessions:
        session = InMemorySession(policy, system, metered)
        totals.begin(system)
        for at, message in enumerate(messages):
            session.push(message)
            totals.step(session.read(), message, called=_is_asked(messages, at))
        totals.compactions += session.compactions
    return totals.economy(price, metered.cost_usd - before_usd)


def _is_asked(messages: Sequence[JsonMessage], at: int) -> bool:
    return at + 1 < len(messages) and messages[at + 1]["role"] == "assistant"


class _Totals:
    """Adds up contexts as they are read."""

    def __init__(self, count: Any) -> None:
        self._count = count
        self._known: dict[bytes, int] = {}
        self.calls = self.compactions = self.tokens = self.cached = 0
        self.full_tokens = self.full_cached = self._whole = self._whole_called = 0
        self._shares: list[float] = []
        self._shared = self._total = 0
        self._before: list[tuple[bytes, int]] = []
        self._called: list[tuple[bytes, int]] = []

    def begin(self, system: str) -> None:
        """A session begins."""
        self._before, self._called = [], []
        self._whole = self._count([{"role": "system", "content": system}]) if system else 0
        self._whole_called = 0

    def step(self, context: Sequence[JsonMessage], newest: JsonMessage, *, called: bool) -> None:
        """A turn was pushed and the context read; ``called`` when a model call followed."""
        sent = [self._sent(message) for message in context]
        total = sum(tokens for _, tokens in sent)
        if self._before:
            shared = _shared(sent, self._before)
            self._shares.append(shared / total)
            self._shared += shared
            self._total += total
        self._before = sent
        self._whole += self._sent(newest)[1]
        if called:
            self.calls += 1
            self.tokens += total
            self.cached += _cacheable(_shared(sent, self._called))
            self.full_tokens += self._whole
            self.full_cached += _cacheable(self._whole_called)
            self._called, self._whole_called = sent, self._whole

    def _sent(self, message: JsonMessage) -> tuple[bytes, int]:
        text = json.dumps(message, ensure_ascii=False).encode(errors="surrogatepass")
        if text not in self._known:
            self._known[text] = self._count([message])
        return text, self._known[text]

    def economy(self, price: Price, summarizer_usd: float) -> Economy:
        """The totals."""
        return Economy(
            calls=self.calls,
            compactions=self.compactions,
            tokens=self.tokens,
            full_tokens=self.full_tokens,
            prefix=sum(self._shares) / len(self._shares) if self._shares else 0.0,
            pooled=self._shared / self._total if self._total else 0.0,
            usd=price.cost(self.tokens) + summarizer_usd,
            usd_cached=price.cost(self.tokens, cached=self.cached) + summarizer_usd,
            full_usd=price.cost(self.full_tokens),
            full_usd_cached=price.cost(self.full_tokens, cached=self.full_cached),
            summarizer_usd=summarizer_usd,
        )


def _shared(now: Sequence[tuple[bytes, int]], before: Sequence[tuple[bytes, int]]) -> int:
    """Tokens of the messages at the beginning that were there before, byte for byte."""
    tokens = 0
    for (text, size), (was, _) in zip(now, before, strict=False):
        if text != was:
            break
        tokens += size
    return tokens


def _cacheable(tokens: int) -> int:
    return tokens // _CACHED_STEP * _CACHED_STEP if tokens >= _CACHED_FROM else 0
