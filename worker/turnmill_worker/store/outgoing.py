"""What left the log and waits for the archive, with its images: read in order and then trimmed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.errors import StoreUnavailable
from turnmill.contract.formats import refuse_newer_body
from turnmill.contract.keys import SHARDS, shard_keys
from turnmill.contract.names import Namespace, Seq, Version
from turnmill.contract.sealing import Secret
from turnmill_worker.ports.protocols import DRAIN_WITHIN_S, Left
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Batch,
    Blob,
    Drain,
    Mark,
    SessionRef,
)
from turnmill_worker.store.namespaces import session_named
from turnmill_worker.store.redis_runs import RedisRuns
from turnmill_worker.store.scripts import keys_of, queue, run, translated


def blobs(client: Any, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
    """The images of the session's shard with these sha256. One round trip."""
    prefix = keys_of(ref).blob
    with translated(), client.pipeline(transaction=False) as pipe:
        for sha256 in hashes:
            pipe.get(f"{prefix}{sha256}")
            pipe.hget(f"{prefix}{sha256}:held", "type")
        replies = pipe.execute()
    return [
        Blob(sha256=sha256, media_type=media_type.decode(), data=data)
        for sha256, data, media_type in zip(hashes, replies[::2], replies[1::2], strict=True)
        if data is not None and media_type is not None
    ]


def release(client: Any, ref: SessionRef) -> int:
    """Release every image that nothing of the session in Redis shows any more; returns how many.

    Looks at all images the session holds, not at candidates: some were shown only by a
    checkpoint, a pin or a context that is gone by now.
    """
    return int(run(client, "release_images", keys_of(ref), session=ref.session))


def hold(client: Any, ref: SessionRef, epoch: str, images: Iterable[Blob]) -> bool:
    """Let the session hold these images; False when it was forgotten meanwhile.

    A rollback calls it for images of turns that come back from the archive, just before it
    writes: the next ``release`` would release images that are held and not shown.
    """
    words = image_words(ref, images)
    done = run(client, "restore_images", keys_of(ref), words, session=ref.session, epoch=epoch)
    return bool(done)


def image_words(ref: SessionRef, images: Iterable[Blob]) -> list[str | bytes | int]:
    """Of each image its sha256, media type and bytes, as scripts take them."""
    prefix = keys_of(ref).blob
    return [
        word
        for blob in images
        for word in (blob.sha256, blob.media_type, Secret.at(f"{prefix}{blob.sha256}", blob.data))
    ]


LATE_DRAIN_MS = int(1.2e3 * DRAIN_WITHIN_S)
"""A drain that was begun before a session was forgotten is over by then."""

WAIT_MS = 2_000
"""How long replicas may take to catch up; then the job is tried again later."""

_LEFT: Final[dict[int, Left]] = {1: "more", 0: "done", -1: "lost", -2: "gone"}


