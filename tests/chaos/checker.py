"""What is stored in the end: all places where a turn can be, and all that should be gone by now."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import redis
from sqlalchemy import create_engine, inspect, text

from tests.chaos.agents import Call, History, message_of
from turnmill import Policy
from turnmill.connection.transport import redis_now_ms
from turnmill.contract.context import JsonMessage
from turnmill.contract.images import blobs_of, join_images
from turnmill.contract.keys import UNCOMPARED, in_all_shards, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.push.push_calls import PUT_MS
from turnmill_cli.promises import (
    CheckedRead,
    CountMessage,
    TokenCache,
    Transcript,
    check_context,
    fingerprint,
)
from turnmill_worker.tokens import count_message, counter_for

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


class Violation(NamedTuple):
    """A broken promise: which, in which session, and in which turns and numbers."""

    kind: str
    session: str
    detail: str


class Loss(NamedTuple):
    """Redis went back: what was acknowledged in this time may be gone.

    ``to_s`` is when the server that had it ended, and before the next one took calls.
    """

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Expected:
    """What the sessions were opened with, and what the faults may have cost."""

    hard_limit: int
    system_prompt: str = ""
    losses: Sequence[Loss] = ()

    def may_lose(self, call: Call) -> bool:
        """Whether what this call was told may be lost."""
        ended_s = call.ended_s or call.began_s
        return any(call.began_s <= lost.to_s and lost.from_s <= ended_s for lost in self.losses)

    def era(self, call: Call) -> int | None:
        """How often Redis had gone back when it was called; None when it did so meanwhile."""
        began, ended = (self._era(at_s) for at_s in (call.began_s, call.ended_s or call.began_s))
        return began if began == ended else None

    def _era(self, at_s: float) -> int:
        return sum(loss.to_s < at_s for loss in self.losses)


def check(
    history: History, final: FinalState, expected: Expected, count: CountMessage
) -> list[Violation]:
    """Every promise that was broken."""
    found = [
        Violation("left behind", "", f"{count} of {name}") for name, count in final.left.items()
    ]
    cache = TokenCache(count)
    for name, state in final.sessions.items():
        pushes = list(history.of(name, "push"))
        told = [*_check_turns(pushes, state, expected), *_check_order(pushes, state, expected)]
        told += _check_reads(name, history, state, expected, cache)
        found += [Violation(kind, name, detail) for kind, detail in told]
    return found


def _kept(state: SessionState, expected: Expected) -> list[Place]:
    """The turns of the session as it is now: what was set aside, or lost, is told apart from it.

    Where Redis lost a commit and not the turns it covered, these are in the log again, and stay
    archived: each is one turn.
    """
    now = ("", state.epoch)
    kept = [each for each in state.places if each.state == "kept" and each.epoch in now]
    if not expected.losses:
        return kept
    logged = {each.seq: each for each in kept if each.where == "log"}
    return [
        each
        for each in kept
        if each.where != "archive" or replace(each, where="log", epoch="") != logged.get(each.seq)
    ]


def _check_turns(
    pushes: Sequence[Call], state: SessionState, expected: Expected
) -> Iterator[tuple[str, str]]:
    """Conservation."""
    kept = _kept(state, expected)
    times = Counter(place.turn for place in kept)
    seqs = Counter(place.seq for place in kept)
    begun = {turn for call in pushes for turn in call.turns}
    acked = _acknowledged(pushes)
    for turn, (seq, call) in acked.items():
        if turn not in times and not expected.may_lose(call):
            yield "lost", f"{turn}, acknowledged as seq {seq}"
    for place in kept:
        if place.turn not in begun:
            yield "invented", f"seq {place.seq} in the {place.where}"
        elif fingerprint(list(place.messages)) != fingerprint([message_of(place.turn)]):
            yield "altered", f"seq {place.seq} in the {place.where}"
        seq, told = acked.get(place.turn, (place.seq, None))
        if seq != place.seq and told and not expected.may_lose(told):
            yield "moved", f"{place.turn} is seq {place.seq}, acknowledged as {seq}"
        if (place.where == "log") != (place.seq > state.watermark):
            yield "misplaced", f"seq {place.seq} in the {place.where}: watermark {state.watermark}"
    yield from (("doubled", f"{turn}: {n} times") for turn, n in times.items() if n > 1)
    yield from (("doubled", f"seq {seq}: {n} turns") for seq, n in seqs.items() if n > 1)
    missing = set(range(1, state.last_seq + 1)) - set(seqs)
    yield from (("gap", f"seq {seq} of {state.last_seq}") for seq in sorted(missing))


def _acknowledged(pushes: Sequence[Call]) -> dict[str, tuple[int, Call]]:
    """Each acknowledged turn's seq, and the last call that was told so."""
    return {
        turn: (seq, call)
        for call in pushes
        if call.acknowledged
        for turn, seq in zip(call.turns, call.seqs, strict=True)
    }


def _check_order(
    pushes: Sequence[Call], state: SessionState, expected: Expected
) -> Iterator[tuple[str, str]]:
    """What was acknowledged before another turn's first push began comes before it."""
    where = {place.turn: place.seq for place in _kept(state, expected)}
    begun: dict[str, float] = {}
    for call in pushes:
        for turn in call.turns:
            begun.setdefault(turn, call.began_s)
    done = sorted(
        (call.ended_s or 0.0, where[turn])
        for turn, (_, call) in _acknowledged(pushes).items()
        if turn in where and not expected.may_lose(call)
    )
    highest, at = 0, 0
    for turn, began_s in sorted(begun.items(), key=lambda entry: entry[1]):
        while at < len(done) and done[at][0] < began_s:
            highest, at = max(highest, done[at][1]), at + 1
        if where.get(turn, highest + 1) <= highest:
            yield "out of order", f"{turn} is seq {where[turn]}, after {highest} was acknowledged"


