"""The quality score of a compaction, taken before it is committed. Pure and deterministic.

    score = validity * sum(weight * part) / sum(weight)

A context that lost a rule, states an old value as current, or cannot be read gets at most half the
threshold.

`docs/quality-score.md` explains the parts and shows that the score falls when facts are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.memories_message import without_memories
from turnmill.contract.quality_weights import QualityWeights
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.passages import sections
from turnmill_worker.compaction.quality.survival import AtStake, Survival
from turnmill_worker.compaction.quality.trust import Trust

__all__ = ["Quality", "Scorer"]


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a compaction is.

    Attributes:
        score: 0 (nothing of the covered turns is left) to 1 (nothing is lost).
        parts: what it is made of, by name, each in 0..1.
    """

    score: float
    parts: dict[str, float]


class Scorer:
    """Scores heads that may stand for the same turns and the same older head."""

    def __init__(  # noqa: PLR0913 - all a compaction takes and leaves, each by its name
        self,
        *,
        covered: Records,
        previous: Sequence[JsonMessage],
        tail: Sequence[JsonMessage],
        kept_turns: int,
        wanted_turns: int,
        turns: int,
        compactions: int,
        weights: QualityWeights,
        behind: Sequence[JsonMessage] = (),
        known: Sequence[JsonMessage] = (),
        trust: Trust | None = None,
    ) -> None:
        """A scorer that has read nothing yet.

        Args:
            covered: original messages of the turns it covers, without pinned ones, by seq; for
                elisions, the originals of what is read shorter now.
            previous: the rendered head before: older summary, receipts and pins.
            tail: the messages kept after the cut, as read.
            kept_turns: turns in ``tail``.
            wanted_turns: newest turns the policy wants kept word for word.
            turns: of the session so far.
            compactions: of the session so far.
            weights: of the parts.
            behind: what stands between head and tail for the originals of ``covered``.
            known: what the heads will keep of ``previous``, word for word; knowing it saves time.
            trust: what the heads must not lose or state; that of ``covered`` by default.
        """
        self._before = [*previous, *(message for _, message in without_memories(covered))]
        self._previous, self._behind, self._tail = previous, behind, tail
        self._freshness = min(1.0, kept_turns / wanted_turns) if wanted_turns > 0 else 1.0
        self._session = 1.0 - min(1.0, compactions / turns) if turns > 0 else 1.0
        self._weights = weights.model_dump()
        self._covered, self._known = covered, known
        self._trust = trust or Trust(covered.units)
        self._stake: AtStake | None = None

    def prepare(self) -> None:
        """Read all but the heads, once; ``score`` does it if nobody has."""
        self._trust.prepare()
        if self._stake is None:
            lost = _changed(self._previous, self._known)
            self._stake = AtStake(self._covered.units, lost, self._tail, sections(self._known))

    def score(self, head: Sequence[JsonMessage]) -> Quality:
        """How much of ``covered`` and ``previous`` can still be read in this head and the tail.

        Linear in their length, for any content.
        """
        head = [*head, *self._behind]
        lost = _changed(self._previous, head)
        safe = sections(head)
        if self._stake is None or (lost, safe) != (self._stake.lost, self._stake.safe):
            self._stake = AtStake(self._covered.units, lost, self._tail, safe)
        survival = Survival(self._stake, head)
        parts = {
            "facts": _eased(survival.of_everything()),
            "relevance": _eased(survival.of_what_matters_now()),
            "freshness": self._freshness,
            "session": self._session,
        }
        valid = 1.0 if _is_valid(self._before, head, self._tail) else 0.0
        weights = self._weights
        mean = sum(weights[name] * part for name, part in parts.items()) / sum(weights.values())
        parts |= {"validity": valid, **self._trust.parts(head)}
        score = self._trust.capped(min(1.0, valid * mean), parts)
        return Quality(score=score, parts=parts)


def _eased(share: float) -> float:
    """The calibration: half of everything counts as three quarters.

    A summary is meant to lose most words. Fitted once, on all data together, so that the default
    policy's extractive summaries reach the default threshold; it changes no order.
    """
    return 1.0 - (1.0 - share) ** 2


def _changed(previous: Sequence[JsonMessage], head: Sequence[JsonMessage]) -> list[JsonMessage]:
    """The old head's messages that the new one does not have word for word: no pins."""
    still = set(map(encode_json, head))
    return [message for message in previous if encode_json(message) not in still]


def _is_valid(
    before: Sequence[JsonMessage], head: Sequence[JsonMessage], tail: Sequence[JsonMessage]
) -> bool:
    """Whether no call or result has lost its other half by this compaction.

    Agents push torn pairs too; a read repairs those, and they are not held against it.
    """
    if violations(head):
        return False
    return _torn(head, tail) <= _torn(before, tail)


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
