"""What a replay measured: one frozen value, as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from rich.table import Table

from turnmill.contract.render import system_message
from turnmill_cli.replay.concurrent_agents import AgentSession
from turnmill_cli.replay.promises import FaultKind, TokenCache, fingerprint

__all__ = ["Scorecard", "percentile", "score", "table"]

MOST_EXAMPLES = 20
"""Faults named one by one; the rest are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """The numbers of one replay.

    Attributes:
        refused: sessions whose system prompt leaves no room under the limit; nothing was pushed.
        tokens_in: pushed, system prompts included; counted exactly, by ``basis``.
        tokens_final: in the contexts read in the end.
        turns_archived: in the archive and no longer in Redis, in the end.
        compactions: commits, by strategy.
        reads_projected: reads cut to the hard limit because no worker had been there in time.
        reads_recut: reads that do not begin with the one before, because a projection moved: what
            a provider's prompt cache loses beside commits.
        step_ms: push and read together: p50, p95, p99, max.
        steps_per_s: while steps were being taken, checks and tools not counted.
        unsettled: sessions that still waited for a worker at the end.
        faults: how many of each kind; every one of them must be 0.
        examples: the first faults as (session, kind, where), without content.
    """

    sessions: int
    refused: int
    turns: int
    tokens_in: int
    tokens_final: int
    turns_archived: int
    compactions: Mapping[str, int]
    reads: int
    reads_projected: int
    reads_recut: int
    step_ms: Mapping[str, float]
    steps_per_s: float
    seconds: float
    unsettled: int
    faults: Mapping[FaultKind, int]
    examples: Sequence[tuple[str, FaultKind, str]]
    basis: str

    @property
    def reduction(self) -> float:
        """The share of the pushed tokens that the final contexts do without."""
        return 1 - self.tokens_final / self.tokens_in if self.tokens_in else 0.0

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.faults.values())

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {"ok": self.ok, **asdict(self), "reduction": round(self.reduction, 4)}


def score(
    sessions: Sequence[AgentSession],
    compactions: Mapping[str, int],
    count: TokenCache,
    *,
    stepping_s: float,
    seconds: float,
    unsettled: int,
    basis: str,
) -> Scorecard:
    """Add up what the sessions saw."""
    live = [each for each in sessions if not each.refused]
    latencies = sorted(ms for each in live for ms in each.latencies_ms)
    found = [(each.agent.name, *fault) for each in live for fault in each.faults]
    times = Counter(kind for _, kind, _ in found)
    return Scorecard(
        sessions=len(live),
        refused=len(sessions) - len(live),
        turns=len(latencies),
        tokens_in=sum(_pushed_tokens(each, count) for each in live),
        tokens_final=sum(each.last.tokens for each in live if each.last),
        turns_archived=sum(each.archived for each in live),
        compactions=dict(sorted(compactions.items())),
        reads=len(latencies) + len(live),
        reads_projected=sum(each.projected for each in live),
        reads_recut=sum(each.recut for each in live),
        step_ms={
            "p50": percentile(latencies, 0.50),
            "p95": percentile(latencies, 0.95),
            "p99": percentile(latencies, 0.99),
            "max": percentile(latencies, 1.0),
        },
        steps_per_s=round(len(latencies) / stepping_s, 1) if stepping_s else 0.0,
        seconds=round(seconds, 2),
        unsettled=unsettled,
        faults={kind: times[kind] for kind in get_args(FaultKind)},
        examples=found[:MOST_EXAMPLES],
        basis=basis,
    )


def _pushed_tokens(session: AgentSession, count: TokenCache) -> int:
    prompt = (
        [system_message(session.transcript.system_prompt)]
        if session.transcript.system_prompt
        else []
    )
    messages = [*prompt, *session.transcript.turns.values()]
    return count.of(messages, [fingerprint(message) for message in messages])


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values, 0 for none."""
    if not ordered:
        return 0.0
    return round(ordered[max(math.ceil(share * len(ordered)), 1) - 1], 3)


_MUST_BE_ZERO: tuple[tuple[str, tuple[FaultKind, ...]], ...] = (
    ("contexts over the limit", ("over-limit",)),
    ("invalid contexts", ("illegal",)),
    ("contexts missing or doubling a turn", ("incomplete",)),
    ("contexts with wrong token counts", ("miscounted",)),
    ("prefixes changed between commits", ("unstable",)),
    ("turns lost / doubled", ("lost", "doubled")),
    ("turns altered / misplaced", ("altered", "misplaced")),
)


def table(card: Scorecard, *, title: str) -> Table:
    """The scorecard for a terminal; what must be 0 and is not stands out."""
    made = Table(title=title, title_justify="left", show_header=False, pad_edge=False)
    made.add_column()
    made.add_column(justify="right")
    for name, value in _measured(card):
        made.add_row(name, value)
    made.add_section()
    for name, kinds in _MUST_BE_ZERO:
        numbers = [card.faults[kind] for kind in kinds]
        made.add_row(
            f"{name} [dim](must be 0)[/]",
            " / ".join(map(str, numbers)),
            style="bold red" if any(numbers) else None,
        )
    return made


def _measured(card: Scorecard) -> list[tuple[str, str]]:
    ms = card.step_ms
    by = ", ".join(f"{name} {n:,}" for name, n in card.compactions.items())
    commits = f"{sum(card.compactions.values()):,}" + (f" ({by})" if by else "")
    return [
        ("sessions", f"{card.sessions:,}"),
        ("sessions refused (system prompt too large)", f"{card.refused:,}"),
        ("turns", f"{card.turns:,}"),
        ("tokens pushed", f"{card.tokens_in:,}"),
        ("tokens in the final contexts", f"{card.tokens_final:,}"),
        ("reduction", f"{card.reduction:.1%}"),
        ("compactions", commits),
        ("turns in the archive", f"{card.turns_archived:,}"),
        ("reads projected", f"{card.reads_projected:,} of {card.reads:,}"),
        ("reads whose prefix a projection changed", f"{card.reads_recut:,}"),
        (
            "step (push + read), ms: p50 / p95 / p99 / max",
            f"{ms['p50']:.2f} / {ms['p95']:.2f} / {ms['p99']:.2f} / {ms['max']:.2f}",
        ),
        ("steps per second", f"{card.steps_per_s:,.0f}"),
        ("seconds in all", f"{card.seconds:.1f}"),
        ("sessions still waiting for a worker", f"{card.unsettled:,}"),
    ]
