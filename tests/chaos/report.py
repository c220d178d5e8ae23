"""What a run showed: how much was done, and which promises broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.checker import Expected, Loss, Violation, check
from tests.chaos.final import FinalState
from tests.chaos.history import History
from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill_worker.tokens import count_message, counter_for

__all__ = ["POLICIES", "SYSTEM_PROMPT", "Report", "reported"]

POLICIES: Mapping[str, Policy] = {
    "chat": Policy(
        max_tokens=1_400,
        strategies=("rolling", "window"),
        summarizer="openai",
        model="gpt-4o-mini",
        model_timeout_s=2.0,
        quality_threshold=0.0,
    ),
    "tools": Policy(max_tokens=1_400, quality_threshold=0.0),
    "images": Policy(max_tokens=4_000, max_history_images=2, quality_threshold=0.0),
    "small": Policy(max_tokens=600, strategies=("window",), quality_threshold=0.0),
}
"""By style of turn."""

SYSTEM_PROMPT = "You bring parcels to people, and say where they are."


@dataclass(frozen=True, slots=True)
class Report:
    """What a run showed."""

    violations: Sequence[Violation]
    pushes: int
    reads: int
    commits: int
    seconds: float
    settled_s: float

    def __str__(self) -> str:
        rate = 60 * self.pushes / max(self.seconds, 1e-3)
        lines = [
            (
                f"{self.pushes} acknowledged pushes ({rate:,.0f} a minute), {self.reads} reads, "
                f"{self.commits} commits in {self.seconds:.0f} s; settled in {self.settled_s:.1f} s"
            ),
            *(
                f"VIOLATION {kind}: {session} {detail}"
                for kind, session, detail in self.violations[:50]
            ),
            f"{len(self.violations)} violations",
        ]
        return "\n".join(lines)


def reported(
    history: History,
    final: FinalState,
    styles: Mapping[str, str],
    losses: Sequence[Loss],
    *,
    seconds: float,
    settled_s: float,
) -> Report:
    """Check the sessions of each style under its policy."""
    counter = counter_for("o200k_base")

    def count(message: JsonMessage) -> int:
        return count_message(counter, message)

    violations = check(history, FinalState({}, final.left), Expected(0), count)
    commits = 0
    for name, state in final.sessions.items():
        expected = Expected(POLICIES[styles[name]].hard_limit, SYSTEM_PROMPT, losses)
        violations += check(history, FinalState({name: state}, {}), expected, count)
        commits += state.version
    return Report(
        violations=violations,
        pushes=sum(len(call.seqs) for call in history.calls),
        reads=sum(call.read is not None for call in history.calls),
        commits=commits,
        seconds=seconds,
        settled_s=settled_s,
    )
