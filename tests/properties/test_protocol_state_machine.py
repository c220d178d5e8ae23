"""The session protocol under any order of events, against a model of a few lines.

Agents push, open, read and forget; jobs run the real pipeline over the real scripts, stopped
before any step, several at once, doubled, late, killed; hints and scripts get lost. After every
event the promises of docs are looked up in Redis itself.

``TURNMILL_PROTOCOL_EXAMPLES`` raises the number of runs: 15 by default, thousands before a release.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import partial
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

from tests.properties.stepping import SentHints, SteppedJob
from tests.properties.strategies import SYSTEM_PROMPTS, GivenTurn, policies, turns
from turnmill import ContextClient, Policy, SilentWaker, SystemPromptTooLarge, UnknownSession
from turnmill.contract import jobs
from turnmill.contract.context import JsonMessage, StoredContext, TailTurn
from turnmill.contract.errors import Transient
from turnmill.contract.keys import NAMESPACES, session_keys, shard_keys, shard_of
from turnmill.contract.legality import CallTracker, repair, violations
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.render import render, render_head
from turnmill.embedded import EmbeddedRedis
from turnmill_worker.compaction.snapshot import SummaryRequest
from turnmill_worker.counting import counting
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.ports import Counter, SessionRef, Summary
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.summarizers.offline import ExtractiveSummarizer
from turnmill_worker.sweep import Sweeper
from turnmill_worker.tokens import count_messages, counter_for

EXAMPLES = int(os.environ.get("TURNMILL_PROTOCOL_EXAMPLES", "15"))
STEPS = 40
ROUNDS = 60
"""Sweeps after which a session left alone must have come to rest."""

NAMES = ("alpha", "beta")
NAMESPACE = Namespace("machine")
LEASE_S = 3600.0  # no lease runs out by itself; `expire_lease` lets one run out

names = st.sampled_from(["alpha", "alpha", "alpha", "beta"])
any_policy = st.builds(
    lambda policy, encoding: policy.model_copy(update={"encoding": encoding}),
    policies((512, 1024)),
    st.sampled_from(["o200k_base", "o200k_base", "cl100k_base"]),
)


@dataclass
class Session:
    """What must be true of one incarnation of a name."""

    policy: Policy = field(default_factory=Policy)
    system: str = ""
    turns: list[tuple[str, GivenTurn]] = field(default_factory=list)
    version: int = 0
    last_read: tuple[object, list[JsonMessage]] | None = None

    @property
    def seq_of(self) -> dict[str, int]:
        return {turn_id: seq for seq, (turn_id, _) in enumerate(self.turns, 1)}


class AnySummarizer:
    """The other end of the ``Summarizer`` port: good, bad or down, as the test says."""

    mood = "good"

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """An extract, or one of the ways to fail."""
        match self.mood:
            case "down":
                raise Transient("no model answers")
            case "refusing":
                raise SummaryRejected("refused")
            case "silent":
                return Summary(text=" \n", model="any")
            case "chatty":
                return Summary(text="word " * 4 * request.budget_tokens, model="any")
            case _:
                return ExtractiveSummarizer().summarize(request, counter)


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to the sessions of one namespace."""

    def __init__(self, server: EmbeddedRedis) -> None:
        super().__init__()
        url = server.url.removesuffix("/0") + "/7"
        self.redis = redis.Redis.from_url(url)
        self.redis.flushdb()
        self.client = ContextClient(url, namespace=NAMESPACE, broker=SilentWaker())
        self.sessions = RedisSessions(self.redis, lease_s=LEASE_S)
        self.hints = SentHints()
        self.summarizer = AnySummarizer()
        self.sweeper = Sweeper(self.redis, self.hints, stale_after_s=0)
        self.model: dict[str, Session] = {}
        self.jobs: list[SteppedJob] = []
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

    @rule(name=names, turn=turns(12))
    def push(self, name: str, turn: GivenTurn) -> None:
        self.pushes += 1
        turn_id = f"turn-{self.pushes}"

        pushed = self.client.push(name, turn.as_pushed(), turn_id=turn_id)

        session = self.model.setdefault(name, Session())
        session.turns.append((turn_id, turn))
        assert (pushed.seq, pushed.duplicate) == (len(session.turns), False)

    @rule(name=names, many=st.lists(turns(12), min_size=2, max_size=8))
    def push_many(self, name: str, many: list[GivenTurn]) -> None:
        ids = [f"turn-{self.pushes + at}" for at in range(1, len(many) + 1)]
        self.pushes += len(many)
        pairs = zip(ids, many, strict=True)

        pushed = self.client.push_many(
            (name, {**turn.as_pushed(), "turn_id": turn_id}) for turn_id, turn in pairs
        )

        session = self.model.setdefault(name, Session())
        session.turns += zip(ids, many, strict=True)
        last = len(session.turns)
        assert [each.seq for each in pushed] == list(range(last - len(many) + 1, last + 1))

    @precondition(lambda self: any(session.turns for session in self.model.values()))
    @rule(data=st.data(), turn=turns(12))
    def push_again(self, data: st.DataObject, turn: GivenTurn) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, s in self.model.items() if s.turns)))
        turn_id, seq = data.draw(st.sampled_from(sorted(self.model[name].seq_of.items())))

        pushed = self.client.push(name, turn.as_pushed(), turn_id=turn_id)

        assert (pushed.seq, pushed.duplicate) == (seq, True)

    @rule(name=names, policy=st.none() | any_policy, system=st.none() | SYSTEM_PROMPTS)
    def open(self, name: str, policy: Policy | None, system: str | None) -> None:
        try:
            self.client.open(name, policy, system)
        except SystemPromptTooLarge:
            return
        session = self.model.setdefault(name, Session())
        session.policy = policy or session.policy
        session.system = session.system if system is None else system

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

    @rule(name=names, task=st.sampled_from([jobs.ESTIMATE, jobs.COMPACT, jobs.SUMMARIZE]))
    def deliver_unasked(self, name: str, task: str) -> None:
        self._start(task, SessionRef(NAMESPACE, SessionId(name)))

    @rule(name=names)
    def work_off(self, name: str) -> None:
        for task in (jobs.ESTIMATE, jobs.SUMMARIZE):
            self._start(task, SessionRef(NAMESPACE, SessionId(name)))
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

    # what goes wrong

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
        self.summarizer.mood = "good"
        for job in list(self.jobs):
            self._finish(job)
        for name in NAMES:
            self.expire_lease(name)

        for _ in range(ROUNDS):
            self._let_time_pass()
            if not self.sweeper.run() and not self.hints.sent:
                break
            while self.hints.sent:
                self._start(*self.hints.sent.pop(0))
                self._finish(self.jobs[-1])

        for name in NAMES:
            keys = shard_keys(NAMESPACE, shard_of(SessionId(name)))
            assert self.redis.zrange(keys.backlog, 0, -1) == []
            assert self.redis.zrange(keys.due, 0, -1) == []
        for name in self.model:
            self._check_nothing_is_left_to_do(name)

    def _check_nothing_is_left_to_do(self, name: str) -> None:
        info = self.client.info(name)
        assert info.counted_seq == info.last_seq
        if info.usage.total > info.limits.soft:
            self._start(jobs.SUMMARIZE, SessionRef(NAMESPACE, SessionId(name)))
            job = self.jobs[-1]
            self._finish(job)
            assert job.outcome is not None
            assert job.outcome.outcome == "no-plan"

    # what must hold after each of them

    @invariant()
    def every_turn_is_in_one_place_with_its_body(self) -> None:
        for name, session in self.model.items():
            keys = session_keys(NAMESPACE, SessionId(name))
            stored = self._stored(name)
            covered, log = self._entries(keys.covered), self._entries(keys.log)

            assert all(seq <= stored.watermark for seq, _ in covered)
            assert all(seq > stored.watermark for seq, _ in log)
            assert [seq for seq, _ in covered + log] == list(range(1, len(session.turns) + 1))
            pushed = [list(turn.messages) for _, turn in session.turns]
            assert [json.loads(each[b"messages"]) for _, each in covered + log] == pushed

    @invariant()
    def every_pinned_turn_that_is_covered_is_kept_word_for_word(self) -> None:
        for name, session in self.model.items():
            stored = self._stored(name)
            kept = {pin.seq: pin.messages for pin in stored.pins}
            for seq, (_, turn) in enumerate(session.turns[: stored.watermark], 1):
                # A pinned result without its call is kept as a user message.
                said = [m for m in turn.messages if turn.pinned and m["role"] != "tool"]
                assert all(message in kept[seq] for message in said)
                assert not turn.pinned or len(kept[seq]) >= len(turn.messages)

    @invariant()
    def a_read_is_the_committed_context_and_every_later_turn(self) -> None:
        for name, session in self.model.items():
            read = self.client.read(name)
            messages = read.messages
            limit = session.policy.hard_limit

            assert read.last_seq == len(session.turns)
            assert violations(messages) == []
            if self._basis(name) in ("", session.policy.encoding):  # else it waits for a recount
                assert count_messages(counter_for(session.policy.encoding), messages) <= limit
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
            assert sorted(counts) == [seq for seq, _ in log if seq <= info.counted_seq]
            assert info.usage.tail == sum(counts.values())
            uncounted = [each for seq, each in log if seq > info.counted_seq]
            assert info.usage.pending == sum(int(each[b"bound"]) for each in uncounted)
            if basis := self._basis(name):
                count = counting(counter_for(basis))
                assert info.usage.summary == count(render_head(stored))
                tracker = CallTracker()
                legal = {turn.seq: tracker.repair(turn.messages) for turn in self._tail(name)}
                assert counts == {seq: count(legal[Seq(seq)]) for seq in counts}

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

    @invariant()
    def every_key_is_in_the_table_and_only_lists_live_for_ever(self) -> None:
        permanent = {NAMESPACES}
        for name in NAMES:
            shard = shard_keys(NAMESPACE, shard_of(SessionId(name)))
            permanent |= {shard.backlog, shard.due, shard.index}
        owned = {key for n in self.model for key in session_keys(NAMESPACE, SessionId(n)).owned}
        found: Any = self.redis.keys("*")
        for raw in found:
            key = raw.decode()
            assert key in permanent or key in owned
            assert key in permanent or self.redis.pttl(key) > 0

    # helpers

    def _start(self, task: str, ref: SessionRef) -> None:
        self.jobs.append(
            SteppedJob(
                task,
                ref,
                sessions=self.sessions,
                hints=self.hints,
                summarizer=self.summarizer,
            )
        )

    def _finish(self, job: SteppedJob) -> None:
        job.finish()
        self._settle(job)

    def _settle(self, job: SteppedJob) -> None:
        if job.ended:
            self.jobs.remove(job)
        if job.error is not None:
            raise job.error

    def _let_time_pass(self) -> None:
        for name in NAMES:
            keys = session_keys(NAMESPACE, SessionId(name))
            for due in (keys.due, keys.backlog):
                self.redis.zadd(due, {name: 1}, xx=True)

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
        later = list(enumerate(self.model[name].turns, 1))[stored.watermark :]
        return [
            TailTurn(
                seq=Seq(seq),
                messages=tuple(
                    short.get((seq, at), message) for at, message in enumerate(turn.messages)
                ),
                tokens=0,
            )
            for seq, (_, turn) in later
        ]

    def _expected(self, name: str) -> list[JsonMessage]:
        return repair(render(self.model[name].system, self._stored(name), self._tail(name)))


def test_the_protocol_keeps_its_promises_whatever_happens(redis_server: EmbeddedRedis) -> None:
    machine: Any = partial(Protocol, redis_server)  # a factory does as well as a class
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
