"""The quality score of a compaction, taken before it is committed. Pure and deterministic.

    score = validity * sum(weight * part) / sum(weight)

A context that states as current what a user changed gets at most half the threshold.
`docs/quality-score.md` explains the parts and shows that the score falls when items are lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.marks import text_in
from turnmill.contract.policy import QualityWeights
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.score import kept, lines_of, stale

_CAP: Final = 0.5
"""What a score is at most, in thresholds: no other text that comes near makes it pass."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a compaction is.

    Attributes:
        score: 0 (nothing of the covered turns is left) to 1 (nothing is lost).
        parts: what it is made of, by name, each in 0..1.
    """

    score: float
    parts: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores heads that may stand for the same turns.

    Attributes:
        digest: what the covered turns say.
        before: the rendered head before, and the messages of the covered turns.
        tail: the messages kept after the cut, as read.
        spoken: what users spoke of last, in numbers.
        changed: sentences that no longer hold, each with the one that changed it.
        freshness: newest turns kept word for word, of those the policy wants.
        session: turns there are to each compaction; falls as a session thrashes.
        weights: of the parts.
        threshold: below it nothing is committed.
    """

    digest: Digest
    before: Sequence[JsonMessage]
    tail: Sequence[JsonMessage]
    spoken: Collection[int]
    changed: Mapping[str, str]
    freshness: float
    session: float
    weights: QualityWeights
    threshold: float

    def score(self, head: Sequence[JsonMessage]) -> Quality:
        """How much of what the covered turns say can still be read in this head.

        Linear in its length, for any content.
        """
        texts = [text_in(message) for message in head]
        still = kept(self.digest.units, lines_of(texts), self.digest.worths, self.spoken)
        wrong = stale("\n".join(texts), self.changed)
        parts = {
            "facts": _eased(still.everything),
            "relevance": _eased(still.matters),
            "freshness": self.freshness,
            "session": self.session,
        }
        weights = self.weights.model_dump()
        mean = sum(weights[name] * part for name, part in parts.items()) / sum(weights.values())
        valid = 1.0 if self._is_valid(head) else 0.0
        parts |= {"validity": valid, "current": 1.0 / (1 + wrong)}
        score = min(1.0, valid * mean)
        if wrong:
            score = min(score, _CAP * self.threshold * parts["current"])
        return Quality(score=score, parts=parts)

    def alone(self, texts: Sequence[str]) -> float:
        """How much of what the covered turns say can be read in these texts alone."""
        return _eased(kept(self.digest.units, lines_of(texts), self.digest.worths).everything)

    def _is_valid(self, head: Sequence[JsonMessage]) -> bool:
        """Whether no call or result has lost its other half by this compaction.

        Agents push torn pairs too; a read repairs those, and they are not held against it.
        """
        return not violations(head) and _torn(head, self.tail) <= _torn(self.before, self.tail)


def _eased(share: float) -> float:
    """The calibration: half of everything counts as three quarters.

    A summary is meant to lose most words; it changes no order.
    """
    return 1.0 - (1.0 - share) ** 2


def _torn(opening: Sequence[JsonMessage], tail: Sequence[JsonMessage]) -> set[int]:
    """Positions in the tail where a pair is torn, when it stands behind ``opening``."""
    tracker = CallTracker()
    for message in opening:
        tracker.feed(message)
    torn = set()
    for at, message in enumerate(tail):
        dead, orphan = tracker.feed(message)
        if dead or orphan:
            torn.add(at)
    return torn