def _check_reads(
    name: str, history: History, state: SessionState, expected: Expected, count: TokenCache
) -> Iterator[tuple[str, str]]:
    """Every read is legal, within its limit, complete, and never behind what was seen before."""
    last_era = len(expected.losses)
    now = {place.seq: place.turn for place in _kept(state, expected)}
    previous: dict[str, tuple[int | None, CheckedRead]] = {}
    for call in sorted(history.of(name, "read"), key=lambda call: call.ended_s or 0):
        if call.read is None or call.ended_s is None:
            continue
        era = expected.era(call)
        before_era, before = previous.get(call.agent, (era, None))
        context = call.read.context(name, history.messages)
        checked = check_context(
            context,
            _transcript(context.watermark, context.last_seq, now, context.system_prompt),
            hard_limit=expected.hard_limit,
            count=count,
            previous=before if before_era == era is not None else None,
        )
        yield from (
            (f"read {fault.kind}", f"{call.agent} at {call.ended_s:.3f}: {fault.detail}")
            for fault in checked.faults
            if era == last_era or fault.kind != "incomplete"
        )
        previous[call.agent] = (era, checked)
    yield from _check_freshness(name, history, expected)


_NOWHERE = {"role": "user", "content": "a turn that is stored nowhere"}


def _transcript(
    watermark: int, last_seq: int, seqs: Mapping[int, str], system_prompt: str
) -> Transcript:
    """What a read should show: the turns behind its watermark."""
    made = Transcript(system_prompt=system_prompt)
    for seq in range(min(watermark + 1, last_seq), last_seq + 1):
        made.add(seq, message_of(seqs[seq]) if seq in seqs else _NOWHERE)
    return made


def _check_freshness(name: str, history: History, expected: Expected) -> Iterator[tuple[str, str]]:
    """A read shows what was acknowledged, or read by anybody, before it began."""
    events: list[tuple[float, bool, Call]] = []
    for call in (*history.of(name, "push"), *history.of(name, "read")):
        if call.acknowledged and call.ended_s is not None and expected.era(call) is not None:
            events += [(call.began_s, False, call), (call.ended_s, True, call)]
    floors: dict[int, tuple[int, ...]] = {}
    era: int | None = 0
    highest = (0, 0, 0)
    for at_s, is_end, call in sorted(events, key=lambda event: event[:2]):
        if expected.era(call) != era:
            era, highest = expected.era(call), (0, 0, 0)
        if not is_end:
            floors[id(call)] = highest
            continue
        seen = (max(call.seqs, default=0), 0, 0)
        if call.read is not None:
            seen = (call.read.last_seq, call.read.version, call.read.watermark)
            floor = floors[id(call)]
            if any(new < old for new, old in zip(seen, floor, strict=True)):
                yield "went backwards", f"{call.agent} at {at_s:.3f}: {seen} after {floor}"
        highest = (max(highest[0], seen[0]), max(highest[1], seen[1]), max(highest[2], seen[2]))


POLICIES: Mapping[str, Policy] = {
    "chat": Policy(
        max_tokens=1_400,
        strategies=("rolling", "window"),
        summarizer="openai",
        model="gpt-4o-mini",
        model_timeout_s=2.0,
        quality_threshold=0.0,
    ),
    "tools": Policy(max_tokens=1_400, quality_threshold=0.0),
    "images": Policy(max_tokens=4_000, max_history_images=2, quality_threshold=0.0),
    "small": Policy(max_tokens=600, strategies=("window",), quality_threshold=0.0),
}
"""By style of turn."""

SYSTEM_PROMPT = "You bring parcels to people, and say where they are."


@dataclass(frozen=True, slots=True)
class Report:
    """What a run showed."""

    violations: Sequence[Violation]
    pushes: int
    reads: int
    commits: int
    seconds: float
    settled_s: float

    def __str__(self) -> str:
        rate = 60 * self.pushes / max(self.seconds, 1e-3)
        lines = [
            (
                f"{self.pushes} acknowledged pushes ({rate:,.0f} a minute), {self.reads} reads, "
                f"{self.commits} commits in {self.seconds:.0f} s; settled in {self.settled_s:.1f} s"
            ),
            *(
                f"VIOLATION {kind}: {session} {detail}"
                for kind, session, detail in self.violations[:50]
            ),
            f"{len(self.violations)} violations",
        ]
        return "\n".join(lines)


def reported(
    history: History,
    final: FinalState,
    styles: Mapping[str, str],
    losses: Sequence[Loss],
    *,
    seconds: float,
    settled_s: float,
) -> Report:
    """Check the sessions of each style under its policy."""
    counter = counter_for("o200k_base")

    def count(message: JsonMessage) -> int:
        return count_message(counter, message)

    violations = check(history, FinalState({}, final.left), Expected(0), count)
    commits = 0
    for name, state in final.sessions.items():
        expected = Expected(POLICIES[styles[name]].hard_limit, SYSTEM_PROMPT, losses)
        violations += check(history, FinalState({name: state}, {}), expected, count)
        commits += state.version
    return Report(
        violations=violations,
        pushes=sum(len(call.seqs) for call in history.calls),
        reads=sum(call.read is not None for call in history.calls),
        commits=commits,
        seconds=seconds,
        settled_s=settled_s,
    )
