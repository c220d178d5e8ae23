"""A session in memory that is compacted to so many tokens, as often as a board wants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from benchmarks.survival import Portions
from turnmill.contract.context import JsonMessage
from turnmill.contract.policy import MIN_ROOM_TOKENS, Policy
from turnmill.contract.render import render_head
from turnmill_cli.evaluate.measuring import InMemorySession, Mean, MeteredSummarizer, text_of
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies.choose import plan as plan_compaction

_SUMMARY_SHARES: Final = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
"""Of the goal; what frames and rules need is not known before a plan is made."""

_LINE: Final = re.compile(r"^#?(\d+) ", re.MULTILINE)
_RULE: Final = re.compile(r"^- \(turn (\d+)\) ", re.MULTILINE)

_HAIR: Final = 1e-6

_NEXT: Final[tuple[tuple[JsonMessage, ...], ...]] = (({"role": "user", "content": ""},),)
"""A turn that nobody has counted yet: then the one before it may be covered, too."""


class SqueezedSession(InMemorySession):
    """All stages of the pipeline, but the goal is given, and nearly all of it is the summary's.

    A worker's policy leaves half of the goal or more to the newest turns. Here none stays but an
    open call, so that what is measured is what a compaction keeps, not what it has not reached yet.
    Nor does it wait for a better moment: every text that can be committed is.
    """

    def __init__(self, metered: MeteredSummarizer, system: str = "") -> None:
        super().__init__(Policy(ledger_ratio=metered.ledger), system, metered)
        self._ledger_ratio = metered.ledger

    def squeeze(self, tokens: int) -> bool:
        """Compact to at most so many tokens beside the system prompt; whether that came about."""
        before = self._snapshot
        seen = [self._seen(share, tokens) for share in _SUMMARY_SHARES]
        self._snapshot = max(seen, key=self._summary_tokens)
        compacted = self.compact()
        self._snapshot = replace(self._snapshot, pending_messages=()) if compacted else before
        return compacted

    def squeeze_to_chars(self, chars: int, tokens: int) -> int:
        """Compact to at most so many characters and tokens, and as near to that as halving finds.

        Returns the tokens that were the goal: fewer than these, and nothing fits; 0 if none do.
        """
        before, found, low, high = self._snapshot, 0, 0, tokens
        after = before
        while low < high:
            middle = (low + high + 1) // 2
            self._snapshot = before
            compacted = self.squeeze(middle)
            if compacted and len(self.text()) > chars:
                high = middle - 1
                continue
            low = middle
            if compacted:
                found, after = middle, self._snapshot
        self._snapshot = after
        return found

    def exceeds(self, tokens: int) -> bool:
        """Whether there is more than so many tokens beside the system prompt."""
        return self._snapshot.usage.total > self._snapshot.system_tokens + tokens

    def text(self) -> str:
        """What stands for old turns, as an agent reads it, then the others with their seq."""
        tail = (
            f"{turn.seq} {message.get('name') or message['role']}: {text_of(message)}"
            for turn in self._snapshot.turns
            for message in turn.shown
        )
        return "\n".join([*map(text_of, render_head(self._snapshot.stored)), *tail])

    def extend(self, messages: Iterable[JsonMessage]) -> None:
        """So many more turns."""
        for message in messages:
            self.add(message)

    def _seen(self, share: float, tokens: int) -> Snapshot:
        seen = self._snapshot
        room = max(2 * tokens, 2 * MIN_ROOM_TOKENS)
        goal = (tokens + 0.5) / room
        policy = Policy(
            max_tokens=room + seen.system_tokens,
            soft_ratio=goal + _HAIR,
            target_ratio=goal,
            summary_ratio=goal * share,
            min_progress_ratio=0,
            quality_threshold=0,
            ledger_ratio=self._ledger_ratio,
        )
        return replace(seen, policy=policy, pending_messages=_NEXT)

    def _summary_tokens(self, seen: Snapshot) -> int:
        plan = plan_compaction(seen, self._counter)
        return sum(request.budget_tokens for request in plan.requests) if plan else 0


class Played:
    """A method that pushes each portion into one session and compacts it, all stages included.

    Attributes:
        compactions: of each conversation.
    """

    def __init__(self, metered: MeteredSummarizer) -> None:
        self._metered = metered
        self.compactions = Mean()

    def __call__(self, parts: Portions, budget: int) -> str:
        """The last context; nothing when it has no room in the budget."""
        session = SqueezedSession(self._metered)
        seqs = [0]
        for part in parts:
            said = [(seq, message) for seq, message in part if message["role"] != "system"]
            seqs += (seq for seq, _ in said)
            session.extend(dict(message) for _, message in said)
            session.squeeze(budget)
        self.compactions.add(session.compactions)
        text = session.text()
        if self._metered.counter.count(text) > budget:
            return ""
        text = _LINE.sub(lambda found: f"{seqs[int(found[1])]} ", text)
        return _RULE.sub(lambda found: f"{seqs[int(found[1])]} user: ", text)
