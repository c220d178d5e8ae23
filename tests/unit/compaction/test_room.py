"""A summary has all the room that the turns beside it leave."""

from __future__ import annotations

from tests.unit.compaction.snapshots import snapshot_of
from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.compaction.strategies import choose
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import CountedOnce, counter_for

COUNTER = CountedOnce(counter_for())


def drafted(snapshot: Snapshot) -> Draft:
    plan = choose.plan(snapshot, COUNTER)
    assert plan is not None
    return Writer(lambda _: [ExtractiveSummarizer()], TemplateLoader()).best(plan, COUNTER)


def told(size: int, about: str) -> JsonMessage:
    parts = [
        f"The {about} {n} reached pier {n * 37 % 101} on tide {n * 53 % 97}." for n in range(size)
    ]
    return {"role": "user", "content": " ".join(parts)}


def test_what_a_coarse_cut_leaves_of_the_target_is_the_summarys() -> None:
    policy = Policy(max_tokens=8192)
    snapshot = snapshot_of([told(400, "ship"), told(60, "barge")], policy)

    context = drafted(snapshot).context

    target, tail = snapshot.limits.target, snapshot.turns[-1].tokens
    assert 0.95 * target <= context.tokens + tail <= target


def test_a_count_that_asks_for_a_summary_does_not_make_it_longer_than_the_target() -> None:
    policy = Policy(max_tokens=8192, max_interactions=1)
    answer: JsonMessage = {"role": "assistant", "content": "Noted."}
    turns = (told(180, "ship"), answer, told(60, "barge"))
    snapshot = snapshot_of(turns, policy)

    record = drafted(snapshot).record

    assert record.strategy == "rolling"
    assert record.tokens_after <= snapshot.limits.target
