"""What becomes of a summary that is awaited from a batch; the stages of a worker run by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
import redis
from pydantic import SecretStr

from tests.properties.stepping import SentHints
from tests.worker.harness import PATIENT
from turnmill import ContextClient
from turnmill.contract import jobs
from turnmill.contract.job_outcomes import Compaction, Outcome
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.testing import BatchFault, FakeEndpoint, Fault
from turnmill_worker.background.sweep import EXPIRY_EVERY, Sweeper
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.pipeline.batch import Batches
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.settings import Settings
from turnmill_worker.spending import NOTHING, Spent
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.store.summaries import RedisBatchNotes
from turnmill_worker.store.sweep_lists import RedisSweepLists
from turnmill_worker.summarizers.registry import RegisteredBatches, Registry
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

KEY = "sk-for-tests-only-0123456789"
LIVE = "/v1/chat/completions"


class Patient:
    """An agent, and a worker whose stages are run by hand."""

    def __init__(
        self, client: ContextClient, raw: redis.Redis, endpoint: FakeEndpoint, namespace: str
    ) -> None:
        self.client = client
        self.endpoint = endpoint
        self.raw = raw
        self.ref = SessionRef(Namespace(namespace), SessionId("s"))
        self.hints = SentHints()
        self.notes = RedisBatchNotes(raw)
        self.deadline_s = 86_400.0
        key = SecretStr(KEY)
        self._summarizers = Registry(Settings(model_url=endpoint.base_url, model_key=key))
        self._said = 0

    def close(self) -> None:
        """Leave no connection to the endpoint."""
        self._summarizers.factory("openai").close()

    @property
    def keys(self) -> SessionKeys:
        return session_keys(self.ref.namespace, self.ref.session)

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(
            templates=TemplateLoader(),
            sessions=RedisSessions(self.raw),
            hints=self.hints,
            counters=counter_for,
            summarizers=self._summarizers,
            batches=self.batching,
        )

    @property
    def batches(self) -> RegisteredBatches:
        return RegisteredBatches(self._summarizers)

    @property
    def batching(self) -> Batches:
        return Batches(self.notes, self.batches, deadline_s=self.deadline_s)

    def say(self, turns: int) -> None:
        """Push turns of some 50 tokens, and have them counted."""
        for at in range(self._said, self._said + turns):
            text = (
                f"Parcel {at}: Anna in Bern wants number {at * 17} brought to street {at * 7} "
                f"on day {at % 28 + 1}, never to the shop in room {at % 9}, said #W{at}."
            )
            self.client.push("s", {"role": "assistant" if at % 2 else "user", "content": text})
        self._said += turns
        self.pipeline.estimate(self.ref)

    def say_until(self, tokens: int) -> None:
        """Push until the session has more than so many tokens."""
        while (missing := tokens - self.client.info("s").usage.total) >= 0:
            self.say(1 + missing // 100)  # none has a hundred: the last steps are single ones

    def summarize(self) -> Outcome:
        return self.pipeline.summarize(self.ref)

    def hand_in(self) -> None:
        """Come to await a batch."""
        self.client.open("s", PATIENT)
        self.say_until(2_000)
        assert self.summarize().outcome == "batched"

    @property
    def awaits(self) -> bool:
        return bool(self.raw.exists(self.keys.batch))

    @property
    def live(self) -> int:
        return sum(each.path == LIVE for each in self.endpoint.requests)

    @property
    def record(self) -> Compaction:
        """The newest compaction's."""
        entries: list[tuple[bytes, dict[bytes, bytes]]] = self.raw.xrange(self.keys.compactions)  # type: ignore[assignment]
        return Compaction.model_validate_json(entries[-1][1][b"record"])


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key=KEY, batch_s=3600.0) as running:
        yield running


@pytest.fixture
def patient(
    client: ContextClient, redis_client: redis.Redis, endpoint: FakeEndpoint, namespace: str
) -> Iterator[Patient]:
    made = Patient(client, redis_client, endpoint, namespace)
    yield made
    made.close()


def test_turns_pushed_meanwhile_are_kept_and_the_batch_still_counts(patient: Patient) -> None:
    patient.hand_in()
    planned = patient.client.info("s").counted_seq
    patient.say(5)
    assert patient.summarize().outcome == "batched"
    wait = patient.client.info("s").wait
    assert wait is not None
    assert wait.on == "batch"

    patient.endpoint.batches.takes_s = 0.0
    outcome = patient.summarize()

    context = patient.client.read("s")
    assert (outcome.outcome, outcome.strategy) == ("committed", "rolling")
    assert patient.live == 0
    assert patient.record.last_seq == planned
    assert context.last_seq == planned + 5
    assert all(f"Parcel {at}:" in str(context.messages) for at in range(planned, planned + 5))
    assert not patient.awaits
    assert patient.endpoint.batches.files == {}


@pytest.mark.parametrize(
    "fault", ["failed", "expired", "cancelled", "no-output", "garbage", "429", "500"]
)
def test_where_a_batch_fails_the_model_is_asked_live(patient: Patient, fault: BatchFault) -> None:
    patient.endpoint.fail_next_batches(fault)
    patient.hand_in()
    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.record.model == "gpt-4o-mini"
    assert len(patient.endpoint.batches.statuses) == 1
    assert patient.endpoint.batches.files == {}
    assert not patient.awaits


