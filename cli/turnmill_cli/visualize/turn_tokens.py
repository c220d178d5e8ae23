"""What each turn weighs: counted, else estimated; and a number of tokens that says which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import estimate_tokens, without_images
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn

__all__ = ["Point", "estimated", "weights"]


@dataclass(frozen=True, slots=True)
class Point:
    """A number of tokens at a turn: of the turn itself, or of the context after it."""

    seq: int
    tokens: int
    exact: bool


def weights(trajectory: Trajectory) -> dict[int, Point]:
    """Each turn's tokens as it was pushed, by seq: counted, else estimated."""
    saved = _saved(trajectory)
    return {turn.seq: _weight(turn, saved.get(turn.seq, 0)) for turn in trajectory.turns}


def _weight(turn: TrajectoryTurn, saved: int) -> Point:
    if turn.tokens is None:
        return Point(turn.seq, estimated(turn.messages), exact=False)
    return Point(turn.seq, turn.tokens + saved, exact=True)


def _saved(trajectory: Trajectory) -> dict[int, int]:
    """By how much a turn's count fell when messages in it were shortened."""
    kept = {turn.seq for turn in trajectory.turns if turn.state == "kept"}
    found: dict[int, int] = {}
    for commit in trajectory.compactions:
        stored = commit.context
        found = {s: saved for s, saved in found.items() if s <= stored.watermark or s not in kept}
        own: dict[int, int] = {}
        for elision in stored.elisions:
            less = elision.tokens_before - elision.tokens_after
            own[elision.seq] = own.get(elision.seq, 0) + less
        found |= own
    return found


def estimated(messages: Sequence[JsonMessage]) -> int:
    """About how many tokens these messages are: 3.5 characters each, images by their size."""
    text, images = without_images(encode_json(list(messages)), FORMULAS[DEFAULT_FORMULA])
    return estimate_tokens(text.decode(errors="replace")) + images
