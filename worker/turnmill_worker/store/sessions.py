"""Sessions in Redis, as the pipeline sees them: loads values, runs scripts, holds no logic."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from turnmill.contract.context import StoredContext, Usage
from turnmill.contract.errors import CorruptContext, InvalidPolicy
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.keys import commits_channel
from turnmill.contract.policy import Policy
from turnmill.contract.sealing import Secret
from turnmill.contract.stored_policy import stored_policy
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.tally import images, interactions
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.past import after_drain
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.ports.values import (
    Committed,
    CountedTurn,
    Counts,
    Failed,
    Recorded,
    SessionRef,
    Uncounted,
)
from turnmill_worker.reading.known import Known
from turnmill_worker.store.kept_beside import encoded
from turnmill_worker.store.leases import RedisLease
from turnmill_worker.store.listed_names import sessions_named
from turnmill_worker.store.outgoing import left_entry
from turnmill_worker.store.scripts import keys_of, run, translated
from turnmill_worker.store.session_replies import logged_again, snapshot_in, uncounted_in

__all__ = ["RedisSessions"]

KEEP_RECORDS = 100
"""Compaction records kept per session in Redis, roughly; the archive has all."""

FIRST_PAUSE_MS = 5_000
LONGEST_PAUSE_MS = 300_000
"""When a session whose job failed is due again: doubled with each failure in a row."""


class RedisSessions:
    """The ``Sessions`` port over a redis-py client that does not decode responses."""

    def __init__(
        self,
        client: Any,
        *,
        lease_s: float = 30.0,
        patience_s: float = 0.0,
        archive: Archive | None = None,
    ) -> None:
        self._redis = client
        self._run = partial(run, client)
        self._patience_s = patience_s
        self._archive = archive
        self._lease_ms = int(lease_s * 1000)

    def uncounted(self, ref: SessionRef, *, most: int) -> Uncounted | None:
        """The oldest uncounted turns, at most ``most``; None for an unknown session."""
        reply = self._run("uncounted", keys_of(ref), session=ref.session, most=most)
        return None if reply is None else uncounted_in(reply)

    def overdue(self, ref: SessionRef, *, most: int) -> list[SessionRef]:
        """Sessions of the same shard that wait to be counted, the longest first."""
        keys = keys_of(ref)
        members = self._run("overdue", keys, most=most)
        with translated():
            names = sessions_named(self._redis, keys.backlog, members)
        return [SessionRef(ref.namespace, name) for name in names]

    def record_counts(self, ref: SessionRef, seen: Uncounted, counts: Counts) -> Recorded:
        """Store exact counts; nothing when policy, prompt or incarnation changed meanwhile."""
        turns, look = counts.turns, counts.look
        counted, waiting, newly_due = self._run(
            "count",
            keys_of(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            session=ref.session,
            epoch=seen.epoch,
            revision=seen.revision,
            newest=str(seen.turns[-1].seq) if turns else "",
            newest_chain=seen.turns[-1].chain if turns else "",
            basis=counts.basis,
            system_tokens=counts.system_tokens,
            tools_tokens=counts.tools_tokens,
            open_calls=json.dumps(list(counts.open_calls)),
            bounds=sum(turn.bound for turn in seen.turns),
            images=sum(turn.images for turn in turns),
            interactions=sum(turn.interactions for turn in turns),
            messages=sum(turn.messages for turn in turns),
            is_due=int(counts.due),
            is_urgent=int(counts.urgent),
            handover_ms=int(counts.handover_s * 1000),
            look_tokens="" if look.tokens is None else look.tokens,
            look_bound=look.bound,
            bound_ratio=f"{look.ratio:.3f}",
            **counts.learned._asdict(),
        )
        return Recorded(stale=counted == -1, waiting=bool(waiting), newly_due=bool(newly_due))

    def recount(
        self,
        ref: SessionRef,
        seen: Uncounted,
        snapshot: Snapshot,
        *,
        basis: str,
        system_tokens: int,
        tools_tokens: int,
        context_tokens: int,
        turns: Sequence[CountedTurn],
    ) -> bool:
        """Replace all counts made under another basis; False when the session changed."""
        done = self._run(
            "recount",
            keys_of(ref),
            [number for turn in turns for number in (turn.seq, turn.tokens)],
            **_planned_from(snapshot) | {"epoch": seen.epoch, "revision": seen.revision},
            version=str(snapshot.version),
            counted_seq=str(snapshot.counted_seq),
            basis=basis,
            system_tokens=system_tokens,
            tools_tokens=tools_tokens,
            context_tokens=context_tokens,
        )
        return bool(done)

    def snapshot(self, ref: SessionRef) -> Snapshot | None:
        """An immutable view of the session; None for an unknown one."""
        reply = self._run("snapshot", keys_of(ref))
        return None if reply is None else snapshot_in(ref, reply)

    def covered(
        self, ref: SessionRef, epoch: str, *, first_seq: int, last_seq: int
    ) -> tuple[LoggedTurn, ...]:
        """Turns that left the log, from Redis and the archive, by seq."""
        if last_seq < first_seq:
            return ()
        # Redis first: what a drain moves meanwhile is in the archive by then.
        with translated():
            left = [left_entry(entry) for entry in self._redis.xrange(keys_of(ref).covered)]
        stored: Sequence[ArchivedTurn] = ()
        if self._archive is not None:
            stored = self._archive.turns(ref, epoch=epoch, first_seq=first_seq, last_seq=last_seq)
        found = after_drain(stored, left)
        wanted = [found[seq] for seq in sorted(found) if first_seq <= seq <= last_seq]
        return logged_again([turn for turn in wanted if turn.state == "kept"])

    def lease(self, ref: SessionRef, *, forced: bool = False) -> RedisLease:
        """The right to compact the session, as a context manager; None inside when refused."""
        return RedisLease(
            self._run,
            keys_of(ref),
            ref.session,
            lease_ms=self._lease_ms,
            forced=forced,
            # A caller that asked for the compaction would only ask again.
            patience_s=self._patience_s if forced else 0.0,
        )

    def commit(
        self,
        ref: SessionRef,
        snapshot: Snapshot,
        context: StoredContext,
        *,
        known: Known,
        owner: str,
        record: Compaction,
        detail: bytes = b"",
    ) -> Committed:
        """Write the context if nobody else committed since the snapshot it was planned from."""
        elided = {elision.seq for elision in context.elisions}
        covered = [turn for turn in snapshot.turns if turn.seq <= context.watermark]
        kept = [turn for turn in snapshot.turns if turn.seq > context.watermark]
        version, again = self._run(
            "commit",
            keys_of(ref),
            [n for turn in snapshot.turns if turn.seq in elided for n in (turn.seq, turn.tokens)],
            session=ref.session,
            **_planned_from(snapshot),
            expected_version=str(snapshot.version),
            commit_id=uuid.uuid4().hex,
            owner=owner,
            body=Secret(context.encode()),
            known=Secret(encoded(known)),
            watermark=context.watermark,
            context_tokens=context.tokens,
            images=snapshot.before.tally.images - sum(images(turn.shown) for turn in kept),
            images_covered=sum(images(turn.original) for turn in covered),
            interactions=sum(interactions(turn.original) for turn in covered),
            messages=sum(len(turn.original) for turn in covered),
            hard=snapshot.limits.hard - Usage.REPLY,
            soft_ratio=repr(snapshot.policy.soft_ratio),
            keep_records=KEEP_RECORDS,
            summarized=int(bool(record.model)),
            record=record.encode(),
            detail=Secret(detail),
            quality="" if record.quality is None else repr(record.quality),
            channel=commits_channel(ref.namespace),
        )
        return Committed(version=version, again=bool(again))

    def defer(self, ref: SessionRef, *, after_s: float) -> None:
        """Let the sweep look at a session in the backlog later."""
        self._run("defer", keys_of(ref), session=ref.session, after_ms=int(after_s * 1000))

    def failed(self, ref: SessionRef, error: str) -> Failed:
        """Count a compaction that failed; due again later, or parked after too many in a row."""
        policy = Policy()
        with suppress(InvalidPolicy, CorruptContext):  # that may be why it failed
            with translated():
                body = self._redis.hget(keys_of(ref).meta, "policy")
            policy = stored_policy(body or b"{}")
        times, parked = self._run(
            "failed",
            keys_of(ref),
            session=ref.session,
            error=error,
            park_after=policy.park_after,
            first_ms=FIRST_PAUSE_MS,
            longest_ms=LONGEST_PAUSE_MS,
        )
        return Failed(times, bool(parked))


def _planned_from(snapshot: Snapshot) -> dict[str, str]:
    """What must be as it was, for what is planned from the snapshot to be written."""
    newest, chain = snapshot.newest
    return {
        "epoch": snapshot.epoch,
        "revision": snapshot.revision,
        "expected_commit": snapshot.commit_id,
        "newest": newest,
        "newest_chain": chain,
    }
