"""The session protocol under any order of events, against a model of a few lines.

Agents push, open, read, checkpoint, roll back, clear and forget; jobs run the real stages over the
real scripts and a real archive, stopped before any step, several at once, doubled, late or killed;
hints and scripts get lost, the archive goes down. The promises are looked up always.

``TURNMILL_PROTOCOL_EXAMPLES`` raises the number of runs: 15 by default, thousands before a release.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.image_parts import data_url, image, png
from tests.properties.models import AnyBatches, AnySummarizer, WatchedNotes
from tests.properties.stepping import Outside, SentHints, SteppedJob
from tests.properties.strategies import SYSTEM_PROMPTS, GivenTurn, policies, turns
from tests.read_twice import ReadsTwice
from turnmill import Policy, SilentWaker, SystemPromptTooLarge, TurnConflict, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract import jobs
from turnmill.contract.context import JsonMessage, Pushed, StoredContext
from turnmill.contract.errors import ArchiveUnavailable, NoCheckpoint
from turnmill.contract.images import join_images, take_images
from turnmill.contract.keys import (
    NAMESPACES,
    UNCOMPARED,
    policies_key,
    registry_keys,
    session_keys,
    shard_keys,
    shard_of,
)
from turnmill.contract.legality import CallTracker, repair, violations
from turnmill.contract.log_entry import TailTurn
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.render import render, render_head
from turnmill.contract.trajectory import TurnState
from turnmill.contract.turns import encode_turn, to_turn
from turnmill_worker.archive.store import SqlArchive
from turnmill_worker.background.sweep import ARCHIVE_EVERY, Sweeper
from turnmill_worker.compaction.snapshot import Snapshot, images, interactions
from turnmill_worker.ports.values import (
    Counts,
    RecordedCounts,
    Removed,
    Restored,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.requests.export import Exporting
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.leases import RedisLease
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisWaiting
from turnmill_worker.store.sweep_lists import RedisSweepLists
from turnmill_worker.tokens import count_request, counter_for

EXAMPLES = int(os.environ.get("TURNMILL_PROTOCOL_EXAMPLES", "15"))
STEPS, ROUNDS = 40, 60
"""The rounds: sweeps after which a session left alone must have come to rest."""

NAMES = ("alpha", "beta")
NAMESPACE = Namespace("machine")
LEASE_S = 3600.0  # no lease runs out by itself; `expire_lease` lets one run out

names = st.sampled_from(["alpha", "alpha", "alpha", "beta"])
labels = st.sampled_from(["", "mark", "before it went wrong"])
policy_names = st.sampled_from(["default", "short"])

IMAGES = [png(seed, size=900) for seed in range(3)]
BYTES = {hashlib.sha256(data).hexdigest(): data for data in IMAGES}


def _any_policy(policy: Policy, asked: dict[str, Any]) -> Policy:
    ladder = policy.strategies
    wanted = [name for name in asked.pop("strategies") if name not in ladder]
    return Policy(**{**policy.model_dump(), **asked, "strategies": (*wanted, *ladder)})


asked_for: list[dict[str, Any]] = [
    {"strategies": ()},
    {"strategies": ()},
    {"strategies": ("images",), "max_history_images": 1},
    {"strategies": ("images",), "max_history_images": 0, "keep_first_image": False},
    {"strategies": ("window",), "max_interactions": 2},
    {"strategies": ("managed",), "recent_runs": 3, "passthrough_runs": 1},
]
any_policy = st.builds(
    lambda policy, asked, encoding, threshold, interval, keep, who, attempts, park, idle: (
        _any_policy(
            policy,
            {
                **asked,
                "encoding": encoding,
                "quality_threshold": threshold,
                "checkpoint_interval": interval,
                "keep_checkpoints": keep,
                **dict(zip(("summarizer", "batch"), who, strict=True)),
                "model_attempts": attempts,
                "park_after": park,
                "compact_when_idle_s": idle,
            },
        )
    ),
    policies((512, 1024)),
    st.sampled_from(asked_for),
    st.sampled_from(["o200k_base", "o200k_base", "cl100k_base"]),
    st.sampled_from([0.0, 0.0, 0.6]),
    st.sampled_from([0, 2, 3]),
    st.sampled_from([0, 2, 5]),
    st.sampled_from([("extractive", False), ("openai", False), ("openai", True)]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([0.0, 0.0, 0.001]),
)


def _showing(at: int, role: str) -> GivenTurn:
    parts = [{"type": "text", "text": "Look:"}, image(data_url(IMAGES[at]))]
    return GivenTurn(({"role": role, "content": parts},))


any_turn = st.one_of(
    turns(12),
    turns(12),
    turns(12),
    st.builds(_showing, st.integers(0, len(IMAGES) - 1), st.just("user")),
)


def _stored(turn: GivenTurn) -> list[JsonMessage]:
    """The turn's messages as Redis holds them: references for images."""
    stored, _ = take_images(to_turn(turn.as_pushed()), "")
    found: list[JsonMessage] = json.loads(encode_turn(stored)[0])
    return found


