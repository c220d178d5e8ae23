"""What holds when counts ask for a compaction, not tokens: images, interactions, runs, steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.strategies import GivenTurn, conversations
from tests.properties.test_compaction_properties import (
    COUNT,
    compact,
    compacted,
    no_deadline,
    rendered,
    snapshot_of,
)
from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations
from turnmill.contract.names import Seq
from turnmill.contract.policy import StrategyName
from turnmill_worker.compaction.plan import groups
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, images

IMAGE = {
    "type": "image_url",
    "image_url": {"url": f"blob:{'ab' * 32};image/png;64x64", "detail": "low"},
}


def seen(turn: GivenTurn) -> GivenTurn:
    """The turn with an image in each of its users' messages."""
    messages: list[JsonMessage] = []
    for message in turn.messages:
        text = message.get("content")
        if message["role"] == "user" and isinstance(text, str):
            messages.append({**message, "content": [{"type": "text", "text": text}, IMAGE]})
        else:
            messages.append(message)
    return GivenTurn(tuple(messages), turn.pinned)


@st.composite
def sessions(draw: st.DrawFn) -> list[GivenTurn]:
    said = draw(conversations(20, least=6))
    with_image = draw(st.sets(st.integers(0, len(said) - 1)))
    return [seen(turn) if at in with_image else turn for at, turn in enumerate(said)]


LADDER: tuple[StrategyName, ...] = ("images", "elide", "rolling", "window")

asking = st.one_of(
    st.builds(
        lambda most, keep, size: Policy(
            max_tokens=size, max_history_images=most, keep_first_image=keep, strategies=LADDER
        ),
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from([1024, 8192]),
    ),
    st.builds(
        lambda most, rolling: Policy(
            max_tokens=8192,
            max_interactions=most,
            strategies=("rolling", "window") if rolling else ("window",),
        ),
        st.integers(1, 4),
        st.booleans(),
    ),
    st.builds(
        lambda recent, beside, size: Policy.managed(
            recent_runs=recent, passthrough_runs=min(beside, recent), max_tokens=size
        ),
        st.integers(1, 4),
        st.integers(0, 3),
        st.sampled_from([1024, 8192]),
    ),
    st.builds(
        lambda keep, size: Policy.iterations(keep_recent_iterations=keep, max_tokens=size),
        st.integers(0, 3),
        st.sampled_from([512, 1024]),
    ),
)
asked_for = st.builds(snapshot_of, sessions(), asking)


@no_deadline
@given(asked_for)
def test_the_result_is_valid_and_costs_what_it_is_said_to_cost(snapshot: Snapshot) -> None:
    done = compacted(snapshot)

    assert violations(done.read) == []
    assert COUNT(done.read) + done.after.usage.REPLY == done.after.usage.total


@no_deadline
@given(asked_for)
def test_the_result_is_within_the_soft_limit(snapshot: Snapshot) -> None:
    done = compacted(snapshot)

    assert done.after.usage.total <= snapshot.limits.soft


@no_deadline
@given(asked_for)
def test_every_turn_is_covered_or_kept_and_every_covered_one_accounted_for(
    snapshot: Snapshot,
) -> None:
    done = compacted(snapshot)

    covered = [turn for group in done.plan.covered for turn in group.turns]
    kept = [turn.seq for turn in done.after.turns]
    assert [turn.seq for turn in covered] + kept == [turn.seq for turn in snapshot.turns]
    asked = {seq for request in done.plan.requests for seq, _ in request.records}
    pinned = {pin.seq for pin in done.context.pins}
    named = {s for r in done.context.receipts for s in range(r.first_seq, r.last_seq + 1)}
    assert asked | pinned | named >= {turn.seq for turn in covered}


@no_deadline
@given(asked_for)
def test_the_newest_turn_and_open_calls_are_kept_as_they_are(snapshot: Snapshot) -> None:
    done = compacted(snapshot)

    kept = {turn.seq: turn for turn in done.after.turns}
    waiting = [turn for group in groups(snapshot) if not group.closed for turn in group.turns]
    assert done.after.turns[-1].seq == snapshot.turns[-1].seq
    for turn in waiting:
        assert [{**m, "content": None} for m in kept[turn.seq].shown] == [
            {**m, "content": None} for m in turn.original
        ]


@no_deadline
@given(sessions(), st.integers(0, 3), st.booleans())
def test_no_more_images_are_left_than_the_policy_keeps(
    said: list[GivenTurn],
    most: int,
    keep_first: bool,  # noqa: FBT001
) -> None:
    policy = Policy(max_history_images=most, keep_first_image=keep_first)
    before = snapshot_of(said, policy)
    done = compact(before)
    after = before if done is None else done.after

    pinned = sum(images(turn.shown) for turn in after.turns if turn.pinned)
    assert sum(images(turn.shown) for turn in after.turns) <= most + keep_first + pinned
    newest = (
        [t for t in before.turns if images(t.original) and not t.pinned][-most:] if most else []
    )
    shown = {turn.seq: turn.shown for turn in after.turns}
    assert all(shown.get(turn.seq) == turn.original for turn in newest)


@no_deadline
@given(sessions(), asking)
def test_a_session_compacted_as_it_grows_loses_nothing_on_the_way(
    said: list[GivenTurn], policy: Policy
) -> None:
    whole = snapshot_of(said, policy)
    session = replace(whole, turns=(), counted_seq=Seq(0))
    covered: list[LoggedTurn] = []
    asked: set[int] = set()

    for turn in whole.turns:
        turns = (*session.turns, turn)
        session = replace(session, turns=turns, counted_seq=turn.seq, memo={})
        if "managed" in policy.strategies:
            session = replace(session, earlier=tuple(covered))
        over = session.usage.total > session.limits.soft
        if (over or session.exceeded) and (done := compact(session)) is not None:
            asked |= {seq for request in done.plan.requests for seq, _ in request.records}
            covered += [t for group in done.plan.covered for t in group.turns]
            before = sum(images(t.original) for t in covered)
            session = replace(done.after, images_before=before)

    stored = session.stored
    named = {s for r in stored.receipts for s in range(r.first_seq, r.last_seq + 1)}
    seqs = asked | named | {p.seq for p in stored.pins} | {t.seq for t in session.turns}
    assert seqs >= {turn.seq for turn in whole.turns}
    assert violations(rendered(session)) == []


@no_deadline
@given(sessions(), st.integers(0, 3))
def test_events_are_appended_and_what_was_told_stays_as_it_is(
    said: list[GivenTurn], keep: int
) -> None:
    policy = Policy.iterations(keep_recent_iterations=keep, max_tokens=1024, summary_ratio=0.4)
    whole = snapshot_of(said, policy)
    session = replace(whole, turns=(), counted_seq=Seq(0))

    for turn in whole.turns:
        turns = (*session.turns, turn)
        session = replace(session, turns=turns, counted_seq=turn.seq, memo={})
        if session.usage.total > session.limits.soft and (done := compact(session)) is not None:
            old, new = session.stored.events, done.context.events
            folded = new[:1] != old[:1] and old
            assert new[: len(old)] == old or folded
            session = done.after
    numbers = [(event.iteration, event.last_iteration) for event in session.stored.events]
    assert numbers == sorted(numbers)
