"""A session in one sentence and a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill_cli.output import count
from turnmill_cli.visualize.token_curve import TokenCurve
from turnmill_cli.visualize.turn_outcomes import TurnOutcomes
from turnmill_cli.visualize.turn_tokens import weights
from turnmill_cli.visualize.visible_text import span

__all__ = ["KeyNumber", "key_numbers", "sentences"]


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One number of the header, with what it means."""

    name: str
    value: str
    about: str
    kind: str = ""


def sentences(trajectory: Trajectory, curve: TokenCurve, outcomes: TurnOutcomes) -> Iterator[str]:
    """What a newcomer should know first."""
    pushed = sum(weight.tokens for weight in weights(trajectory).values())
    about = "" if _all_counted(trajectory) else "about "
    images = sum(map(_images, trajectory.turns))
    shown = f" with {count(images, 'image')}" if images else ""
    turns = count(len(trajectory.turns), "turn")
    yield f"The agent pushed {turns}{shown}: {about}{pushed:,} tokens."
    if not trajectory.turns:
        return
    made = sum(change.kind == "compaction" for change in curve.changes)
    yield (
        f"turnmill compacted the context {'once' if made == 1 else count(made, 'time')}."
        if made
        else "Nothing has been compacted yet."
    )
    now, least = curve.now, "" if curve.now.exact else "about "
    is_over = 0 < trajectory.hard_limit < now.tokens
    opening = "The context now has" if is_over else "The model now reads"
    yield f"{opening} {least}{now.tokens:,} tokens: {_parts(trajectory, outcomes)}."
    if is_over:
        yield "That is over the hard limit, so each read is cut to fit until a compaction is done."


def _parts(trajectory: Trajectory, outcomes: TurnOutcomes) -> str:
    """What the context is made of, in words."""
    kept = [turn for turn in trajectory.turns if turn.state == "kept"]
    tail = sum(turn.seq > outcomes.watermark for turn in kept)
    reads = [count(tail, "turn") + (" word for word" if not outcomes.shortened else "")]
    stored = outcomes.stored
    if stored.summary or stored.events:
        reads.insert(0, f"a summary of {span(outcomes.first, stored.watermark)}")
    elif stored.receipts:
        reads.insert(0, f"a receipt for {span(outcomes.first, stored.watermark)} (left out)")
    pins = sum(turn.pinned and turn.seq <= outcomes.watermark for turn in kept)
    if pins:
        reads.insert(-1, count(pins, "pinned turn"))
    return f"{', '.join(reads[:-1])} and {reads[-1]}" if reads[1:] else reads[0]


def _images(turn: TrajectoryTurn) -> int:
    contents = [message.get("content") for message in turn.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _all_counted(trajectory: Trajectory) -> bool:
    return all(turn.tokens is not None for turn in trajectory.turns)


def key_numbers(trajectory: Trajectory, curve: TokenCurve) -> Iterator[KeyNumber]:
    """The header's numbers."""
    yield _turns(trajectory)
    made = [commit for commit in trajectory.compactions if commit.record.strategy != "rollback"]
    rollbacks = len(trajectory.compactions) - len(made)
    yield KeyNumber(
        "Compactions",
        f"{len(made):,}",
        f"and {count(rollbacks, 'rollback')}" if rollbacks else "",
    )
    yield _now(trajectory, curve)
    scores = [each.record.quality for each in made if each.record.quality is not None]
    yield KeyNumber(
        "Quality",
        f"{scores[-1]:.2f}" if scores else "–",
        f"of the last compaction; lowest {min(scores):.2f}" if scores else "not measured yet",
    )
    costs = [each.record.cost_usd or 0 for each in made]
    if sum(costs):
        yield KeyNumber("Cost", f"${sum(costs):.4f}", "of all summaries")


def _turns(trajectory: Trajectory) -> KeyNumber:
    counts = {
        words: sum(turn.state == state for turn in trajectory.turns)
        for state, words in (("rolled-back", "rolled back"), ("cleared", "cleared"))
    }
    aside = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    return KeyNumber("Turns", f"{len(trajectory.turns):,}", aside or "all part of the conversation")


def _now(trajectory: Trajectory, curve: TokenCurve) -> KeyNumber:
    now, hard, soft = curve.now, trajectory.hard_limit, trajectory.soft_limit
    value = f"{now.tokens:,}" if now.exact else f"≈ {now.tokens:,}"
    if not hard:
        return KeyNumber("Tokens now", value, "limits unknown")
    kind = "over" if now.tokens > hard else ""
    return KeyNumber("Tokens now", value, f"limits: soft {soft:,}, hard {hard:,}", kind)