def _essence(stored: StoredContext) -> dict[str, Any]:
    return stored.model_dump(exclude={"version", "tokens", "strategy"})


@dataclass
class Saved:
    """A checkpoint as it was made."""

    id: str
    seq: int
    stored: StoredContext
    messages: list[JsonMessage] | None = None
    system: str = ""


@dataclass
class Session:
    """What must be true of one incarnation of a name."""

    policy: Policy = field(default_factory=Policy)
    has_policy: bool = False
    follows: str = ""
    system: str = ""
    turns: list[tuple[str, GivenTurn]] = field(default_factory=list)
    states: list[TurnState] = field(default_factory=list)
    automatic: list[Saved] = field(default_factory=list)
    named: list[Saved] = field(default_factory=list)
    ever_saved: list[Saved] = field(default_factory=list)
    history_tokens: int = 0
    version: int = 0
    last_read: tuple[object, list[JsonMessage]] | None = None

    @property
    def seq_of(self) -> dict[str, int]:
        return {turn_id: seq for seq, (turn_id, _) in enumerate(self.turns, 1)}

    def kept(self, after: int = 0) -> list[int]:
        """Seqs of the conversation's turns after this one."""
        return [seq for seq, state in enumerate(self.states, 1) if state == "kept" and seq > after]

    def add(self, turn_id: str, turn: GivenTurn) -> int:
        self.turns.append((turn_id, turn))
        self.states.append("kept")
        return len(self.turns)

    def set_aside(self, state: TurnState, after: int = 0) -> int:
        """Mark the kept turns after this one; returns how many."""
        gone = self.kept(after)
        for seq in gone:
            self.states[seq - 1] = state
        return len(gone)


class AnyArchive:
    """The archive, when its database is up."""

    def __init__(self, archive: SqlArchive) -> None:
        self._archive = archive
        self.is_up = True

    def __getattr__(self, name: str) -> Any:
        if not self.is_up:
            raise ArchiveUnavailable("archive: down")
        return getattr(self._archive, name)


class WatchedSessions(RedisSessions):
    """Sessions that tell the model how many tokens were counted, and when there was no plan."""

    counted: Callable[[SessionRef, int], None]
    given_up: Callable[[SessionRef, Snapshot], None]

    def lease(self, ref: SessionRef, *, forced: bool = False) -> RedisLease:
        """The lease, which tells."""
        lease = super().lease(ref, forced=forced)
        release = lease.release

        def told(seen: Snapshot, **options: Any) -> bool:
            again = release(seen, **options)
            self.given_up(ref, seen)
            return again

        lease.release = told  # type: ignore[method-assign]
        return lease

    def record_counts(self, ref: SessionRef, seen: Any, counts: Counts) -> RecordedCounts:
        """Store them, and tell."""
        recorded = super().record_counts(ref, seen, counts)
        if not recorded.stale:
            self.counted(ref, sum(turn.tokens for turn in counts.turns))
        return recorded


