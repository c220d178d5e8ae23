"""Earlier states of a session in Redis, and the way back to one."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.context import StoredContext
from turnmill.contract.estimate import bound_turn
from turnmill.contract.keys import commits_channel
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.sealing import Secret, check_plain
from turnmill_worker.compaction.snapshot import images_asked
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Begun,
    Blob,
    Cleansed,
    CountedTurn,
    EarlierState,
    Fork,
    Restored,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.store.outgoing import (
    archived_compaction,
    archived_turn,
    blobs,
    fields_of,
    hold,
    image_words,
    left_entry,
    release,
)
from turnmill_worker.store.scripts import keys_of, run, translated
from turnmill_worker.store.sessions import context_words, decoded_known, encoded_known


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

    def images(self, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
        """The images with these sha256 that Redis has."""
        return blobs(self._redis, ref, hashes) if hashes else []

    def note_fork(self, ref: SessionRef, fork: Fork) -> None:
        """Keep that a session has turns of this one, where no archive does."""
        with translated():
            self._redis.hset(keys_of(ref).meta, f"fork:{fork.epoch}:{fork.session}", fork.until_ms)

    def drop_fork(self, ref: SessionRef, fork: Fork) -> None:
        """Drop the note: it never began."""
        with translated():
            self._redis.hdel(keys_of(ref).meta, f"fork:{fork.epoch}:{fork.session}")

    def forks(self, ref: SessionRef) -> list[Fork]:
        """The sessions noted so."""
        with translated():
            fields = self._redis.hgetall(keys_of(ref).meta)
        found = []
        for name, value in fields.items():
            kind, _, rest = name.decode("utf-8", "replace").partition(":")
            if kind == "fork":
                epoch, _, session = rest.partition(":")
                found.append(Fork(SessionId(session), epoch, int(value)))
        return found

    def fork(self, past: SessionInRedis, begun: Begun) -> bool:
        """Begin the session; False when there is one, or the parent is not what it was."""
        keys, state, is_child = keys_of(begun.parent), begun.state, begun.known is not None
        names = _POLICY if is_child else _SETTINGS
        with translated(), self._redis.pipeline() as pipe:
            pipe.hmget(keys.meta, "epoch", "commit_id", *names)
            pipe.get(keys.facts)
            pipe.xrange(keys.checkpoints)
            pipe.xrange(keys.named)
            pipe.zrangebyscore(keys.ids, 1, f"({state.seq + 1}", withscores=True)
            (epoch, commit_id, *settings), facts, *streams, scores = pipe.execute()
        if (epoch or b"").decode() != past.epoch or (commit_id or b"").decode() != past.commit_id:
            return False
        told = _common(begun.parent, past, state)
        fields = {k: v for k, v in zip(names, settings, strict=True) if v is not None}
        fields |= _numbers(begun, told)
        automatic, named = (_remembered(each, -1 if is_child else state.seq) for each in streams)
        last = [*image_words(begun.ref, begun.images), *_id_words(begun.ids, dict(scores))]
        watermark = state.stored.watermark  # positions after it are of other turns here
        known = encoded_known(begun.known or decoded_known(facts, watermark))
        done = run(
            self._redis,
            "fork",
            keys_of(begun.ref),
            [*_meta_words(fields), *_past_words(begun), *automatic, *named, *last],
            session=begun.ref.session,
            until_ms=begun.until_ms,
            ttl_ms=past.policy.ttl_s * 1000,
            version=int(state.stored.version),
            known=Secret(_known(known, watermark, remade=watermark < past.watermark)),
            fields=len(fields),
            turns=len(state.turns),
            covered_turns=len(begun.turns),
            made=len(begun.commits),
            automatic=len(automatic) // 6,
            named_ones=len(named) // 6,
            pictures=len(begun.images),
            **{name: told[name] for name in ("commit_id", "body", "record", "channel", "is_due")},
        )
        return bool(done)

    def erase(self, ref: SessionRef, past: SessionInRedis, left: Cleansed) -> int:
        """Write it, if nothing was committed meanwhile; the new version or 0."""
        state = left.state
        with translated():
            facts = self._redis.get(keys_of(ref).facts)
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
            known=Secret(_known(facts, state.stored.watermark, remade=left.remade)),
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


def _known(body: bytes | None, watermark: int, *, remade: bool) -> bytes:
    """What was known at the watermark; only a commit changes it."""
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
        **context_words(state.stored),
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


_POLICY: Final = ("policy", "policy_name", "hard", "ttl_ms", "checkpoint_every", "keep_checkpoints")
"""What a child has of its parent's meta."""

_SETTINGS: Final = (
    *_POLICY,
    *("system", "system_tokens", "tools", "tools_tokens", "tools_bound", "tools_bytes"),
    *("settings", "settings_id", "dialect", "ratios", "checkpoints"),
)
"""What a fork has of its parent's meta."""


Words = list[str | bytes | int]


def _meta_words(fields: Mapping[str, Any]) -> Words:
    secret = ("system", "tools")
    return [w for k, v in fields.items() for w in (k, Secret(v) if k in secret else v)]


def _past_words(begun: Begun) -> Words:
    """Turns and commits."""
    covered = [word for turn in begun.turns for word in _covered(turn)]
    made = [word for each in _dated(begun.commits) for word in each]
    return [*_turn_words(begun.state), *covered, *made]


def _id_words(ids: Sequence[tuple[str, int]], scores: Mapping[bytes, float]) -> Iterator[str]:
    """The ids with what their turns' scores say of their contents, where they have scores."""
    for turn_id, seq in ids:
        score = scores.get(turn_id.encode(), seq)
        yield from (repr(score if int(score) == seq else seq), turn_id)


def _numbers(begun: Begun, told: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of meta that the past gives."""
    seq = begun.state.seq
    same = ("context_tokens", "tail_tokens", "open_calls", "basis", "images", "images_before")
    return {
        "epoch": begun.epoch,
        "last_seq": seq,
        "counted_seq": seq,
        "history_tokens": begun.history_tokens,
        **({"parent": begun.parent.session} if begun.known is not None else {}),
        "chain": hashlib.sha1(
            f"{begun.chain} {told['commit_id']}".encode(), usedforsecurity=False
        ).hexdigest(),
        **{name: told[name] for name in (*same, "watermark", "interactions", "messages", "shown")},
    }


def _covered(turn: ArchivedTurn) -> Sequence[str | bytes | int]:
    tokens = "" if turn.tokens is None else turn.tokens
    seq, _, *rest = _words(turn, CountedTurn(turn.seq, 0))
    return seq, tokens, *rest, turn.state


def _dated(commits: Iterable[ArchivedCompaction]) -> Iterator[Sequence[str | bytes | int]]:
    """Commits as their stream has them; ids must grow, whatever a clock did."""
    at_ms = 0
    for each in commits:
        at_ms = max(at_ms + 1, each.at_ms)
        secret = (Secret(each.context), Secret(each.detail))
        yield f"{at_ms}-0", each.version, each.record, *secret, each.commit_id


def _remembered(entries: Sequence[Any], seq: int) -> list[str | bytes | int]:
    """Checkpoints up to a turn, as their stream has them."""
    words: list[str | bytes | int] = []
    for entry in entries:
        found = fields_of(entry)
        if int(found[b"seq"]) <= seq:
            words += [entry[0], *(found[name] for name in (b"id", b"seq", b"version"))]
            words += [Secret(found[b"message"]), Secret(found[b"context"])]
    return words


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
