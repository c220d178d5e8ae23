"""The turns of a session from the archive and from Redis, counted as a restored log needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.estimate import Counter, Counters
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import Seq, Version
from turnmill.contract.render import render_head, system_message
from turnmill.contract.tools import count_tools
from turnmill_worker.compaction.snapshot import blobs_shown, images, interactions
from turnmill_worker.ports.protocols import Archive, States
from turnmill_worker.ports.values import (
    ArchivedTurn,
    CountedTurn,
    Restored,
    SessionInRedis,
    SessionRef,
)


class EarlierTurns:
    """Finds turns again that left the log, and their images."""

    def __init__(self, states: States, archive: Archive | None, counters: Counters) -> None:
        self._states = states
        self._archive = archive
        self._counters = counters

    def kept(
        self, ref: SessionRef, past: SessionInRedis, *, after: int, through: int
    ) -> list[ArchivedTurn]:
        """The conversation's turns in this range, from the archive and from Redis."""
        archived: list[ArchivedTurn] = []
        if self._archive is not None and after < min(past.watermark, through):
            archived = self._archive.turns(
                ref, epoch=past.epoch, first_seq=after + 1, last_seq=through
            )
        found = past.with_archived(archived)
        return [turn for turn in found if after < turn.seq <= through and turn.state == "kept"]

    def restored(
        self,
        ref: SessionRef,
        past: SessionInRedis,
        stored: StoredContext,
        *,
        through: int,
        strategy: str,
        used: str = "",
        instead: Mapping[int, ArchivedTurn] = MappingProxyType({}),
    ) -> Restored:
        """A context and the turns after it as they are written back, counted; some ``instead``."""
        counter = self._counters(past.policy.encoding, past.policy.image_formula)
        found = self.kept(ref, past, after=0, through=through)
        turns = [instead.get(turn.seq, turn) for turn in found if turn.seq > stored.watermark]
        tracker = CallTracker.after(stored)
        numbered = _counted(turns, stored, counter, tracker)
        context = stored.model_copy(
            update={
                "version": Version(past.version + 1),
                "tokens": counter.count_messages(render_head(stored)),
                "strategy": strategy,
            }
        )
        system = counter.count_messages([system_message(past.system)]) if past.system else 0
        system += count_tools(counter.count, past.tools)
        total = system + context.tokens + sum(numbers.tokens for _, numbers in numbered)
        return Restored(
            seq=Seq(through),
            stored=context,
            turns=tuple(numbered),
            open_calls=tuple(tracker.open),
            basis=counter.basis,
            images_before=_images([turn for turn in found if turn.seq <= stored.watermark]),
            quality=None,
            record=_record(ref, past, context, through=through, tokens=total),
            used=used,
            due=total > past.policy.limits(system).soft,
        )

    def bring_images_back(self, ref: SessionRef, past: SessionInRedis, state: Restored) -> None:
        """Let Redis hold the images again that it released when their turns were archived."""
        if self._archive is None:
            return
        hashes = {
            *blobs_shown(state.stored),
            *(sha for turn, _ in state.turns for sha in turn.blobs),
        }
        if hashes:
            found = self._archive.blobs(ref.namespace, sorted(hashes))
            self._states.hold(ref, past.epoch, found.values())


def _record(
    ref: SessionRef, past: SessionInRedis, context: StoredContext, *, through: int, tokens: int
) -> Compaction:
    return Compaction(
        session=ref.session,
        version=context.version,
        strategy=context.strategy,
        from_watermark=past.watermark,
        watermark=context.watermark,
        turns=0,
        elided=len(context.elisions),
        tokens_before=past.tokens,
        tokens_after=tokens,
        last_seq=Seq(through),
    )


def _images(turns: Sequence[ArchivedTurn]) -> int:
    """How many images the turns show."""
    return sum(
        images(decode_json(turn.messages)) for turn in turns if b'"image_url"' in turn.messages
    )


def _counted(
    turns: Sequence[ArchivedTurn], stored: StoredContext, counter: Counter, tracker: CallTracker
) -> list[tuple[ArchivedTurn, CountedTurn]]:
    """The turns with their exact tokens, as they are read with this context."""
    elided = {(e.seq, e.index): e.message for e in stored.elisions}
    found = []
    for turn in turns:
        original: list[JsonMessage] = decode_json(turn.messages)
        shown = [elided.get((turn.seq, at), message) for at, message in enumerate(original)]
        numbers = CountedTurn(
            turn.seq,
            counter.count_messages(tracker.repair(shown)),
            images=images(shown),
            interactions=interactions(original),
            messages=len(original),
        )
        found.append((turn, numbers))
    return found
