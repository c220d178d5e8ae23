"""What is stored in the end: all places where a turn can be, and all that should be gone by now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis
from sqlalchemy import create_engine, inspect, text

from turnmill.connection.transport import redis_now_ms
from turnmill.contract.context import JsonMessage
from turnmill.contract.images import blobs_of, join_images
from turnmill.contract.keys import UNCOMPARED, in_all_shards, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.push.push_calls import PUT_MS

__all__ = [
    "Collected",
    "FinalState",
    "Place",
    "SessionState",
    "left_behind",
    "positions",
    "read_archive",
]


_LOOKS = 100
"""At a session that does not rest, as its workers are late."""


@dataclass(frozen=True, slots=True)
class Place:
    """A stored turn: where it is, and as what."""

    where: str
    seq: int
    turn: str
    messages: tuple[JsonMessage, ...]
    state: str = "kept"
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class SessionState:
    """What is stored of a session; ``watermark`` and ``last_seq`` as Redis has them."""

    places: tuple[Place, ...]
    watermark: int
    last_seq: int
    epoch: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class FinalState:
    """All sessions, and what was left behind once they had settled, by what it is."""

    sessions: Mapping[str, SessionState]
    left: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Collected(Mapping[str, SessionState]):
    """These sessions of a namespace, each read when it is asked for: all would be too much."""

    url: str
    namespace: str
    names: Sequence[str]
    archive_url: str

    def __getitem__(self, name: str) -> SessionState:
        namespace = Namespace(self.namespace)
        with redis.Redis.from_url(self.url) as client:
            for _ in range(_LOOKS):
                before = _session(client, namespace, name)
                archived = read_archive(self.archive_url, self.namespace, name)
                state = _session(client, namespace, name)
                if state == before:  # else a turn on its way to the archive would be in neither
                    break
        return replace(state, places=(*state.places, *archived))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _session(client: Any, namespace: Namespace, name: str) -> SessionState:
    keys = session_keys(namespace, SessionId(name))
    with client.pipeline(transaction=True) as pipe:
        pipe.xrange(keys.log)
        pipe.xrange(keys.covered)
        pipe.hmget(keys.meta, "watermark", "last_seq", "epoch", "version")
        log, covered, (watermark, last_seq, epoch, version) = pipe.execute()
    places = [_place("log", int(entry.partition(b"-")[0]), fields) for entry, fields in log]
    places += [
        _place("covered", int(fields[b"seq"]), fields) for _, fields in covered if b"seq" in fields
    ]
    places = _with_images(places, lambda sha256: client.get(f"{keys.blob}{sha256}"))
    return SessionState(
        places=tuple(places),
        watermark=int(watermark or 0),
        last_seq=int(last_seq or 0),
        epoch=(epoch or b"").decode(),
        version=int(version or 0),
    )


def _place(where: str, seq: int, fields: Mapping[bytes, bytes]) -> Place:
    state = fields.get(b"state", b"kept").decode()
    messages = tuple(json.loads(fields[b"messages"]))
    return Place(where, seq, fields[b"turn_id"].decode(), messages, state)


def _with_images(places: list[Place], image: Callable[[str], bytes | None]) -> list[Place]:
    """The same, with images where their turns refer to them; where one is gone, words say so."""
    found = []
    for place in places:
        images = {sha256: image(sha256) for sha256 in blobs_of(place.messages)}
        shown = tuple(join_images(place.messages, images)) if images else place.messages
        found.append(replace(place, messages=shown))
    return found


def read_archive(url: str, namespace: str, session: str) -> list[Place]:
    """The session's archived turns, as any SQL client sees them."""
    if not url:
        return []
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    wanted = text(
        "SELECT seq, turn_id, messages, state, epoch FROM turns"
        " WHERE namespace = :namespace AND session = :session ORDER BY epoch, seq"
    )
    shown = text(
        "SELECT sha256, data FROM blobs JOIN blob_refs USING (namespace, sha256)"
        " WHERE namespace = :namespace AND session = :session"
    )
    try:
        with engine.connect() as connection:
            has_table = inspect(connection).has_table("turns")  # nothing was archived before
            if not has_table:
                return []
            mine = {"namespace": namespace, "session": session}
            images = {row.sha256: bytes(row.data) for row in connection.execute(shown, mine)}
            return _with_images([*map(_archived, connection.execute(wanted, mine))], images.get)
    finally:
        engine.dispose()


