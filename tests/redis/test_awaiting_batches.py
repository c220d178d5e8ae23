"""What becomes of a summary that is awaited from a batch; the stages of a worker run by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest
import redis
from pydantic import SecretStr

from tests.processes import wait_until
from tests.properties.stepping import SentHints
from tests.worker.harness import PATIENT, Monitor
from turnmill import ContextClient, Policy
from turnmill.contract import jobs
from turnmill.contract.job_outcomes import Compaction, Outcome
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.scripts import load_script
from turnmill.embedded_redis import EmbeddedRedis
from turnmill.testing import BatchFault, FakeEndpoint, Fault
from turnmill_worker.background.sweep import EXPIRY_EVERY, Sweeper
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.pipeline.batch import Batches
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.protocols import AwaitedSummary
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.settings import Settings
from turnmill_worker.spending import Spent
from turnmill_worker.store import lua
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
        while self.client.info("s").usage.total <= tokens:
            self.say(1)

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


def test_turns_nobody_has_counted_do_not_change_the_plan(patient: Patient) -> None:
    patient.client.open("s", PATIENT)
    patient.say_until(2_000)
    stages = patient.pipeline
    stages.estimate = lambda ref: Outcome(outcome="estimated", session=ref.session)  # type: ignore[method-assign]
    patient.client.push("s", {"role": "user", "content": "One more thing."})
    assert stages.summarize(patient.ref).outcome == "batched"

    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "committed"
    assert patient.live == 0
    assert patient.client.read("s").messages[-1]["content"] == "One more thing."


def test_it_costs_half(patient: Patient) -> None:
    patient.hand_in()
    patient.endpoint.batches.takes_s = 0.0
    patient.summarize()

    record = patient.record
    whole = (record.prompt_tokens * 0.15 + record.completion_tokens * 0.6) / 1e6
    assert record.model == "gpt-4o-mini"
    assert record.cost_usd == pytest.approx(whole / 2)


def test_a_job_that_may_not_ask_a_model_hands_the_session_on(patient: Patient) -> None:
    patient.hand_in()
    asked = len(patient.endpoint.requests)

    outcome = patient.pipeline.compact(patient.ref)

    assert outcome.outcome == "needs-summary"
    assert patient.hints.sent[-1][0] == jobs.SUMMARIZE
    assert len(patient.endpoint.requests) == asked


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


@pytest.mark.parametrize("faults", [["401"], ["404"], ["500"], ["reset"], ["ok", "400"]])
def test_where_none_can_be_handed_in_the_model_is_asked_live(
    patient: Patient, faults: list[Fault]
) -> None:
    patient.client.open("s", PATIENT)
    patient.say_until(2_000)
    patient.endpoint.fail_next(*faults)

    outcome = patient.summarize()

    assert outcome.outcome == "committed"
    assert patient.live == 1
    assert not patient.awaits


def test_an_answer_that_is_not_good_is_followed_by_one_live_request(patient: Patient) -> None:
    patient.endpoint.fail_next_batches("refusal")
    patient.hand_in()
    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.record.model == "gpt-4o-mini"


def test_an_answer_that_is_not_good_enough_is_not_asked_for_again_at_once(
    patient: Patient,
) -> None:
    patient.client.open("s", PATIENT.model_copy(update={"quality_threshold": 1.0}))
    patient.say_until(2_000)
    assert patient.summarize().outcome == "batched"
    patient.say(2)
    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "below-quality"

    assert patient.client.info("s").due_in_s is None
    patient.say(1)
    assert patient.client.info("s").due_in_s is None
    assert not patient.awaits


def test_after_two_answers_that_are_not_good_another_summarizer_writes(patient: Patient) -> None:
    patient.endpoint.fail_next_batches("refusal")
    patient.hand_in()
    patient.endpoint.batches.takes_s = 0.0
    patient.endpoint.fail_next("ok", "ok", "empty")  # the look, the file, the live answer

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.record.model == "extractive"
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


def test_an_urgent_session_takes_a_batch_that_is_done(patient: Patient) -> None:
    patient.hand_in()
    patient.say_until(3_000)
    patient.endpoint.batches.takes_s = 0.0

    assert patient.summarize().outcome == "committed"

    assert patient.live == 0


def test_a_batch_is_given_up_at_its_deadline(patient: Patient) -> None:
    patient.hand_in()
    patient.deadline_s = 0.0

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.endpoint.batches.statuses == ["cancelled"]


def test_a_session_that_leaps_over_its_limit_is_summarized_live(patient: Patient) -> None:
    patient.client.open("s", PATIENT)
    patient.say_until(2_600)

    assert patient.summarize().outcome == "committed"

    assert patient.live == 1
    assert patient.endpoint.batches.statuses == []


def test_what_counts_ask_for_does_not_wait(patient: Patient) -> None:
    patient.client.open("s", PATIENT.model_copy(update={"max_interactions": 3}))
    patient.say(12)

    assert patient.summarize().outcome == "committed"

    assert patient.endpoint.batches.statuses == []


@pytest.mark.parametrize("changed", [{"batch": False}, {"model": "gpt-4.1-mini"}])
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


def test_a_policy_without_a_model_ends_the_batch_of_the_one_before(patient: Patient) -> None:
    patient.hand_in()
    patient.client.open("s", Policy(max_tokens=100_000))
    patient.pipeline.estimate(patient.ref)

    assert patient.summarize().outcome == "skipped"

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert not patient.awaits


def test_a_cleared_session_is_due_so_that_its_batch_is_ended(patient: Patient) -> None:
    patient.hand_in()

    patient.client.clear("s")
    assert patient.client.info("s").due_in_s is not None
    assert patient.summarize().outcome == "skipped"

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.endpoint.batches.files == {}
    assert not patient.awaits
    assert patient.client.info("s").due_in_s is None


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


def test_forgetting_a_session_without_a_batch_asks_nobody(patient: Patient) -> None:
    patient.client.open("s", PATIENT)
    patient.say(3)
    patient.client.forget("s")
    patient.hints.sent.clear()

    patient.pipeline.forgotten(patient.ref)

    assert patient.hints.sent == []


def test_a_compaction_somebody_asks_for_does_not_wait(patient: Patient) -> None:
    patient.hand_in()

    done = patient.pipeline.force(patient.ref, template="")

    assert done.turns_summarized > 0
    assert patient.live == 1
    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert not patient.awaits


def batch_cost(patient: Patient) -> Spent:
    """What the endpoint says of the batch that is done by now."""
    patient.endpoint.batches.takes_s = 0.0
    noted = patient.notes.remembered(patient.ref)
    assert noted is not None
    spent = patient.batches.cost(noted.awaited)
    assert spent.prompt_tokens > 0
    return spent


def live_cost(patient: Patient) -> int:
    """Prompt tokens of the one live request."""
    [asked] = [each for each in patient.endpoint.requests if each.path == LIVE]
    return len(asked.prompt) // 4


@pytest.mark.parametrize("tells_usage", [True, False])
def test_what_a_batch_that_is_given_up_has_cost_is_recorded(
    patient: Patient, *, tells_usage: bool
) -> None:
    patient.endpoint.batches.tells_usage = tells_usage
    patient.hand_in()
    wasted = batch_cost(patient)
    patient.client.open("s", PATIENT.model_copy(update={"max_output_tokens": 900}))
    patient.pipeline.estimate(patient.ref)

    assert patient.summarize().outcome == "committed"

    record = patient.record
    assert record.prompt_tokens == live_cost(patient) + wasted.prompt_tokens
    live = (record.prompt_tokens - wasted.prompt_tokens) * 0.15
    live += (record.completion_tokens - wasted.completion_tokens) * 0.6
    assert record.cost_usd == pytest.approx(live / 1e6 + (wasted.cost_usd or 0.0))
    assert patient.raw.hget(patient.keys.meta, "spent") is None


def test_a_batch_cancelled_under_way_costs_nothing_anybody_knows_of(patient: Patient) -> None:
    patient.hand_in()
    patient.say_until(3_000)

    assert patient.summarize().outcome == "committed"

    assert patient.endpoint.batches.statuses == ["cancelled"]
    assert patient.record.prompt_tokens == live_cost(patient)


def test_it_is_recorded_with_the_next_compaction_when_none_is_due_now(patient: Patient) -> None:
    patient.hand_in()
    wasted = batch_cost(patient)
    patient.client.open("s", Policy(max_tokens=100_000))
    patient.pipeline.estimate(patient.ref)
    assert patient.summarize().outcome == "skipped"

    patient.client.open("s", Policy(max_tokens=2_000, strategies=("window",)))
    patient.pipeline.estimate(patient.ref)
    assert patient.pipeline.compact(patient.ref).outcome == "committed"

    record = patient.record
    assert (record.prompt_tokens, record.cost_usd) == (wasted.prompt_tokens, wasted.cost_usd)


def test_it_is_recorded_with_the_compaction_somebody_asks_for(patient: Patient) -> None:
    patient.hand_in()
    wasted = batch_cost(patient)

    patient.pipeline.force(patient.ref, template="")

    assert patient.record.prompt_tokens == live_cost(patient) + wasted.prompt_tokens


def test_what_a_batch_that_was_used_cost_is_recorded_once(patient: Patient) -> None:
    patient.hand_in()
    cost = batch_cost(patient)

    assert patient.summarize().outcome == "committed"

    assert patient.record.prompt_tokens == cost.prompt_tokens
    assert patient.raw.hget(patient.keys.meta, "spent") is None


@pytest.mark.parametrize("before", [0.5, None])
@pytest.mark.parametrize("cost", [0.25, None])
def test_of_two_who_give_a_batch_up_one_counts_it(
    patient: Patient, before: float | None, cost: float | None
) -> None:
    patient.hand_in()
    noted = patient.notes.remembered(patient.ref)
    assert noted is not None
    earlier = Spent(calls=1, prompt_tokens=10, completion_tokens=1, cost_usd=before)
    patient.raw.hset(patient.keys.meta, "spent", json.dumps(asdict(earlier)))
    spent = Spent(calls=1, prompt_tokens=7, completion_tokens=3, cost_usd=cost)

    assert [patient.notes.drop(patient.ref, noted, spent) for _ in range(2)] == [True, False]

    snapshot = RedisSessions(patient.raw).snapshot(patient.ref)
    assert snapshot is not None
    assert snapshot.tried.spent == earlier + spent


def test_a_session_that_is_gone_is_not_brought_back_by_what_its_batch_cost(
    patient: Patient,
) -> None:
    patient.hand_in()
    noted = patient.notes.remembered(patient.ref)
    assert noted is not None
    patient.raw.delete(patient.keys.meta)

    assert patient.notes.drop(patient.ref, noted, Spent(calls=1, prompt_tokens=7))

    assert not patient.raw.exists(patient.keys.meta)


def test_a_worker_that_died_after_its_commit_leaves_a_note_that_does_no_harm(
    patient: Patient,
) -> None:
    patient.hand_in()
    note: bytes = patient.raw.get(patient.keys.batch)  # type: ignore[assignment]
    patient.endpoint.batches.takes_s = 0.0
    patient.summarize()
    patient.raw.set(patient.keys.batch, note, px=60_000)
    patient.say(3)

    assert patient.summarize().outcome == "skipped"

    assert patient.client.info("s").version == 1
    assert not patient.awaits


def test_a_batch_of_a_session_forgotten_meanwhile_is_not_remembered(patient: Patient) -> None:
    patient.client.open("s", PATIENT)
    patient.say_until(2_000)
    snapshot = RedisSessions(patient.raw).snapshot(patient.ref)
    assert snapshot is not None
    awaited = AwaitedSummary(batch="b", file="f", nonce="n", model="m", digest="d").of(snapshot)
    patient.client.forget("s")

    assert not patient.notes.remember(patient.ref, awaited)
    assert patient.notes.remembered(patient.ref) is None


def test_a_session_awaits_one_batch_at_a_time(patient: Patient) -> None:
    patient.hand_in()
    noted = patient.notes.remembered(patient.ref)
    assert noted is not None
    other = noted.awaited.model_copy(update={"batch": "another"})

    assert not patient.notes.remember(patient.ref, other)
    patient.notes.drop(patient.ref, type(noted)(other, b"another note", 0.0))

    assert patient.awaits
    assert 0 <= noted.age_s < 60


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


def test_where_no_policy_batches_no_job_looks_for_batches(
    patient: Patient, redis_server: EmbeddedRedis
) -> None:
    patient.client.open("s", PATIENT.model_copy(update={"batch": False}))
    patient.say_until(2_000)
    scripts = [
        load_script(lua.__name__, name).sha for name in ("noted_batch", "take_abandoned_batch")
    ]

    with Monitor(redis_server.url) as monitor:
        assert patient.pipeline.compact(patient.ref).outcome == "needs-summary"
        assert patient.summarize().outcome == "committed"
        wait_until(lambda: load_script(lua.__name__, "commit").sha in monitor.text())

        assert [sha for sha in scripts if sha in monitor.text()] == []


@pytest.mark.parametrize("note", ["{", '{"batch": 7}', "{}"])
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


@pytest.mark.parametrize(
    ("age_s", "pause_s"), [(0.0, 30.0), (29.0, 30.0), (90.0, 90.0), (7_200.0, 600.0)]
)
def test_the_pauses_between_looks_grow(
    patient: Patient,
    age_s: float,
    pause_s: float,
    redis_client: redis.Redis,
    due_in: Callable[[], float],
) -> None:
    patient.hand_in()
    redis_client.pexpire(patient.keys.batch, int((2 * 24 * 3600 - age_s) * 1000))

    assert patient.summarize().outcome == "batched"

    assert due_in() == pytest.approx(pause_s, abs=2.0)


@pytest.fixture
def due_in(patient: Patient) -> Callable[[], float]:
    """Seconds until the session is due."""

    def seconds() -> float:
        found = patient.client.info("s").due_in_s
        assert found is not None
        return found

    return seconds


@pytest.mark.parametrize("changed", [{"batch": False}, {"max_tokens": 2_400}])
def test_a_changed_policy_has_the_session_looked_at_before_its_next_look(
    patient: Patient, changed: dict[str, object]
) -> None:
    patient.hand_in()

    patient.client.open("s", PATIENT.model_copy(update=changed))

    due_in_s = patient.client.info("s").due_in_s
    assert due_in_s is not None
    assert due_in_s <= 0


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