class WatchedStates(RedisStates):
    """States that tell the model what was restored."""

    restored: Callable[[SessionRef, Restored, int, int], None]

    def restore(self, ref: SessionRef, past: SessionInRedis, state: Restored) -> tuple[int, int]:
        """Restore it, and tell."""
        keys = session_keys(ref.namespace, ref.session)
        counted = int(self._redis.hget(keys.meta, "counted_seq") or 0)
        version, lost = super().restore(ref, past, state)
        if version:
            self.restored(ref, state, version, counted)
        return version, lost


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to the sessions of one namespace."""

    def __init__(self, server: EmbeddedRedis, archive: SqlArchive) -> None:
        super().__init__()
        url = server.url.removesuffix("/0") + "/7"
        self.redis = redis.Redis.from_url(url)
        self.redis.flushdb()
        self.client = ReadsTwice(url, namespace=NAMESPACE, broker=SilentWaker())
        self.sql = archive
        for name in NAMES:
            self.sql.forget(_ref(name))
        self.archive = AnyArchive(archive)
        sessions = WatchedSessions(self.redis, lease_s=LEASE_S, archive=self.archive)
        sessions.counted = self._counted
        sessions.given_up = self._given_up
        self.sessions = sessions
        states = WatchedStates(self.redis)
        states.restored = self._restored
        self.states = states
        self.hints = SentHints()
        self.summarizer = AnySummarizer()
        self.language_model = AnySummarizer()
        self.batches = AnyBatches()
        self.notes = WatchedNotes(self.redis)
        self.given_ups: set[tuple[str, str, str, int]] = set()
        self.outside = Outside(
            sessions=sessions,
            states=states,
            outgoing=RedisOutgoing(self.redis),
            archive=self.archive,
            hints=self.hints,
            summarizer=self.summarizer,
            model=self.language_model,
            waiting=RedisWaiting(self.redis),
            notes=self.notes,
            batches=self.batches,
        )
        self.sweeper = Sweeper(RedisSweepLists(self.redis), self.hints, stale_after_s=0)
        self.model: dict[str, Session] = {}
        self.policies: dict[str, Policy] = {}
        self.jobs: list[SteppedJob] = []
        self.asked_of: dict[SteppedJob, tuple[Session | None, int]] = {}
        self.restorations: dict[tuple[str, int], tuple[Restored, int]] = {}
        self.pushes = 0

    def teardown(self) -> None:
        for job in self.jobs:
            job.kill()
        self.client.close()
        self.redis.close()

    # what agents do

    @initialize(policy=any_policy)
    def begin(self, policy: Policy) -> None:
        self.open("alpha", policy, None)

    @rule(name=names, turn=any_turn)
    def push(self, name: str, turn: GivenTurn) -> None:
        self.pushes += 1
        self._push(name, turn, f"turn-{self.pushes}")

    def _push(self, name: str, turn: GivenTurn, turn_id: str) -> None:
        policy = self._policy(name)
        pushed = self.client.push(name, turn.as_pushed(), turn_id=turn_id)

        session = self._known(name)
        seq = session.add(turn_id, turn)
        assert (pushed.seq, pushed.duplicate) == (seq, False)
        self._save_automatically(name, pushed, policy, alone=True)

    @rule(name=names, turns_many=st.integers(4, 14), words=st.sampled_from([30, 60]))
    def fill(self, name: str, turns_many: int, words: int) -> None:
        """So much that there is something to compact, and have a job begin with it."""
        said = f"Parcel #W{self.pushes:05} goes to street {self.pushes * 7}. " + "word " * words
        self._push_all(name, [GivenTurn(({"role": "user", "content": said},))] * turns_many)
        self.work_off(name)

    @rule(name=names, many=st.lists(any_turn, min_size=2, max_size=8))
    def push_many(self, name: str, many: list[GivenTurn]) -> None:
        self._push_all(name, many)

    def _push_all(self, name: str, many: Sequence[GivenTurn]) -> None:
        ids = [f"turn-{self.pushes + at}" for at in range(1, len(many) + 1)]
        self.pushes += len(many)
        pairs = zip(ids, many, strict=True)
        policy = self._policy(name)

        pushed = self.client.push_many(
            (name, {**turn.as_pushed(), "turn_id": turn_id}) for turn_id, turn in pairs
        )

        session = self._known(name)
        seqs = [session.add(*pair) for pair in zip(ids, many, strict=True)]
        assert [each.seq for each in pushed] == seqs
        for each in pushed:
            self._save_automatically(name, each, policy, alone=False)

    def _known(self, name: str) -> Session:
        """The session, following the namespace's default if it is new, as a first push has it."""
        return self.model.get(name) or self._follow_default(name)

    def _follow_default(self, name: str) -> Session:
        session = self.model.setdefault(name, Session())
        if not session.has_policy and "default" in self.policies:
            self._take_up(session, self.policies["default"], "default")
        return session

    def _take_up(self, session: Session, policy: Policy, follows: str) -> None:
        session.policy, session.has_policy, session.follows = policy, True, follows

    def _policy(self, name: str) -> Policy:
        """By which a push makes checkpoints: the first one knows none of the namespace's yet."""
        return self.model[name].policy if name in self.model else Policy()

    def _save_automatically(
        self, name: str, pushed: Pushed, policy: Policy, *, alone: bool
    ) -> None:
        session, made = self.model[name], pushed.checkpoint
        every, keep = policy.checkpoint_interval, policy.keep_checkpoints
        assert (made is not None) == bool(every and keep and pushed.seq % every == 0)
        if made is not None:
            saved = self._saved(name, made, pushed.seq, alone=alone)
            session.automatic = [*session.automatic, saved][-keep:]

    def _saved(self, name: str, made: str, seq: int, *, alone: bool = True) -> Saved:
        session = self.model[name]
        read = self.client.read(name)
        whole = alone and read.projection is None
        messages = read.messages if whole else None
        saved = Saved(made, seq, self._stored(name), messages, session.system)
        session.ever_saved.append(saved)
        return saved

    @precondition(lambda self: self.model)
    @rule(data=st.data(), label=labels)
    def checkpoint(self, data: st.DataObject, label: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        session = self.model[name]
        keep = session.policy.keep_checkpoints

        made = self.client.checkpoint(name, "said so", name=label)

        assert (made is None) == (keep == 0)
        if made is not None:
            assert label in ("", made)
            watermark = self._stored(name).watermark
            others = [saved for saved in session.named if saved.id != made]
            seq = max([watermark, *session.kept()])
            session.named = [*others, self._saved(name, made, seq)][-keep:]

    @precondition(lambda self: any(session.turns for session in self.model.values()))
    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, s in self.model.items() if s.turns)))
        session = self.model[name]
        turn_id, seq = data.draw(st.sampled_from(sorted(session.seq_of.items())))
        turn = session.turns[seq - 1][1]
        if session.states[seq - 1] == "rolled-back":
            self._push(name, turn, turn_id)
            return

        pushed = self.client.push(name, turn.as_pushed(), turn_id=turn_id)

        assert (pushed.seq, pushed.duplicate) == (seq, True)
        with pytest.raises(TurnConflict):
            self.client.push(name, {"role": "user", "content": "Another."}, turn_id=turn_id)

    @rule(name=names, policy=st.none() | any_policy, system=st.none() | SYSTEM_PROMPTS)
    def open(self, name: str, policy: Policy | None, system: str | None) -> None:
        try:
            self.client.open(name, policy, system)
        except SystemPromptTooLarge:
            return
        session = self.model.setdefault(name, Session())
        if policy is not None:
            self._take_up(session, policy, "")
        else:
            self._follow_default(name)
        session.system = session.system if system is None else system

    @precondition(lambda self: self.policies)
    @rule(data=st.data(), name=names)
    def open_by_name(self, data: st.DataObject, name: str) -> None:
        wanted = data.draw(st.sampled_from(sorted(self.policies)))

        self.client.open(name, wanted)

        session = self.model.setdefault(name, Session())
        self._take_up(session, self.policies[wanted], wanted)

    @rule(wanted=policy_names, policy=any_policy)
    def set_policy(self, wanted: str, policy: Policy) -> None:
        following = [each for each in self.model.values() if each.follows == wanted]

        assert self.client.set_policy(wanted, policy) == len(following)

        self.policies[wanted] = policy
        for session in following:
            self._take_up(session, policy, wanted)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        session = self.model[name]
        in_log = len(session.kept(self._stored(name).watermark))

        assert self.client.clear(name) == in_log

        session.set_aside("cleared")
        session.automatic, session.named, session.history_tokens = [], [], 0
        assert self.client.read(name).messages == render(session.system, StoredContext(), [])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))

        assert self.client.forget(name)

        del self.model[name]
        with pytest.raises(UnknownSession):
            self.client.read(name)

    # what workers do

    @precondition(lambda self: self.hints.sent)
    @rule(data=st.data(), doubled=st.booleans())
    def deliver(self, data: st.DataObject, doubled: bool) -> None:  # noqa: FBT001
        at = data.draw(st.integers(0, len(self.hints.sent) - 1))
        task, ref = self.hints.sent[at] if doubled else self.hints.sent.pop(at)
        self._start(task, ref)

    @rule(
        name=names,
        task=st.sampled_from(
            [jobs.ESTIMATE, jobs.COMPACT, jobs.SUMMARIZE, jobs.ARCHIVE, jobs.ARCHIVE, jobs.FORGET]
        ),
    )
    def deliver_unasked(self, name: str, task: str) -> None:
        self._start(task, _ref(name))

    @rule(name=names, template=st.sampled_from(["", "", "default"]))
    def ask_for_a_summary(self, name: str, template: str) -> None:
        self._start(jobs.FORCE, _ref(name), template)

    @rule(name=names)
    def ask_for_everything(self, name: str) -> None:
        self._start(jobs.EXPORT, _ref(name))

    @rule(data=st.data(), name=names)
    def ask_to_roll_back(self, data: st.DataObject, name: str) -> None:
        self._start(jobs.ROLLBACK, _ref(name), self._something_to_go_back_to(data, name))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        session, to = self.model[name], self._something_to_go_back_to(data, name)
        there = [*session.automatic, *session.named]

        self._start(jobs.ROLLBACK, _ref(name), to)
        job = self.jobs[-1]
        self._finish(job)

        if isinstance(job.refusal, NoCheckpoint):
            assert (
                isinstance(to, int)
                or to not in [None, *(saved.id for saved in there)]
                or (to is None and not there)
            )
        if job.result is None or isinstance(to, int):
            return
        [saved] = [saved for saved in there if saved.id == job.result.restored]
        after = self.client.read(name)
        if saved.messages is not None and after.projection is None:
            assert saved.system != session.system or after.messages == saved.messages

    def _something_to_go_back_to(self, data: st.DataObject, name: str) -> str | int | None:
        session = self.model.get(name, Session())
        known = [saved.id for saved in (*session.automatic, *session.named)]
        versions = list(range(session.version + 1))
        return data.draw(st.sampled_from([None, None, *known, *versions, "nothing"]))

    @rule(name=names)
    def work_off(self, name: str) -> None:
        for task in (jobs.ESTIMATE, jobs.SUMMARIZE):
            self._start(task, _ref(name))
            self._finish(self.jobs[-1])

    @rule(name=names)
    def drain(self, name: str) -> None:
        self._start(jobs.ARCHIVE, _ref(name))
        self._finish(self.jobs[-1])

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), steps=st.integers(1, 3))
    def step(self, data: st.DataObject, steps: int) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        for _ in range(steps):
            job.step()
        self._settle(job)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self._finish(data.draw(st.sampled_from(self.jobs)))

    @rule(mood=st.sampled_from(["good", "good", "down", "refusing", "silent", "chatty"]))
    def change_mood(self, mood: str) -> None:
        self.summarizer.mood = mood

    @rule(mood=st.sampled_from(["good", "down", "busy", "open", "misconfigured", "refusing"]))
    def change_model(self, mood: str) -> None:
        self.language_model.mood = mood

    @rule(mood=st.sampled_from(["good", "slow", "down", "misconfigured"]))
    def change_batches(self, mood: str) -> None:
        self.batches.mood = mood

    @precondition(lambda self: self.model)
    @rule(data=st.data(), times=st.integers(1, 3))
    def fail(self, data: st.DataObject, times: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        for _ in range(times):
            self.sessions.failed(_ref(name), "KeyError")

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        is_parked = self._is_parked(name)

        assert self.client.retry(name) == is_parked

    # what goes wrong

    @rule(is_up=st.booleans())
    def change_archive(self, is_up: bool) -> None:  # noqa: FBT001
        self.archive.is_up = is_up

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        self.jobs.remove(job)
        job.kill()

    @rule(name=names)
    def expire_lease(self, name: str) -> None:
        self.redis.delete(session_keys(NAMESPACE, SessionId(name)).lease)

    @rule()
    def lose_hints(self) -> None:
        self.hints.sent.clear()

    @rule()
    def flush_scripts(self) -> None:
        self.redis.script_flush()

    @rule()
    def sweep(self) -> None:
        self.sweeper.run()

    @rule()
    def come_to_rest(self) -> None:
        self.summarizer.mood = self.language_model.mood = self.batches.mood = "good"
        self.archive.is_up = True
        for job in list(self.jobs):
            self._finish(job)
        for name in NAMES:
            self.expire_lease(name)

        with self._late_drains_over():
            poor = self._sweep_until_nothing_happens()

        for name in NAMES:
            keys = shard_keys(NAMESPACE, shard_of(SessionId(name)))
            assert self.redis.zrange(keys.backlog, 0, -1) == []
            assert self.redis.zrange(keys.unarchived, 0, -1) == []
            assert self.redis.zrange(keys.forgotten, 0, -1) == []
            assert {each.decode() for each in self._members(keys.due)} <= poor
            assert not {*self._members(keys.due)} & {*self._members(keys.parked)}
        parked = [name for name in self.model if self._is_parked(name)]
        if not parked:  # such a one awaits what it awaits until it is retried
            assert not self.batches.kept & self.notes.ever
        for name in NAMES:
            self._check_the_archive_has_no_more_than_it_should(name)
        for name in self.model:
            self._check_nothing_is_left_to_do(name)

    @contextmanager
    def _late_drains_over(self) -> Iterator[None]:
        """No drain that began before a session was forgotten is under way any more."""
        before = self.outside
        outgoing = RedisOutgoing(self.redis, late_drain_ms=-1)
        self.outside = replace(before, outgoing=outgoing)
        yield
        self.outside = before

    def _sweep_until_nothing_happens(self) -> set[str]:
        """Sessions for which nothing good enough can be written; they are tried for ever."""
        poor: set[str] = set()
        idle = 0
        for _ in range(ROUNDS):
            self._let_time_pass()
            self.sweeper.run()
            idle += 1
            while self.hints.sent:
                self._start(*self.hints.sent.pop(0))
                job = self.jobs[-1]
                self._finish(job)
                if job.outcome == "below-quality":
                    poor.add(job.result.session)
                elif job.outcome != "needs-summary":
                    idle = 0
            if idle > ARCHIVE_EVERY:
                break
        return poor

    def _check_the_archive_has_no_more_than_it_should(self, name: str) -> None:
        left = self.sql.left(_ref(name))
        if name not in self.model:
            assert left == Removed()
            return
        keys, session = session_keys(NAMESPACE, SessionId(name)), self.model[name]
        in_log = session.kept(self._stored(name).watermark)
        assert self.redis.xlen(keys.covered) == self.redis.xlen(keys.commits) == 0
        assert left.compactions == self.client.info(name).version
        # A turn covered, archived and restored is in both.
        assert len(session.turns) - len(in_log) <= left.turns <= len(session.turns)

    def _check_nothing_is_left_to_do(self, name: str) -> None:
        info = self.client.info(name)
        assert info.counted_seq == info.last_seq
        if info.usage.total > info.limits.soft and not self._is_parked(name):
            self._start(jobs.SUMMARIZE, _ref(name))
            job = self.jobs[-1]
            self._finish(job)
            assert job.outcome in ("no-plan", "below-quality"), job.outcome

    # what must hold after each of them

    @invariant()
    def every_turn_is_in_one_place_with_its_body(self) -> None:
        for name, session in self.model.items():
            keys = session_keys(NAMESPACE, SessionId(name))
            watermark = self._stored(name).watermark
            epoch = self._epoch(name)
            bodies = {seq: _stored(turn) for seq, (_, turn) in enumerate(session.turns, 1)}
            archived: dict[int, TurnState] = {}
            for turn in self.sql.turns(_ref(name), epoch=epoch):
                archived[turn.seq] = turn.state
                assert json.loads(turn.messages) == bodies[turn.seq]
            for fields in self._values(keys.covered):
                if b"after" in fields:
                    span = range(int(fields[b"after"]) + 1, int(fields[b"through"]) + 1)
                    for seq in span:
                        if archived.get(seq) == "kept":
                            archived[seq] = fields[b"state"].decode()  # type: ignore[assignment]
                else:
                    seq, state = int(fields[b"seq"]), fields[b"state"].decode()
                    archived.setdefault(seq, state)  # type: ignore[arg-type]
                    assert json.loads(fields[b"messages"]) == bodies[seq]
            log = dict(self._entries(keys.log))

            assert list(log) == session.kept(watermark)
            assert all(json.loads(log[seq][b"messages"]) == bodies[seq] for seq in log)
            places = archived | dict.fromkeys(log, "kept")
            assert places == dict(enumerate(session.states, 1))

    @invariant()
    def a_trajectory_is_complete_and_in_order(self) -> None:
        for name, session in self.model.items():
            exporting = Exporting(self.states, self.outside.outgoing, self.sql)

            told = exporting.trajectory(_ref(name))

            assert [turn.seq for turn in told.turns] == list(range(1, len(session.turns) + 1))
            assert [turn.turn_id for turn in told.turns] == [each for each, _ in session.turns]
            assert [turn.state for turn in told.turns] == session.states
            pushed = [list(turn.messages) for _, turn in session.turns]
            assert [list(turn.messages) for turn in told.turns] == pushed
            versions = [each.record.version for each in told.compactions]
            assert versions == list(range(1, self.client.info(name).version + 1))

    @invariant()
    def checkpoints_are_those_that_were_made_and_not_left_behind(self) -> None:
        for name, session in self.model.items():
            found = self.client.checkpoints(name)
            assert [c.id for c in found if c.automatic] == [s.id for s in session.automatic]
            assert [c.id for c in found if not c.automatic] == [s.id for s in session.named]
            known = {saved.id: saved.seq for saved in (*session.automatic, *session.named)}
            assert all(c.seq == known[c.id] for c in found)

    @invariant()
    def every_pinned_turn_that_is_covered_is_kept_word_for_word(self) -> None:
        for name, session in self.model.items():
            stored = self._stored(name)
            kept = {pin.seq: pin.messages for pin in stored.pins}
            covered = [seq for seq in session.kept() if seq <= stored.watermark]
            for seq in covered:
                turn = session.turns[seq - 1][1]
                # A pinned result without its call is kept as a user message.
                said = [m for m in turn.messages if turn.pinned and m["role"] != "tool"]
                assert all(message in kept[seq] for message in said)
                assert not turn.pinned or len(kept[seq]) >= len(turn.messages)

    @invariant()
    def a_read_is_the_committed_context_and_every_later_turn(self) -> None:
        for name, session in self.model.items():
            read = self.client.read(name)
            messages, limit = read.messages, session.policy.hard_limit
            watermark = self._stored(name).watermark
            assert read.last_seq in (len(session.turns), max([watermark, *session.kept()]))
            assert violations(messages) == []
            if self._basis(name) in ("", session.policy.encoding):  # else it waits for a recount
                assert count_request(counter_for(session.policy.encoding), messages) <= limit
            assert read.tokens <= limit
            if read.projection is None:
                assert messages == self._expected(name)

    @invariant()
    def between_two_commits_a_read_is_a_prefix_of_the_next(self) -> None:
        for name, session in self.model.items():
            read = self.client.read(name)
            if read.projection is not None:
                session.last_read = None
                continue
            basis = (read.version, session.system)
            if session.last_read is not None and session.last_read[0] == basis:
                before = session.last_read[1]
                assert read.messages[: len(before)] == before
            session.last_read = (basis, read.messages)

    @invariant()
    def the_totals_are_the_sums_of_their_parts(self) -> None:
        for name in self.model:
            keys = session_keys(NAMESPACE, SessionId(name))
            info, stored = self.client.info(name), self._stored(name)
            log = self._entries(keys.log)
            counts = {int(k): int(v) for k, v in self.redis.hgetall(keys.counts).items()}

            assert info.counted_seq >= info.watermark
            assert info.history_tokens == self.model[name].history_tokens
            assert sorted(counts) == [seq for seq, _ in log if seq <= info.counted_seq]
            assert info.usage.tail == sum(counts.values())
            uncounted = [each for seq, each in log if seq > info.counted_seq]
            assert info.usage.pending == sum(int(each[b"bound"]) for each in uncounted)
            if basis := self._basis(name):
                count = counter_for(basis).count_messages
                assert info.usage.summary == count(render_head(stored))
                tracker = CallTracker()
                legal = {turn.seq: tracker.repair(turn.messages) for turn in self._tail(name)}
                assert counts == {seq: count(legal[Seq(seq)]) for seq in counts}

    @invariant()
    def the_tallies_are_those_of_the_turns_they_stand_for(self) -> None:
        for name, session in self.model.items():
            info, stored = self.client.info(name), self._stored(name)
            counted = [turn for turn in self._tail(name) if turn.seq <= info.counted_seq]
            kept = session.kept()
            given = {seq: list(session.turns[seq - 1][1].messages) for seq in kept}
            before: Any = self.redis.hget(
                session_keys(NAMESPACE, SessionId(name)).meta, "images_before"
            )

            assert info.images == sum(images(turn.messages) for turn in counted)
            assert info.interactions == sum(interactions(given[turn.seq]) for turn in counted)
            assert int(before or 0) == sum(
                images(given[seq]) for seq in kept if seq <= stored.watermark
            )

    @invariant()
    def the_version_rises_by_one_with_each_commit(self) -> None:
        for name, session in self.model.items():
            keys = session_keys(NAMESPACE, SessionId(name))
            version = self.client.info(name).version

            assert version == self._stored(name).version == self.redis.xlen(keys.compactions)
            assert version >= session.version
            session.version = version

    @invariant()
    def a_session_with_work_to_do_is_on_a_list(self) -> None:
        for name in self.model:
            keys = session_keys(NAMESPACE, SessionId(name))
            info = self.client.info(name)
            waiting = self.redis.zscore(keys.backlog, name) is not None
            assert waiting or info.counted_seq == info.last_seq
            if waiting or info.usage.total <= info.limits.soft:
                continue
            state = (name, self._epoch(name), str(info.settings), info.counted_seq)
            put_off: Any = self.redis.hget(keys.meta, "put_off")
            assert (
                self.redis.zscore(keys.due, name) is not None
                or self._is_parked(name)
                or state in self.given_ups
                or info.usage.total < int(put_off or 0)
            )

    @invariant()
    def a_parked_session_is_listed_as_one(self) -> None:
        for name in NAMES:
            keys = session_keys(NAMESPACE, SessionId(name))
            listed = self.redis.zscore(keys.parked, name) is not None
            assert listed == self._is_parked(name)

    @invariant()
    def what_is_known_is_of_covered_turns_of_the_conversation_alone(self) -> None:
        for name, session in self.model.items():
            snapshot = self.sessions.snapshot(_ref(name))
            assert snapshot is not None
            known, watermark = snapshot.known, snapshot.stored.watermark
            covered = {seq for seq in session.kept() if seq <= watermark}
            assert {each.seq for each in known.readings} <= covered
            assert {each.seq for each in known.said} <= covered
            assert all(each.past <= watermark for each in known.said)

    @invariant()
    def every_key_is_in_the_table_and_only_lists_live_for_ever(self) -> None:
        permanent = {NAMESPACES, UNCOMPARED, registry_keys(NAMESPACE).registered}
        for name in NAMES:
            shard = shard_keys(NAMESPACE, shard_of(SessionId(name)))
            permanent |= {policies_key(NAMESPACE), shard.backlog, shard.due, shard.index}
            permanent |= {shard.unarchived, shard.forgotten, shard.parked}
        owned = {key for n in self.model for key in session_keys(NAMESPACE, SessionId(n)).owned}
        found: Any = self.redis.keys("*")
        for raw in found:
            key = raw.decode()
            marks = (":blob:", ":abandoned", ":hinted", "{summarize}")
            assert key in permanent or key in owned or any(mark in key for mark in marks)
            # -2 is a key that has just expired, -1 one that never will.
            assert key in permanent or self.redis.pttl(key) != -1

    # helpers

    def _start(self, task: str, ref: SessionRef, asked: str | int | None = None) -> None:
        job = SteppedJob(task, ref, outside=self.outside, asked=asked)
        session = self.model.get(ref.session)
        self.asked_of[job] = (session, len(session.turns) if session else 0)
        self.jobs.append(job)

    def _finish(self, job: SteppedJob) -> None:
        job.finish()
        self._settle(job)

    def _settle(self, job: SteppedJob) -> None:
        if not job.ended:
            return
        self.jobs.remove(job)
        if job.error is not None:
            raise job.error
        session, turns = self.asked_of.pop(job)
        if session is None or session is not self.model.get(job.ref.session) or job.result is None:
            return
        if job.task == jobs.EXPORT:
            told = [list(turn.messages) for turn in job.result.turns]
            assert told == [list(turn.messages) for _, turn in session.turns[: len(told)]]
            assert len(told) >= turns
        if job.task == jobs.ROLLBACK:
            self._check_what_was_restored(job, session)

    def _check_what_was_restored(self, job: SteppedJob, session: Session) -> None:
        state, gone = self.restorations[job.ref.session, job.result.version]
        assert job.result.turns_lost == gone
        assert job.result.seq == state.seq
        if job.result.restored.startswith("version "):
            version = int(job.result.restored.split()[1])
            told = Exporting(self.states, self.outside.outgoing, self.sql).trajectory(job.ref)
            assert _essence(state.stored) == _essence(told.compactions[version - 1].context)
            return
        known = [saved for saved in session.ever_saved if saved.id == job.result.restored]
        assert (state.seq, _essence(state.stored)) in [
            (saved.seq, _essence(saved.stored)) for saved in known
        ]

    def _counted(self, ref: SessionRef, tokens: int) -> None:
        if ref.session in self.model:
            self.model[ref.session].history_tokens += tokens

    def _restored(self, ref: SessionRef, state: Restored, version: int, counted: int) -> None:
        """A rollback has just been written: what it left behind is not the conversation's."""
        session = self.model[ref.session]
        gone = session.set_aside("rolled-back", state.seq)
        used = state.used.partition(" ")[2]

        def stays(saved: Saved) -> bool:
            return saved.seq <= state.seq and saved.id != used

        session.automatic = [saved for saved in session.automatic if stays(saved)]
        session.named = [saved for saved in session.named if stays(saved)]
        session.history_tokens += sum(n.tokens for t, n in state.turns if t.seq > counted)
        self.restorations[ref.session, version] = (state, gone)

    def _given_up(self, ref: SessionRef, seen: Snapshot) -> None:
        """Nothing can be planned for a session as it was then."""
        self.given_ups.add((ref.session, seen.epoch, seen.revision.split(":")[0], seen.counted_seq))

    def _is_parked(self, name: str) -> bool:
        keys = session_keys(NAMESPACE, SessionId(name))
        return bool(self.redis.hexists(keys.meta, "parked_at"))

    def _let_time_pass(self) -> None:
        for name in NAMES:
            keys = session_keys(NAMESPACE, SessionId(name))
            for waiting in (keys.due, keys.backlog, keys.unarchived, keys.forgotten):
                for member in self._members(waiting):
                    self.redis.zadd(waiting, {member: 1}, xx=True)

    def _members(self, key: str) -> list[bytes]:
        found: Any = self.redis.zrange(key, 0, -1)
        return list(found)

    def _epoch(self, name: str) -> str:
        found: Any = self.redis.hget(session_keys(NAMESPACE, SessionId(name)).meta, "epoch")
        return str(found.decode())

    def _values(self, key: str) -> Sequence[dict[bytes, bytes]]:
        entries: Any = self.redis.xrange(key)
        return [fields for _, fields in entries]

    def _basis(self, name: str) -> str:
        """The vocabulary the session's counts were made with, or "" before the first."""
        basis: Any = self.redis.hget(session_keys(NAMESPACE, SessionId(name)).meta, "basis")
        return (basis or b"").decode().partition("/")[0]

    def _stored(self, name: str) -> StoredContext:
        body: Any = self.redis.get(session_keys(NAMESPACE, SessionId(name)).context)
        return StoredContext.parse(body)

    def _entries(self, key: str) -> list[tuple[int, dict[bytes, bytes]]]:
        entries: Any = self.redis.xrange(key)
        return [(int(entry_id.partition(b"-")[0]), fields) for entry_id, fields in entries]

    def _tail(self, name: str) -> list[TailTurn]:
        stored = self._stored(name)
        short = {(each.seq, each.index): each.message for each in stored.elisions}
        session = self.model[name]
        later = [(seq, session.turns[seq - 1]) for seq in session.kept(stored.watermark)]
        return [
            TailTurn(
                seq=Seq(seq),
                messages=tuple(
                    short.get((seq, at), message) for at, message in enumerate(_stored(turn))
                ),
                tokens=0,
            )
            for seq, (_, turn) in later
        ]

    def _expected(self, name: str) -> list[JsonMessage]:
        shown = repair(render(self.model[name].system, self._stored(name), self._tail(name)))
        return join_images(shown, BYTES)


def _ref(name: str) -> SessionRef:
    return SessionRef(NAMESPACE, SessionId(name))


def test_the_protocol_keeps_its_promises_whatever_happens(
    redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    archive = SqlArchive.open(f"sqlite:///{tmp_path}/archive.db")
    machine: Any = partial(Protocol, redis_server, archive)  # a factory does as well as a class
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
                database=None,
            ),
        )
    finally:
        archive.close()
