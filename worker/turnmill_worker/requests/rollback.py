"""Going back to an earlier state: which one, what it takes, and how it is counted."""

from __future__ import annotations

from collections.abc import Sequence

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import NoCheckpoint, SessionBusy, UnknownSession
from turnmill.contract.images.references import blobs_of
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import Version
from turnmill.contract.render import render_head, system_message
from turnmill.contract.results import RollbackResult
from turnmill.contract.token_counters import Counter, Counters
from turnmill_worker.compaction.tally import images, interactions
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.past import Past, PastState, Restored
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import CountedTurn, SessionRef
from turnmill_worker.requests.agreement import past_agreed

__all__ = ["Rollback"]

ATTEMPTS = 5
"""An attempt fails only when another commit came between reading and writing."""


class Rollback:
    """Restores checkpoints and versions of sessions."""

    def __init__(self, states: States, archive: Archive | None, counters: Counters) -> None:
        self._states = states
        self._archive = archive
        self._counters = counters

    def rollback(self, ref: SessionRef, to: str | int | None) -> RollbackResult:
        """Restore the newest checkpoint, one by its id, or a version's context.

        Raises:
            UnknownSession: there is no such session.
            NoCheckpoint: there is none to restore.
            SessionBusy: compactions came between at every attempt.
        """
        for _ in range(ATTEMPTS):
            past = past_agreed(self._states, self._archive, ref)
            if past is None:
                raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
            chosen = self._choose(ref, past, to)
            state = self._restored(ref, past, chosen, used=to is None)
            self._bring_images_back(ref, past, state)
            gone = self._turns(ref, past, after=chosen.seq, through=past.watermark)
            version, lost = self._states.restore(ref, past, state)
            if version:
                return RollbackResult(
                    restored=chosen.id,
                    seq=chosen.seq,
                    version=Version(version),
                    turns_lost=lost + len(gone),
                )
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def _bring_images_back(self, ref: SessionRef, past: Past, state: Restored) -> None:
        """Let Redis hold the images again that it released when their turns were archived."""
        if self._archive is None:
            return
        stored = state.stored
        shown = [m for pin in stored.pins for m in pin.messages]
        shown += [elision.message for elision in stored.elisions]
        hashes = {*blobs_of(shown), *(sha for turn, _ in state.turns for sha in turn.blobs)}
        if hashes:
            found = self._archive.blobs(ref.namespace, sorted(hashes))
            self._states.hold(ref, past.epoch, found.values())

    def _choose(self, ref: SessionRef, past: Past, to: str | int | None) -> PastState:
        if isinstance(to, int):
            found = [self._of_version(commit) for commit in self._commits(ref, past, to)]
            if found and self._was_left(ref, past, to, found[-1].seq):
                raise NoCheckpoint(
                    f"version {to} of {ref.session!r} cannot be restored: turns it stands for were "
                    "rolled back or cleared since"
                )
        else:
            found = [state for state in past.checkpoints if to in (None, state.id)]
        if found:
            return found[-1]
        known = ", ".join(repr(state.id) for state in past.checkpoints) or "none"
        what = "no checkpoint" if to is None else f"no checkpoint or version {to!r}"
        raise NoCheckpoint(f"{what} of {ref.session!r} to roll back to; checkpoints are: {known}")

    def _commits(self, ref: SessionRef, past: Past, version: int) -> list[ArchivedCompaction]:
        """The commit of this version, from Redis or the archive."""
        found = [commit for commit in past.commits if commit.version == version]
        if not found and self._archive is not None:
            archived = self._archive.context(ref, version=version, epoch=past.epoch)
            found += [archived] if archived else []
        return found

    def _was_left(self, ref: SessionRef, past: Past, version: int, seq: int) -> bool:
        """Whether turns of this version, up to ``seq``, were set aside by a later commit."""
        commits = list(past.commits)
        if self._archive is not None:
            commits += self._archive.compactions(ref, epoch=past.epoch)
        for commit in commits:
            if commit.version > version:
                record = Compaction.parse(commit.record)
                before = record.strategy == "rollback" and record.last_seq < seq
                if before or record.strategy == "clear":
                    return True
        return False

    @staticmethod
    def _of_version(commit: ArchivedCompaction) -> PastState:
        record = Compaction.parse(commit.record)
        return PastState(
            id=f"version {commit.version}",
            entry="",
            seq=record.last_seq or record.watermark,
            stored=StoredContext.parse(commit.context),
        )

    def _restored(self, ref: SessionRef, past: Past, chosen: PastState, *, used: bool) -> Restored:
        """The state as it is written back: its turns found again, and all of it counted."""
        counter = self._counters(past.policy.encoding, past.policy.image_formula)
        stored = chosen.stored
        turns = self._turns(ref, past, after=stored.watermark, through=chosen.seq)
        tracker = CallTracker()
        counted = _count(turns, stored, counter, tracker)
        context = stored.model_copy(
            update={
                "version": Version(past.version + 1),
                "tokens": counter.count_messages(render_head(stored)),
                "strategy": "rollback",
            }
        )
        system = counter.count_messages([system_message(past.system)]) if past.system else 0
        total = system + context.tokens + sum(numbers.tokens for _, numbers in counted)
        return Restored(
            seq=chosen.seq,
            stored=context,
            turns=tuple(counted),
            open_calls=tuple(tracker.open),
            basis=counter.basis,
            images_before=self._images_before(ref, past, stored),
            quality=None,
            record=Compaction(
                session=ref.session,
                version=context.version,
                strategy="rollback",
                from_watermark=past.watermark,
                watermark=stored.watermark,
                turns=0,
                elided=len(stored.elisions),
                tokens_before=past.tokens,
                tokens_after=total,
                last_seq=chosen.seq,
            ),
            used=chosen.entry if used else "",
            due=total > past.policy.limits(system).soft,
        )

    def _turns(
        self, ref: SessionRef, past: Past, *, after: int, through: int
    ) -> list[ArchivedTurn]:
        """The conversation's turns in this range, from the archive and from Redis."""
        archived: list[ArchivedTurn] = []
        if self._archive is not None and after < min(past.watermark, through):
            archived = self._archive.turns(
                ref, epoch=past.epoch, first_seq=after + 1, last_seq=through
            )
        found = past.with_archived(archived)
        return [turn for turn in found if after < turn.seq <= through and turn.state == "kept"]

    def _images_before(self, ref: SessionRef, past: Past, stored: StoredContext) -> int:
        covered = self._turns(ref, past, after=0, through=stored.watermark)
        return sum(
            images(decode_json(turn.messages))
            for turn in covered
            if b'"image_url"' in turn.messages
        )


def _count(
    turns: Sequence[ArchivedTurn], stored: StoredContext, counter: Counter, tracker: CallTracker
) -> list[tuple[ArchivedTurn, CountedTurn]]:
    """The turns with their exact tokens, as they are read with this context."""
    elided = {(e.seq, e.index): e.message for e in stored.elisions}
    counted = []
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
        counted.append((turn, numbers))
    return counted
