"""A session's whole trajectory, from Redis and the archive together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmill.contract.codec import decode_json
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.errors import UnknownSession
from turnmill.contract.images.references import blobs_of, join_images
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn
from turnmill_worker.ports.archive import Archive, Outgoing
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import Past, SessionRef

__all__ = ["Exporting"]


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
        past = self._states.past(ref)
        # Forgotten, and the archive has not caught up yet.
        gone = past is None and bool(self._outgoing.forgotten(ref))
        turns = [] if gone else self._turns(ref, past)
        if not turns and past is None:
            raise UnknownSession(
                f"no session {ref.session!r} in namespace {ref.namespace!r}, nor in the archive"
            )
        limits = past.policy.limits(past.system_tokens) if past else None
        shown = self._with_images(ref, turns)
        return Trajectory(
            session=ref.session,
            namespace=ref.namespace,
            source=_source(shown),
            question=next(_texts(shown, "user"), ""),
            system_prompt=past.system if past else "",
            hard_limit=limits.hard if limits else 0,
            soft_limit=limits.soft if limits else 0,
            turns=tuple(shown),
            final_answer=next(_texts(shown[::-1], "assistant"), None),
            compactions=tuple(self._compactions(ref, past)),
        )

    def _turns(self, ref: SessionRef, past: Past | None) -> list[ArchivedTurn]:
        # Redis was looked at first: what has moved since is in the archive.
        epoch = past.epoch if past else None
        archived = self._archive.turns(ref, epoch=epoch) if self._archive else []
        return past.with_archived(archived) if past else archived

    def _compactions(self, ref: SessionRef, past: Past | None) -> list[CommittedContext]:
        epoch = past.epoch if past else None
        found = list(self._archive.compactions(ref, epoch=epoch)) if self._archive else []
        versions = {each.version: each for each in [*found, *(past.commits if past else ())]}
        return [_committed(versions[version]) for version in sorted(versions)]

    def _with_images(self, ref: SessionRef, turns: Sequence[ArchivedTurn]) -> list[TrajectoryTurn]:
        messages: list[list[JsonMessage]] = [decode_json(turn.messages) for turn in turns]
        wanted = blobs_of([message for own in messages for message in own])
        found = self._archive.blobs(ref.namespace, wanted) if wanted and self._archive else {}
        data = {sha: blob.data for sha, blob in found.items()}
        missing = [sha for sha in wanted if sha not in data]
        data |= {blob.sha256: blob.data for blob in self._outgoing.images(ref, missing)}
        return [
            _turn(turn, join_images(own, data)) for turn, own in zip(turns, messages, strict=True)
        ]


def _turn(turn: ArchivedTurn, messages: Sequence[JsonMessage]) -> TrajectoryTurn:
    fields = decode_json(turn.fields) if turn.fields else {}
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


def _committed(commit: ArchivedCompaction) -> CommittedContext:
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
