"""A session's whole trajectory, from Redis and the archive together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from turnmill.contract.codec import decode_exactly, decode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import InvalidInput, UnknownSession
from turnmill.contract.images import blobs_of, join_images
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.trajectory import CommittedContext, LostTurns, Trajectory, TrajectoryTurn
from turnmill_worker.failover.noticing import session_agreed
from turnmill_worker.ports.protocols import Archive, Outgoing, States
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Blob,
    SessionInRedis,
    SessionRef,
)


class Exporting:
    """Puts together what was pushed to a session, whatever became of it."""

    def __init__(self, states: States, outgoing: Outgoing, archive: Archive | None) -> None:
        self._states = states
        self._outgoing = outgoing
        self._archive = archive

    def trajectory(self, ref: SessionRef) -> Trajectory:
        """Every turn and every compaction of the session's newest incarnation.

        Without the context as it is read now: that is for the reader to add.

        Raises:
            UnknownSession: neither in Redis nor in the archive.
        """
        past = session_agreed(self._states, self._archive, ref)
        # Forgotten, and the archive has not caught up yet.
        gone = past is None and bool(self._outgoing.forgotten(ref))
        turns = [] if gone else self._turns(ref, past)
        if not turns and past is None:
            raise _unknown(ref)
        limits = past.policy.limits(past.system_tokens) if past else None
        shown = with_images(turns, partial(self._images, ref))
        return Trajectory(
            session=ref.session,
            namespace=ref.namespace,
            source=_source(shown),
            question=next(_texts(shown, "user"), ""),
            system_prompt=past.system if past else "",
            hard_limit=limits.hard if limits else 0,
            soft_limit=limits.soft if limits else 0,
            turns=shown,
            final_answer=next(_texts(shown[::-1], "assistant"), None),
            compactions=tuple(self._compactions(ref, past)),
            lost=tuple(self._lost(ref, past)),
        )

    def turn(self, ref: SessionRef, seq: int) -> Trajectory:
        """The same with this turn alone, and nothing of the session.

        Raises:
            UnknownSession: neither in Redis nor in the archive.
            InvalidInput: there is no such turn; says which there are.
        """
        past = session_agreed(self._states, self._archive, ref)
        gone = past is None and bool(self._outgoing.forgotten(ref))
        tip = past.tip if past else self._archive.tip(ref) if self._archive and not gone else None
        if tip is None:
            raise _unknown(ref)
        if seq > tip.seq:
            there = f"has the turns 1 to {tip.seq}" if tip.seq else "has no turns yet"
            raise InvalidInput(f"{ref.session!r} {there}; there is no turn {seq}")
        found = [turn for turn in self._turns(ref, past, seq) if turn.seq == seq]
        if not found:
            raise InvalidInput(f"turn {seq} of {ref.session!r} was covered, and no archive kept it")
        shown = with_images(found, partial(self._images, ref))
        return Trajectory(session=ref.session, namespace=ref.namespace, turns=shown)

    def _turns(
        self, ref: SessionRef, past: SessionInRedis | None, seq: int | None = None
    ) -> list[ArchivedTurn]:
        # Redis was looked at first: what has moved since is in the archive.
        archived: list[ArchivedTurn] = []
        if self._archive is not None:
            epoch = past.epoch if past else None
            archived = self._archive.turns(ref, epoch=epoch, first_seq=seq or 1, last_seq=seq)
        return past.with_archived(archived) if past else archived

    def _compactions(self, ref: SessionRef, past: SessionInRedis | None) -> list[CommittedContext]:
        epoch = past.epoch if past else None
        found = list(self._archive.compactions(ref, epoch=epoch)) if self._archive else []
        versions = {each.version: each for each in [*found, *(past.commits if past else ())]}
        return [committed(versions[version]) for version in sorted(versions)]

    def _lost(self, ref: SessionRef, past: SessionInRedis | None) -> list[LostTurns]:
        epoch = past.epoch if past else None
        found = self._archive.branches(ref, epoch=epoch) if self._archive else []
        return [LostTurns.model_validate(each.numbers) for each in found]

    def _images(self, ref: SessionRef, wanted: Sequence[str]) -> Mapping[str, Blob]:
        found = dict(self._archive.blobs(ref.namespace, wanted)) if self._archive else {}
        missing = [sha for sha in wanted if sha not in found]
        return found | {blob.sha256: blob for blob in self._outgoing.images(ref, missing)}


def _unknown(ref: SessionRef) -> UnknownSession:
    return UnknownSession(
        f"no session {ref.session!r} in namespace {ref.namespace!r}, nor in the archive"
    )


def with_images(
    turns: Sequence[ArchivedTurn], images: Callable[[Sequence[str]], Mapping[str, Blob]]
) -> tuple[TrajectoryTurn, ...]:
    """The turns as they were pushed; ``images`` finds pictures by their hashes."""
    messages: list[list[JsonMessage]] = [decode_json(turn.messages) for turn in turns]
    wanted = blobs_of([message for own in messages for message in own])
    data = {sha: blob.data for sha, blob in images(wanted).items()} if wanted else {}
    return tuple(
        _turn(turn, join_images(own, data)) for turn, own in zip(turns, messages, strict=True)
    )


def _turn(turn: ArchivedTurn, messages: Sequence[JsonMessage]) -> TrajectoryTurn:
    fields = decode_exactly(turn.fields) if turn.fields else {}
    return TrajectoryTurn(
        seq=turn.seq,
        messages=tuple(messages),
        turn_id=turn.turn_id,
        iteration=fields.get("iteration"),
        metadata=fields.get("metadata"),
        pinned=bool(fields.get("pinned")),
        at_ms=turn.at_ms,
        tokens=turn.tokens,
        state=turn.state,
    )


def committed(commit: ArchivedCompaction) -> CommittedContext:
    """The commit as a trajectory has it."""
    return CommittedContext(
        at_ms=commit.at_ms,
        record=Compaction.parse(commit.record),
        context=StoredContext.parse(commit.context),
    )


def _source(turns: Sequence[TrajectoryTurn]) -> str | None:
    named = ((turn.metadata or {}).get("source") for turn in turns)
    return next((source for source in named if isinstance(source, str)), None)


def _texts(turns: Sequence[TrajectoryTurn], role: str) -> Iterator[str]:
    """The texts of this role's messages that call no tool, of turns still in the conversation."""
    for turn in turns:
        for message in turn.messages:
            content = message.get("content")
            if turn.state != "kept" or message["role"] != role or message.get("tool_calls"):
                continue
            if isinstance(content, list):
                content = " ".join(p["text"] for p in content if isinstance(p.get("text"), str))
            if content:
                yield content
