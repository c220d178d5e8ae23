"""A session in one sentence and a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnmill.contract.trajectory import Trajectory, TrajectoryTurn
from turnmill_cli.visualize.safe_text import number, span
from turnmill_cli.visualize.sawtooth import Sawtooth
from turnmill_cli.visualize.turn_fates import Fates
from turnmill_cli.visualize.turn_tokens import weights

__all__ = ["Tile", "sentences", "tiles"]


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the header, with what it means."""

    name: str
    value: str
    about: str
    kind: str = ""


def sentences(trajectory: Trajectory, saw: Sawtooth, fates: Fates) -> Iterator[str]:
    """What a newcomer should know first."""
    pushed = sum(weight.tokens for weight in weights(trajectory).values())
    about = "" if _all_counted(trajectory) else "about "
    images = sum(map(_images, trajectory.turns))
    shown = f" with {number(images, 'image')}" if images else ""
    turns = number(len(trajectory.turns), "turn")
    yield f"The agent pushed {turns}{shown}: {about}{pushed:,} tokens."
    if not trajectory.turns:
        return
    made = sum(drop.kind == "compaction" for drop in saw.drops)
    yield (
        f"turnmill compacted the context {'once' if made == 1 else number(made, 'time')}."
        if made
        else "Nothing has been compacted yet."
    )
    now, least = saw.now, "" if saw.now.exact else "about "
    is_over = 0 < trajectory.hard_limit < now.tokens
    opening = "The context now has" if is_over else "The model now reads"
    yield f"{opening} {least}{now.tokens:,} tokens: {_parts(trajectory, fates)}."
    if is_over:
        yield "That is over the hard limit, so each read is cut to fit until a compaction is done."


def _parts(trajectory: Trajectory, fates: Fates) -> str:
    """What the context is made of, in words."""
    kept = [turn for turn in trajectory.turns if turn.state == "kept"]
    tail = sum(turn.seq > fates.watermark for turn in kept)
    reads = [number(tail, "turn") + (" word for word" if not fates.shortened else "")]
    stored = fates.stored
    if stored.summary or stored.events:
        reads.insert(0, f"a summary of {span(fates.first, stored.watermark)}")
    elif stored.receipts:
        reads.insert(0, f"a receipt for {span(fates.first, stored.watermark)} (left out)")
    pins = sum(turn.pinned and turn.seq <= fates.watermark for turn in kept)
    if pins:
        reads.insert(-1, number(pins, "pinned turn"))
    return f"{', '.join(reads[:-1])} and {reads[-1]}" if reads[1:] else reads[0]


def _images(turn: TrajectoryTurn) -> int:
    contents = [message.get("content") for message in turn.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _all_counted(trajectory: Trajectory) -> bool:
    return all(turn.tokens is not None for turn in trajectory.turns)


def tiles(trajectory: Trajectory, saw: Sawtooth) -> Iterator[Tile]:
    """The header's numbers."""
    yield _turns(trajectory)
    made = [commit for commit in trajectory.compactions if commit.record.strategy != "rollback"]
    rollbacks = len(trajectory.compactions) - len(made)
    yield Tile(
        "Compactions",
        number(len(made)),
        f"and {number(rollbacks, 'rollback')}" if rollbacks else "",
    )
    yield _now(trajectory, saw)
    scores = [each.record.quality for each in made if each.record.quality is not None]
    yield Tile(
        "Quality",
        f"{scores[-1]:.2f}" if scores else "–",
        f"of the last compaction; lowest {min(scores):.2f}" if scores else "not measured yet",
    )
    costs = [each.record.cost_usd or 0 for each in made]
    if sum(costs):
        yield Tile("Cost", f"${sum(costs):.4f}", "of all summaries")


def _turns(trajectory: Trajectory) -> Tile:
    counts = {
        words: sum(turn.state == state for turn in trajectory.turns)
        for state, words in (("rolled-back", "rolled back"), ("cleared", "cleared"))
    }
    aside = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    return Tile("Turns", number(len(trajectory.turns)), aside or "all part of the conversation")


def _now(trajectory: Trajectory, saw: Sawtooth) -> Tile:
    now, hard, soft = saw.now, trajectory.hard_limit, trajectory.soft_limit
    value = number(now.tokens) if now.exact else f"≈ {now.tokens:,}"
    if not hard:
        return Tile("Tokens now", value, "limits unknown")
    kind = "over" if now.tokens > hard else ""
    return Tile("Tokens now", value, f"limits: soft {soft:,}, hard {hard:,}", kind)
