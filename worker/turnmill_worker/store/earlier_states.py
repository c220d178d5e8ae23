"""Earlier states of a session in Redis, and the way back to one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.context import StoredContext
from turnmill.contract.estimate import bound_turn
from turnmill.contract.keys import commits_channel
from turnmill.contract.names import Seq, Version
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.sealing import Secret, check_plain
from turnmill_worker.compaction.snapshot import images_asked
from turnmill_worker.ports.values import (
    ArchivedTurn,
    Blob,
    Cleansed,
    CountedTurn,
    EarlierState,
    Restored,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.store.outgoing import (
    archived_compaction,
    archived_turn,
    fields_of,
    hold,
    left_entry,
    release,
)
from turnmill_worker.store.scripts import keys_of, run, translated
from turnmill_worker.store.sessions import decoded_known, encoded_known


class RedisStates:
    """The ``States`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any) -> None:
        self._redis = client

    def past(self, ref: SessionRef) -> SessionInRedis | None:
        """What a rollback is planned from; None for an unknown session."""
        reply = run(self._redis, "earlier_states", keys_of(ref))
        if reply is None:
            return None
        meta, log, covered, commits, automatic, named, counts = reply
        tokens = dict(zip(counts[::2], counts[1::2], strict=True))
        texts = [(field or b"").decode("utf-8", "replace") for field in meta]
        epoch, revision, policy, version, watermark, last, system_tokens, basis = texts[:8]
        head, tail, system, commit_id, tools, tools_tokens = texts[8:]
        check_plain(meta[12])
        fixed = int(system_tokens or 0) + int(tools_tokens or 0)
        return SessionInRedis(
            epoch=epoch,
            revision=revision or "0",
            policy=stored_policy(policy) if policy else Policy(),
            version=Version(int(version or 0)),
            watermark=Seq(int(watermark or 0)),
            last_seq=Seq(int(last or 0)),
            system=system,
            system_tokens=fixed,
            basis=basis,
            tokens=fixed + sum(int(part or 0) for part in (head, tail)),
            left=tuple(left_entry(entry) for entry in covered),
            log=tuple(_logged(entry, tokens) for entry in log),
            checkpoints=_checkpoints([*automatic, *named]),
            commits=tuple(archived_compaction(entry) for entry in commits),
            commit_id=commit_id,
            tools=tools.encode(),
        )

    def hold(self, ref: SessionRef, epoch: str, images: Iterable[Blob]) -> bool:
        """Let Redis hold these images for the session; False when it was forgotten meanwhile."""
        return hold(self._redis, ref, epoch, images)

    def restore(self, ref: SessionRef, past: SessionInRedis, state: Restored) -> tuple[int, int]:
        """Restore it, if nothing was committed meanwhile; the new version or 0, and turns lost."""
        version, lost = run(
            self._redis,
            "rollback",
            keys_of(ref),
            _turn_words(state),
            seq=state.seq,
            quality="" if state.quality is None else repr(state.quality),
            used=state.used,
            **_common(ref, past, state),
        )
        return int(version), int(lost)

    def erase(self, ref: SessionRef, past: SessionInRedis, left: Cleansed) -> int:
        """Write it, if nothing was committed meanwhile; the new version or 0."""
        state = left.state
        version = run(
            self._redis,
            "erase",
            keys_of(ref),
            [
                *_turn_words(state),
                *(word for turn in left.turns.values() for word in _instead(turn)),
                *(word for each in left.contexts for word in (each.version, Secret(each.context))),
                *left.checkpoints,
            ],
            through=state.seq,
            known=Secret(self._known(ref, state.stored.watermark, remade=left.remade)),
            remade=int(left.remade),
            restored=len(state.turns),
            erased=len(left.turns),
            contexts=len(left.contexts),
            **_common(ref, past, state),
        )
        if version:
            release(self._redis, ref)
        return int(version)

    def now_ms(self) -> int:
        """The time by Redis' clock."""
        with translated():
            return redis_now_ms(self._redis)

    def _known(self, ref: SessionRef, watermark: int, *, remade: bool) -> bytes:
        """What was known at the watermark; only a commit changes it."""
        with translated():
            body: bytes | None = self._redis.get(keys_of(ref).facts)
        if not remade:
            return body or b""
        known = decoded_known(body, watermark)
        # What is of no known turn came from a summary.
        readings = tuple(each for each in known.readings if each.seq)
        return encoded_known(replace(known, readings=readings))


def _common(ref: SessionRef, past: SessionInRedis, state: Restored) -> dict[str, str | bytes | int]:
    """What both scripts that write a state back are told."""
    counted = [numbers for _, numbers in state.turns]
    newest = past.log[-1] if past.log else None
    return {
        "session": ref.session,
        "epoch": past.epoch,
        "revision": past.revision,
        "expected_version": str(past.version),
        "expected_commit": past.commit_id,
        "newest": str(newest.seq) if newest else "",
        "newest_chain": (newest.chain or f"{newest.turn_id} {newest.at_ms}") if newest else "",
        "commit_id": uuid.uuid4().hex,
        "watermark": state.stored.watermark,
        "body": Secret(state.stored.encode()),
        "context_tokens": state.stored.tokens,
        "tail_tokens": sum(each.tokens for each in counted),
        "open_calls": json.dumps(list(state.open_calls)),
        "basis": state.basis,
        "images": sum(each.images for each in counted) + images_asked(state.stored),
        "images_before": state.images_before,
        "interactions": sum(each.interactions for each in counted),
        "messages": sum(each.messages for each in counted),
        "record": state.record.encode(),
        "channel": commits_channel(ref.namespace),
        "is_due": int(state.due),
    }


def _turn_words(state: Restored) -> list[str | bytes | int]:
    return [word for turn, numbers in state.turns for word in _words(turn, numbers)]


def _instead(turn: ArchivedTurn) -> Sequence[str | bytes | int]:
    bound = bound_turn(turn.messages)
    return turn.seq, Secret(turn.messages), bound, Secret(turn.fields), turn.turn_id


def _words(turn: ArchivedTurn, counted: CountedTurn) -> Sequence[str | bytes | int]:
    bound = bound_turn(turn.messages)
    return (
        turn.seq,
        counted.tokens,
        Secret(turn.messages),
        bound,
        turn.turn_id,
        Secret(turn.fields),
        str(turn.at_ms),
        " ".join(turn.blobs),
        turn.chain,
    )


def _logged(entry: tuple[bytes, Any], tokens: Mapping[bytes, bytes]) -> ArchivedTurn:
    seq = entry[0].partition(b"-")[0]
    return archived_turn({b"seq": seq, b"tokens": tokens.get(seq, b""), **fields_of(entry)})


def _checkpoints(entries: Sequence[Any]) -> tuple[EarlierState, ...]:
    found = []
    for entry in entries:
        fields = fields_of(entry)
        found.append(
            EarlierState(
                id=fields[b"id"].decode("utf-8", "replace"),
                # Automatic and named ones are in two streams, whose ids may be the same.
                entry=f"{entry[0].decode()} {fields[b'id'].decode('utf-8', 'replace')}",
                seq=Seq(int(fields[b"seq"])),
                stored=StoredContext.parse(fields[b"context"] or None),
                at_ms=int(entry[0].partition(b"-")[0]),
                message=fields[b"message"].decode("utf-8", "replace"),
            )
        )
    return tuple(sorted(found, key=lambda state: (state.at_ms, state.seq)))