def _archived(row: Any) -> Place:
    turn, messages = bytes(row.turn_id).decode(), tuple(json.loads(bytes(row.messages)))
    return Place("archive", row.seq, turn, messages, row.state, str(row.epoch))


def positions(client: Any, namespace: str, names: Iterable[str]) -> list[Any]:
    """How far workers have come with these sessions."""
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            keys = session_keys(Namespace(namespace), SessionId(name))
            pipe.hmget(keys.meta, "version", "counted_seq", "watermark")
            pipe.xlen(keys.covered)
            pipe.xlen(keys.commits)
        found: list[Any] = pipe.execute()
    return found


_LISTS = ("backlog", "due", "unarchived", "forgotten")
_OWN = ("lease", "batch")
_ASKED = (":ask:", ":answer:")


def left_behind(client: Any, namespace: str) -> dict[str, int]:
    """What should be gone by now: work that waits, leases, questions, images nobody holds.

    And an archive that was not compared with Redis as it runs now.

    Work that is put off does not wait: turns that make nothing due, and a session whose model
    failed, have a time to come.
    """
    now_ms = redis_now_ms(client)
    with client.pipeline(transaction=False) as pipe:
        for name in _LISTS:
            for key in in_all_shards(Namespace(namespace), name):
                pipe.zrange(key, 0, -1, withscores=True)
        replies = pipe.execute()
    shards = len(replies) // len(_LISTS)
    found = dict.fromkeys(_LISTS, 0)
    for at, reply in enumerate(replies):
        name = _LISTS[at // shards]
        found[name] += sum(
            not _is_put_off(client, Namespace(namespace), name, member, score - now_ms)
            for member, score in reply
        )
    names = [key.decode() for key in client.scan_iter(f"turnmill:{{{namespace}/*", count=1000)]
    found |= {kind: sum(name.endswith(f":{kind}") for name in names) for kind in _OWN}
    asked = [name for name in names if any(kind in name for kind in _ASKED)]
    found["question"] = sum(client.ttl(name) == -1 for name in asked)  # none may stay for ever
    found["blob"] = sum(_is_orphan(client, name) for name in names if _is_blob(name))
    noted, to_compare = client.hmget(UNCOMPARED, "", namespace)
    run = client.info("server")["run_id"].encode()
    found["comparison"] = int(bool(to_compare) or noted != run)
    return {name: count for name, count in found.items() if count}


def _is_put_off(client: Any, namespace: Namespace, name: str, member: bytes, in_ms: float) -> bool:
    """Whether it waits for a time to come, and not for a worker."""
    if in_ms <= 0 or name not in ("backlog", "due"):
        return False
    meta = session_keys(namespace, SessionId(member.decode())).meta
    return name == "backlog" or client.hget(meta, "waits") == b"model"


def _is_blob(name: str) -> bool:
    return ":blob:" in name and not name.endswith(":held")


def _is_orphan(client: Any, name: str) -> bool:
    """Whether no session that exists says that it holds the image, and it stays for long."""
    if 0 < client.pttl(name) <= PUT_MS:
        return False  # its agent died before the push: it expires by itself
    tag = name.partition("}")[0] + "}"
    holders = [field.decode() for field in client.hkeys(f"{name}:held") if field.startswith(b"s:")]
    return not any(client.exists(f"{tag}:{holder}:meta") for holder in holders)
