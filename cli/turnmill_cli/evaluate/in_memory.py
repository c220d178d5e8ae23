"""One session in memory, compacted by the pipeline's own stages as if workers always kept up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.render import render, system_message
from turnmill.contract.tail import TailTurn
from turnmill.projection import project
from turnmill_cli.evaluate.methods import MeteredSummarizer
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies.choose import plan as plan_compaction
from turnmill_worker.compaction.with_digest import known_after
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.pipeline.decide import Skip, decide
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.templates.loader import TemplateLoader

__all__ = ["POLICIES", "InMemorySession"]

POLICIES: Final = {
    "rolling": ("images", "elide", "rolling", "window"),
    "iterations": ("images", "elide", "iterations", "window"),
    "window": ("window",),
}
"""The ladder of each strategy that is one of the pipeline's."""


class InMemorySession:
    """A session whose context is brought to its target after every turn, or after a burst."""

    def __init__(self, policy: Policy, system: str, metered: MeteredSummarizer) -> None:
        self._metered = metered
        self._counter = counter = metered.counter
        self._writer = Writer(lambda _policy: [metered.summarizer], TemplateLoader())
        self._tracker = CallTracker()
        self._snapshot = Snapshot(
            namespace=Namespace("evaluate"),
            session=SessionId("evaluated"),
            epoch="",
            revision="",
            policy=policy,
            system_tokens=counter.count_messages([system_message(system)]) if system else 0,
            stored=EMPTY,
            turns=(),
            counted_seq=Seq(0),
            system=system,
        )

    @property
    def watermark(self) -> Seq:
        """The last turn that no longer stands in the context as it was pushed."""
        return self._snapshot.stored.watermark

    @property
    def stored(self) -> StoredContext:
        """What stands for the turns up to the watermark."""
        return self._snapshot.stored

    @property
    def compactions(self) -> int:
        """Commits so far."""
        return self._snapshot.compactions

    @property
    def system_tokens(self) -> int:
        """Tokens of the system prompt."""
        return self._snapshot.system_tokens

    @property
    def history_tokens(self) -> int:
        """Tokens of all that was ever pushed."""
        return self._snapshot.history_tokens

    def push(self, message: JsonMessage) -> bool:
        """One more turn; whether a compaction followed."""
        self.add(message)
        return self.compact()

    def add(self, message: JsonMessage) -> None:
        """One more turn, before any worker looks."""
        before = self._snapshot
        tokens = self._counter.count_messages(self._tracker.repair((message,)))
        turn = LoggedTurn(Seq(before.counted_seq + 1), (message,), (message,), tokens)
        self._snapshot = replace(
            before,
            turns=(*before.turns, turn),
            counted_seq=turn.seq,
            history_tokens=before.history_tokens + turn.tokens,
        )

    def compact(self) -> bool:
        """Whether a compaction was due and came about."""
        draft = self._draft()
        if draft is not None:
            self._commit(draft)
        return draft is not None

    def settle(self) -> None:
        """Compact as long as that is due."""
        while self.compact():
            pass

    def read(self) -> list[JsonMessage]:
        """The context, projected when it is over the hard limit."""
        seen = self._snapshot
        tracker = CallTracker()
        tail = [
            TailTurn(t.seq, tracker.repair(t.shown), t.tokens, exact=True, pushed=t.original)
            for t in seen.turns
        ]
        if seen.usage.total <= seen.limits.hard:
            return render(seen.system, seen.stored, tail)
        usage = seen.usage
        return project(
            seen.system,
            seen.stored,
            tail,
            seen.limits,
            self._counter.count_messages,
            fixed_tokens=usage.system + usage.summary + usage.REPLY,
        ).messages

    def _draft(self) -> Draft | None:
        """The first rung's draft that is good enough, else the best when there is no more room."""
        seen = self._snapshot
        if isinstance(decide(seen.usage, seen.limits, seen.exceeded), Skip):
            return None
        rejected: list[str] = []
        poor: list[Draft] = []
        while plan := plan_compaction(seen, self._counter, below=rejected[-1] if rejected else ""):
            if plan.strategy in rejected:
                break
            try:
                draft = self._writer.best(plan, self._counter)
            except SummaryRejected as error:
                self._metered.requests += 1
                self._metered.refused += 1
                self._metered.pay(getattr(error, "spent", None))
            else:
                self._metered.requests += len(plan.requests)
                self._metered.pay(draft.record)
                if draft.is_good_enough:
                    return draft
                poor.append(draft)
            rejected.append(plan.strategy)
        if poor and seen.usage.total > seen.limits.urgent:
            return max(poor, key=lambda draft: draft.score)
        return None

    def _commit(self, draft: Draft) -> None:
        context: StoredContext = draft.context
        kept = tuple(t for t in draft.plan.snapshot.turns if t.seq > context.watermark)
        self._snapshot = replace(
            self._snapshot,
            stored=context,
            turns=kept,
            compactions=self.compactions + 1,
            known=known_after(draft.plan, self._counter),
        )


def usable(messages: Sequence[Any]) -> list[JsonMessage]:
    """The messages as an agent pushes them."""
    return [dict(message) for message in messages if message["role"] != "system"]
