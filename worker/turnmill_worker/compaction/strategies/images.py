"""Old images give way to a line of text; what was said about them stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from turnmill.contract.context import Elision, JsonMessage
from turnmill.contract.estimate import Counter
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, image_parts, images_asked
from turnmill_worker.compaction.strategies.registry import Elides, register
from turnmill_worker.reading.requests import newest_images


def elide_images(snapshot: Snapshot, counter: Counter) -> Snapshot:
    """The snapshot with all but the newest ``max_history_images`` images replaced by text.

    Those of open requests are the oldest. The session's first image also stays if the policy says
    so, and so do the images of pinned turns. The text is specification 000's:
    ``[Image from Step X removed to save context]``, where X is the turn's iteration, or else how
    many images the session had before.
    """
    most = snapshot.policy.max_history_images
    if most is None:
        return snapshot
    shown, asked = list(_images(snapshot)), images_asked(snapshot.stored)
    excess = asked + len(shown) - most
    if excess <= 0:
        return snapshot
    # Requests are older than all turns that stay.
    gone = set(shown[: max(excess - asked, 0)])
    made = []
    ordinal = snapshot.images_before
    for turn in snapshot.turns:
        for index, message in enumerate(turn.original):
            parts = image_parts(message)
            names = {
                at: turn.iteration if turn.iteration is not None else ordinal + n
                for n, at in enumerate(parts)
            }
            ordinal += len(parts)
            doomed = {at: names[at] for at in parts if (turn.seq, index, at) in gone}
            if doomed:
                made.append(_elision(turn, index, doomed, counter))
    stored = snapshot.stored
    standing = [each for each in stored.requests if each.seq <= stored.watermark]
    requests = (*newest_images(standing, asked - excess), *stored.requests[len(standing) :])
    stored = stored.model_copy(update={"requests": requests})
    return replace(snapshot, stored=stored, unelided=snapshot.before).with_elisions(made)


_Place = tuple[int, int, int]
"""An image: the turn's seq, the message's index, the part's index."""


def _images(snapshot: Snapshot) -> Iterator[_Place]:
    """The shown images that may be replaced, oldest first."""
    thumbnail = snapshot.thumbnail
    for turn in snapshot.turns:
        places = [
            (turn.seq, index, at)
            for index, message in enumerate(turn.shown)
            for at in image_parts(message)
        ]
        if turn.seq == thumbnail:
            places = places[1:]
        if not turn.pinned:
            yield from places


def _elision(turn: LoggedTurn, index: int, doomed: dict[int, int], counter: Counter) -> Elision:
    before = turn.shown[index]
    content = [
        {"type": "text", "text": f"[Image from Step {doomed[at]} removed to save context]"}
        if at in doomed
        else part
        for at, part in enumerate(before["content"])
    ]
    after: JsonMessage = {**before, "content": content}
    return Elision(
        seq=turn.seq,
        index=index,
        message=after,
        tokens_before=counter.count_messages([before]),
        tokens_after=counter.count_messages([after]),
    )


register("images", Elides(elide_images, names_plan=False))