@pytest.mark.parametrize("fault", ["429", "503", "reset", "malformed", "not-openai"])
def test_an_endpoint_that_is_down_is_asked_again_later(patient: Patient, fault: Fault) -> None:
    patient.hand_in()
    patient.endpoint.fail_next(fault)

    assert patient.summarize().outcome == "batched"
    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "committed"
    assert patient.live == 0


def test_an_urgent_session_does_not_wait(patient: Patient) -> None:
    patient.hand_in()
    patient.hints.sent.clear()

    patient.say_until(3_000)

    assert [task for task, _ in patient.hints.sent] == [jobs.COMPACT]
    assert patient.summarize().outcome == "committed"
    assert patient.live == 1
    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.endpoint.batches.files == {}


@pytest.mark.parametrize(
    "changed", [{"batch": False}, {"model": "gpt-4.1-mini"}], ids=["no batches", "another model"]
)
def test_a_batch_made_under_another_policy_is_cancelled(
    patient: Patient, changed: dict[str, object]
) -> None:
    patient.hand_in()
    patient.client.open("s", PATIENT.model_copy(update=changed))
    patient.pipeline.estimate(patient.ref)

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.record.model == changed.get("model", "gpt-4o-mini")
    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert not patient.awaits


def test_forgetting_a_session_leaves_its_batch_to_be_ended(patient: Patient) -> None:
    patient.hand_in()

    patient.client.forget("s")
    assert not patient.awaits
    assert patient.raw.exists(patient.keys.abandoned)
    patient.pipeline.forgotten(patient.ref)
    assert patient.hints.sent[-1][0] == jobs.SUMMARIZE
    assert patient.summarize().outcome == "unknown"

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.endpoint.batches.files == {}
    assert not patient.raw.exists(patient.keys.abandoned)


def test_of_two_workers_that_hand_in_at_once_one_takes_it_back(patient: Patient) -> None:
    patient.client.open("s", PATIENT)
    patient.say_until(2_000)
    snapshot = RedisSessions(patient.raw).snapshot(patient.ref)
    assert snapshot is not None
    counter = counter_for(PATIENT.encoding)
    planned = plan(snapshot, counter)
    assert planned is not None

    first, second = (patient.batching.hand_in(patient.ref, planned, counter) for _ in range(2))

    assert first is not None
    assert second is None
    assert patient.endpoint.batches.statuses == ["in_progress", "cancelled"]
    assert len(patient.endpoint.batches.files) == 1


@pytest.mark.parametrize("note", ["{", '{"batch": 7}', "{}"], ids=["cut off", "wrong", "empty"])
def test_a_note_that_cannot_be_read_is_dropped(patient: Patient, note: str) -> None:
    patient.hand_in()
    patient.raw.set(patient.keys.batch, note, px=60_000)

    assert patient.summarize().outcome == "committed"

    assert not patient.awaits


def test_what_is_remembered_says_nothing_and_expires(patient: Patient) -> None:
    patient.hand_in()

    note: bytes = patient.raw.get(patient.keys.batch)  # type: ignore[assignment]
    left: int = patient.raw.pttl(patient.keys.batch)

    assert b"Anna" not in note
    assert KEY.encode() not in note
    assert 0 < left <= 2 * 24 * 3600 * 1000


def test_what_a_batch_cost_for_nothing_is_kept_for_its_model_beside_what_was_spent_before(
    patient: Patient,
) -> None:
    spent = Spent(calls=1, prompt_tokens=100, completion_tokens=20, cost_usd=0.5)
    twice = spent.of("other") + spent.of("model")
    earlier = {name: value for name, value in asdict(spent).items() if name != "by_model"}
    cases = [
        (spent, asdict(twice), twice),
        (replace(spent, cost_usd=None), asdict(twice), twice),
        (spent, earlier, spent.of("")),  # of an older version
        (spent, None, NOTHING),
    ]
    for cost, stored, before in cases:
        patient.hand_in()
        if stored:
            patient.raw.hset(patient.keys.meta, "spent", json.dumps(stored))
        batch = patient.notes.remembered(patient.ref)
        assert batch is not None
        model = batch.awaited.model

        assert patient.notes.drop(patient.ref, batch, cost)

        snapshot = RedisSessions(patient.raw).snapshot(patient.ref)
        assert snapshot is not None
        assert snapshot.tried.spent == before + cost.of(model)
        patient.client.forget("s")


def test_a_batch_is_ended_though_a_session_of_the_same_name_began_since(patient: Patient) -> None:
    patient.hand_in()
    patient.client.forget("s")
    patient.client.open("s", PATIENT)

    patient.pipeline.forgotten(patient.ref)
    assert patient.hints.sent[-1][0] == jobs.SUMMARIZE
    patient.summarize()

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.endpoint.batches.files == {}


def test_the_batch_of_a_session_that_expired_is_ended(patient: Patient) -> None:
    patient.hand_in()
    patient.raw.delete(patient.keys.meta, patient.keys.log, patient.keys.counts)
    sweeper = Sweeper(RedisSweepLists(patient.raw), patient.hints, stale_after_s=0)

    for _ in range(2 * EXPIRY_EVERY):
        sweeper.run()
    assert (jobs.COMPACT, patient.ref) in patient.hints.sent
    assert patient.pipeline.compact(patient.ref).outcome == "unknown"
    assert patient.hints.sent[-1] == (jobs.SUMMARIZE, patient.ref)
    assert patient.summarize().outcome == "unknown"

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.endpoint.batches.files == {}
    assert not patient.awaits