class RedisOutgoing(RedisRuns):
    """The ``Outgoing`` port over a redis-py client that does not decode responses.

    What it reads is on so many ``replicas`` already, so that the archive is never ahead of what a
    promoted one has.
    """

    def __init__(
        self, client: Any, *, late_drain_ms: int = LATE_DRAIN_MS, replicas: int = 0
    ) -> None:
        super().__init__(client)
        self._replicas = replicas
        self._late_drain_ms = late_drain_ms

    def waiting(self, namespace: Namespace, *, most: int) -> list[SessionRef]:
        """Sessions with something to archive, the longest waiting first; up to ``most`` a shard."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                key = shard_keys(namespace, shard).unarchived
                pipe.zrange(key, 0, most - 1, withscores=True)
            replies = pipe.execute(raise_on_error=False)
        # A list that cannot be read is the sweep's to tell of; what is no name, to drop.
        lists = [reply for reply in replies if isinstance(reply, list)]
        found = sorted((entry for reply in lists for entry in reply), key=itemgetter(1))
        names = [session_named(member) for member, _ in found]
        return [SessionRef(namespace, name) for name in names if name]

    def next_drains(
        self, refs: Sequence[SessionRef], *, turns: int, size: int
    ) -> dict[SessionRef, Drain]:
        """The oldest entries of each that has any.

        Raises:
            StoreUnavailable: too few replicas have them by now.
        """
        until_s = time.monotonic() + DRAIN_WITHIN_S
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for ref in refs:
                keys = keys_of(ref)
                queue(pipe, "undrained", keys, session=ref.session, most=turns, size=size)
            if self._replicas:
                # On the same connection: it waits for all that was written before it was read.
                pipe.execute_command("WAIT", self._replicas, WAIT_MS)
            replies = pipe.execute()
        if self._replicas and (reached := replies.pop()) < self._replicas:
            raise StoreUnavailable(
                f"{reached} of {self._replicas} replicas have what is to be archived"
            )
        found = zip(refs, replies, strict=True)
        return {
            ref: replace(self._drain(ref, *reply), until_s=until_s)
            for ref, reply in found
            if reply is not None
        }

    def trim(self, drains: Mapping[SessionRef, Drain]) -> dict[SessionRef, Left]:
        """Trim what is archived now; says what is left of each."""
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            for ref, drain in drains.items():
                queue(
                    pipe,
                    "drained",
                    keys_of(ref),
                    sorted(drain.commits),
                    session=ref.session,
                    epoch=drain.epoch,
                    entries=drain.entries,
                    turns_through=drain.turns_through,
                    commits_through=drain.commits_through,
                )
                queue(pipe, "release_images", keys_of(ref), session=ref.session)
            replies = pipe.execute()[::2]
        left = {ref: _LEFT[reply] for ref, reply in zip(drains, replies, strict=True)}
        return {
            ref: "forgotten" if each == "lost" and self._was_forgotten(ref, drains[ref]) else each
            for ref, each in left.items()
        }

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""
        return list(blobs(self._redis, ref, hashes)) if hashes else []

    def forgotten(self, ref: SessionRef) -> list[int]:
        """When the session was forgotten, in µs, as long as the archive may have some of it."""
        with translated():
            members = self._redis.zrange(keys_of(ref).forgotten, 0, -1)
        parts = (member.partition(b":") for member in members)
        mine = ref.session.encode()
        return [int(at) for at, _, session in parts if session == mine and at.isdigit()]

    def incarnation(self, ref: SessionRef) -> str | None:
        """The epoch of the session that Redis has now; None for none."""
        with translated():
            epoch: bytes | None = self._redis.hget(keys_of(ref).meta, "epoch")
        return None if epoch is None else epoch.decode()

    def _was_forgotten(self, ref: SessionRef, drain: Drain) -> bool:
        """Whether somebody forgot this incarnation; its epoch is when it began, in µs."""
        return any(at_us >= int(drain.epoch) for at_us in self.forgotten(ref))

    def forgotten_done(self, ref: SessionRef, at_us: int, *, settled: bool) -> None:
        """The archive has none of it; unless ``settled``, look again after any late drains."""
        key = keys_of(ref).forgotten
        member = f"{at_us}:{ref.session}"
        at_ms = at_us // 1000
        with translated():
            if settled or redis_now_ms(self._redis) - at_ms > self._late_drain_ms:
                self._redis.zrem(key, member)
            else:
                self._redis.zadd(key, {member: at_ms + self._late_drain_ms + 1}, xx=True)

    def _drain(
        self, ref: SessionRef, epoch: bytes, turns: Sequence[Any], commits: Sequence[Any]
    ) -> Drain:
        steps = [*self._steps(ref, turns)]
        compactions = tuple(archived_compaction(entry) for entry in commits)
        match steps:
            case [*_, Batch() as last]:
                steps[-1] = replace(last, compactions=compactions)
            case _:
                steps.append(Batch(compactions=compactions))
        return Drain(
            epoch=epoch.decode(),
            steps=tuple(steps),
            entries=len(turns) + len(commits),
            turns_through=_last_id(turns),
            commits_through=_last_id(commits),
            commits=frozenset(
                value.decode()
                for entry in (*turns, *commits)
                for name, value in fields_of(entry).items()
                if name in (b"by", b"commit_id")
            ),
        )

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
    refuse_newer_body(fields.get(b"fields"), "stored turn")
    return ArchivedTurn(
        seq=Seq(int(fields[b"seq"])),
        messages=fields[b"messages"],
        turn_id=fields[b"turn_id"].decode("utf-8", "replace"),
        fields=fields[b"fields"],
        at_ms=int(fields[b"at"]),
        tokens=int(tokens) if tokens else None,
        state=state,  # type: ignore[arg-type]  # the scripts write no others
        blobs=tuple(fields.get(b"blobs", b"").decode().split()),
        chain=fields.get(b"chain", b"").decode(),
        by=fields.get(b"by", b"").decode(),
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
        by=fields.get(b"by", b"").decode(),
    )


def archived_compaction(entry: tuple[bytes, Any]) -> ArchivedCompaction:
    """A commit as the ``commits`` stream holds it."""
    fields = fields_of(entry)
    refuse_newer_body(fields[b"context"], "stored context")
    refuse_newer_body(fields[b"record"], "record of a compaction")
    return ArchivedCompaction(
        version=Version(int(fields[b"version"])),
        at_ms=int(entry[0].partition(b"-")[0]),
        record=fields[b"record"],
        context=fields[b"context"],
        detail=fields[b"detail"],
        commit_id=fields.get(b"commit_id", b"").decode(),
    )


def _last_id(entries: Sequence[Any]) -> str:
    return entries[-1][0].decode() if entries else ""
