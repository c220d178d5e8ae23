"""A session's whole trajectory, from Redis and the archive together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from turnmill.contract.codec import decode_exactly, decode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import UnknownSession
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
            raise UnknownSession(
                f"no session {ref.session!r} in namespace {ref.namespace!r}, nor in the archive"
            )
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

    def _turns(self, ref: SessionRef, past: SessionInRedis | None) -> list[ArchivedTurn]:
        # Redis was looked at first: what has moved since is in the archive.
        epoch = past.epoch if past else None
        archived = self._archive.turns(ref, epoch=epoch) if self._archive else []
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
