"""What left the log and waits for the archive: streams in Redis, read in order and then trimmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from turnmill.contract.keys import SHARDS, shard_keys, shard_of
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill.transport import redis_now_ms
from turnmill_worker.ports.records import ArchivedCompaction, ArchivedTurn, Batch, Blob
from turnmill_worker.ports.values import Drain, Mark, SessionRef
from turnmill_worker.store.blobs import blobs, release
from turnmill_worker.store.scripts import keys_of, run, translated

__all__ = [
    "RedisOutgoing",
    "archived_compaction",
    "archived_turn",
    "fields_of",
    "left_entry",
]

LATE_DRAIN_MS = 60_000
"""Longer than a drain takes: one begun before a session was forgotten is over by then."""


class RedisOutgoing:
    """The ``Outgoing`` port over a redis-py client that does not decode responses."""

    def __init__(self, client: Any, *, late_drain_ms: int = LATE_DRAIN_MS) -> None:
        self._redis = client
        self._late_drain_ms = late_drain_ms

    def next_drain(self, ref: SessionRef, *, most: int) -> Drain | None:
        """The oldest entries; None when there are none."""
        reply = run(self._redis, "undrained", keys_of(ref), session=ref.session, most=most)
        if reply is None:
            return None
        epoch, turns, commits = reply
        steps = list(self._steps(ref, turns))
        compactions = tuple(archived_compaction(entry) for entry in commits)
        return Drain(
            epoch=epoch.decode(),
            steps=(*steps, Batch(compactions=compactions)),
            turns_through=_last_id(turns),
            commits_through=_last_id(commits),
        )

    def trim(self, ref: SessionRef, drain: Drain) -> Literal["more", "done", "forgotten"]:
        """Trim what is archived now; says whether there is more, or the session was forgotten."""
        left = run(
            self._redis,
            "drained",
            keys_of(ref),
            session=ref.session,
            epoch=drain.epoch,
            turns_through=drain.turns_through,
            commits_through=drain.commits_through,
        )
        if left == -1:
            return "forgotten"
        release(self._redis, ref)
        return "more" if left else "done"

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""
        return list(blobs(self._redis, ref, hashes)) if hashes else []

    def forgotten(self, namespace: Namespace) -> list[tuple[SessionId, int]]:
        """Sessions to remove from the archive, with the time they were forgotten, in µs."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrange(shard_keys(namespace, shard).forgotten, 0, -1)
            replies = pipe.execute()
        members = (member.decode() for reply in replies for member in reply)
        parts = (member.partition(":") for member in members)
        return [(SessionId(session), int(at_us)) for at_us, _, session in parts]

    def forgotten_done(self, ref: SessionRef, at_us: int, *, settled: bool) -> None:
        """The archive has none of it; unless ``settled``, look again after any late drains."""
        key = shard_keys(ref.namespace, shard_of(ref.session)).forgotten
        member = f"{at_us}:{ref.session}"
        at_ms = at_us // 1000
        with translated():
            if settled or redis_now_ms(self._redis) - at_ms > self._late_drain_ms:
                self._redis.zrem(key, member)
            else:
                self._redis.zadd(key, {member: at_ms + self._late_drain_ms + 1}, xx=True)

    def _steps(self, ref: SessionRef, entries: Sequence[Any]) -> Iterator[Batch | Mark]:
        """The entries in order: runs of turns with their images, and marks between them."""
        for is_mark, group in groupby(map(left_entry, entries), key=lambda e: isinstance(e, Mark)):
            if is_mark:
                yield from (each for each in group if isinstance(each, Mark))
            else:
                turns = tuple(each for each in group if isinstance(each, ArchivedTurn))
                yield Batch(turns=turns, blobs=self._blobs(ref, turns))

    def _blobs(self, ref: SessionRef, turns: Iterable[ArchivedTurn]) -> tuple[Blob, ...]:
        hashes = sorted({sha for turn in turns for sha in turn.blobs})
        return tuple(blobs(self._redis, ref, hashes)) if hashes else ()


def fields_of(entry: tuple[bytes, Any]) -> Mapping[bytes, bytes]:
    """A stream entry's fields by name."""
    flat = entry[1]
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def archived_turn(fields: Mapping[bytes, bytes]) -> ArchivedTurn:
    """A turn as the ``covered`` stream holds it; or the log, with ``seq`` added."""
    tokens = fields.get(b"tokens", b"")
    state = fields.get(b"state", b"kept").decode()
    return ArchivedTurn(
        seq=Seq(int(fields[b"seq"])),
        messages=fields[b"messages"],
        turn_id=fields[b"turn_id"].decode("utf-8", "replace"),
        fields=fields[b"fields"],
        at_ms=int(fields[b"at"]),
        tokens=int(tokens) if tokens else None,
        state=state,  # type: ignore[arg-type]  # the scripts write no others
        blobs=tuple(fields.get(b"blobs", b"").decode().split()),
    )


def left_entry(entry: tuple[bytes, Any]) -> ArchivedTurn | Mark:
    """What the ``covered`` stream holds: a turn, or a mark."""
    fields = fields_of(entry)
    return _mark(fields) if b"after" in fields else archived_turn(fields)


def _mark(fields: Mapping[bytes, bytes]) -> Mark:
    return Mark(
        after_seq=int(fields[b"after"]),
        through_seq=int(fields[b"through"]),
        state=fields[b"state"].decode(),  # type: ignore[arg-type]  # the scripts write no others
    )


def archived_compaction(entry: tuple[bytes, Any]) -> ArchivedCompaction:
    """A commit as the ``commits`` stream holds it."""
    fields = fields_of(entry)
    return ArchivedCompaction(
        version=Version(int(fields[b"version"])),
        at_ms=int(entry[0].partition(b"-")[0]),
        record=fields[b"record"],
        context=fields[b"context"],
        detail=fields[b"detail"],
    )


def _last_id(entries: Sequence[Any]) -> str:
    return entries[-1][0].decode() if entries else ""
