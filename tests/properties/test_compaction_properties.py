"""What holds of every compaction, whatever the conversation and the policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.effort import assert_linear
from tests.properties.strategies import GivenTurn, conversations, legal_conversations, policies
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.legality import CallTracker, violations
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy, StrategyName
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Plan, groups
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot, images
from turnmill_worker.compaction.splice import splice
from turnmill_worker.compaction.strategies.choose import plan
from turnmill_worker.compaction.with_digest import known_after, with_digest
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.ports.protocols import digest
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.tokens import counter_for

COUNTER = counter_for("o200k_base")
COUNT = COUNTER.count_messages

ladders = policies((512, 1024))
no_deadline = settings(deadline=None, max_examples=50)


class Done(NamedTuple):
    """A compaction that ran: what it was planned from, its plan, what it commits, what follows."""

    before: Snapshot
    plan: Plan
    context: StoredContext
    after: Snapshot

    @property
    def read(self) -> list[JsonMessage]:
        """The messages read next."""
        return rendered(self.after)


def snapshot_of(said: Sequence[GivenTurn], policy: Policy, *, uncounted: int = 0) -> Snapshot:
    """The session that was pushed these turns; the newest ``uncounted`` nobody has counted."""
    tracker = CallTracker()
    legal = [tracker.repair(turn.messages) for turn in said]
    counted = len(said) - uncounted
    return Snapshot(
        namespace=Namespace("pure"),
        session=SessionId("s"),
        epoch="1",
        revision="1",
        policy=policy,
        system_tokens=0,
        stored=EMPTY,
        turns=tuple(
            LoggedTurn(Seq(seq), turn.messages, turn.messages, COUNT(messages), turn.pinned)
            for seq, (turn, messages) in enumerate(
                zip(said[:counted], legal[:counted], strict=True), 1
            )
        ),
        counted_seq=Seq(counted),
        pending=sum(COUNT(messages) for messages in legal[counted:]),
        pending_messages=tuple(turn.messages for turn in said[counted:]),
    )


def compact(snapshot: Snapshot) -> Done | None:
    """What the pipeline commits, down the ladder; None when it gives up."""
    below = ""
    while (found := plan(snapshot, COUNTER, below=below)) is not None:
        found = with_digest(found, COUNTER)
        try:
            context = splice(found, texts_for(found), COUNTER)
        except SummaryRejected:
            below = found.strategy
            continue
        kept = tuple(turn for turn in found.snapshot.turns if turn.seq > context.watermark)
        known = known_after(found, COUNTER)
        after = replace(
            found.snapshot, stored=context, turns=kept, known=known, memo={}, unelided=None
        )
        return Done(snapshot, found, context, after)
    return None


def texts_for(found: Plan) -> list[str]:
    return [ExtractiveSummarizer().summarize(each, COUNTER).text for each in found.requests]


def compacted(snapshot: Snapshot) -> Done:
    """A compaction; examples that need none are passed over."""
    done = compact(snapshot)
    assume(done is not None)
    assert done is not None
    return done


def rendered(snapshot: Snapshot) -> list[JsonMessage]:
    """What a read of this session gives."""
    messages = render_head(snapshot.stored)
    tracker = CallTracker()
    for shown in (*(turn.shown for turn in snapshot.turns), *snapshot.pending_messages):
        messages += tracker.repair(shown)
    return messages


# Sessions that ask for a compaction by counts, not tokens: images, interactions, runs, steps.

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
snapshots = st.builds(snapshot_of, conversations(30, least=6), ladders)
legal_snapshots = st.builds(snapshot_of, legal_conversations(30, least=6), ladders)
asked_for = st.builds(snapshot_of, sessions(), asking)
all_snapshots = snapshots | asked_for


@settings(parent=no_deadline, max_examples=120)
@given(all_snapshots)
def test_every_turn_is_covered_and_told_of_or_kept_and_the_result_is_valid_at_its_price(
    snapshot: Snapshot,
) -> None:
    done = compacted(snapshot)

    covered = [turn.seq for group in done.plan.covered for turn in group.turns]
    assert covered + [turn.seq for turn in done.after.turns] == [t.seq for t in snapshot.turns]
    records = [each for request in done.plan.requests for each in request.records]
    pinned = {pin.seq for pin in done.context.pins}
    named = {s for r in done.context.receipts for s in range(r.first_seq, r.last_seq + 1)}
    for turn in (turn for group in done.plan.covered for turn in group.turns):
        asked = all((turn.seq, message) in records for message in turn.original)
        assert asked or turn.seq in pinned or turn.seq in named
    assert done.after.turns[-1].seq == snapshot.turns[-1].seq
    assert violations(done.read) == []
    assert COUNT(done.read) + done.after.usage.REPLY == done.after.usage.total


@no_deadline
@given(legal_snapshots)
def test_pinned_turns_stay_word_for_word_and_what_was_legal_needs_no_repair(
    snapshot: Snapshot,
) -> None:
    done = compacted(snapshot)

    kept = {pin.seq: pin.messages for pin in done.context.pins}
    kept |= {turn.seq: turn.shown for turn in done.after.turns}
    for turn in snapshot.turns:
        assert not turn.pinned or kept[turn.seq] == turn.original
    plain = render_head(done.context) + [m for t in done.after.turns for m in t.shown]
    assert violations(plain) == []


@settings(parent=no_deadline, max_examples=100)
@given(snapshots)
def test_elisions_say_so_the_target_is_met_and_again_there_is_nothing_to_do(
    snapshot: Snapshot,
) -> None:
    done = compacted(snapshot)

    turns = {turn.seq: turn for turn in done.after.turns}
    for elision in done.context.elisions:
        whole = turns[Seq(elision.seq)].original[elision.index]
        shown = turns[Seq(elision.seq)].shown[elision.index]
        assert shown == elision.message != whole
        assert "removed" in json.dumps(shown)
        assert (COUNT([whole]), COUNT([shown])) == (elision.tokens_before, elision.tokens_after)
        for field in ("role", "tool_call_id"):
            assert shown.get(field) == whole.get(field)
    limits = snapshot.limits
    # Half way to it when messages were only shortened.
    most = limits.target if done.plan.covered else (limits.target + limits.soft) // 2
    assert done.after.usage.total <= most
    assert compact(done.after) is None


@no_deadline
@given(conversations(30, least=6), ladders, st.integers(0, 3))
def test_open_batches_are_never_touched(
    said: list[GivenTurn], policy: Policy, uncounted: int
) -> None:
    snapshot = snapshot_of(said, policy, uncounted=min(uncounted, len(said) - 1))

    done = compacted(snapshot)

    kept = {turn.seq: turn for turn in done.after.turns}
    waiting = [t for g in groups(snapshot) if not g.closed for t in g.turns]
    assert [kept[turn.seq].shown for turn in waiting] == [turn.original for turn in waiting]


@no_deadline
@given(conversations(30, least=6), ladders, st.integers(1, 6), st.integers(0, 3))
def test_a_plan_made_again_after_more_was_pushed_is_the_same(
    said: list[GivenTurn], policy: Policy, later: int, uncounted: int
) -> None:
    early = max(len(said) - later, 1)
    before = snapshot_of(said[:early], policy)
    grown = snapshot_of(said, policy, uncounted=min(uncounted, len(said) - early))

    first, again = plan(before, COUNTER), plan(grown.as_of(before.counted_seq), COUNTER)

    assert again == first
    if first is not None and again is not None:
        asked = [digest(request) for request in first.requests]
        assert [digest(request) for request in again.requests] == asked


@no_deadline
@given(conversations(30, least=6), ladders)
def test_the_same_session_is_compacted_to_the_same_bytes(
    said: list[GivenTurn], policy: Policy
) -> None:
    one, other = (compact(snapshot_of(said, policy)) for _ in range(2))

    assert (one and one.context) == (other and other.context)


@no_deadline
@given(snapshots, st.sampled_from(["", " \n\t", "word " * 4000]))
def test_an_empty_or_oversized_summary_is_never_accepted(snapshot: Snapshot, text: str) -> None:
    found = plan(snapshot, COUNTER)
    assume(found is not None and found.request is not None)
    assert found is not None

    try:
        splice(found, [text] * len(found.requests), COUNTER)
    except SummaryRejected as error:
        refusal = str(error)

    assert refusal
    assert "word" not in refusal


@no_deadline
@given(asked_for)
def test_the_result_is_within_the_soft_limit_when_counts_ask_for_it(snapshot: Snapshot) -> None:
    done = compacted(snapshot)

    assert done.after.usage.total <= snapshot.limits.soft


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
@given(sessions() | conversations(30, least=6, most=40), asking | ladders)
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


def test_planning_takes_time_in_proportion_to_the_turns() -> None:
    def turn(number: int) -> GivenTurn:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        return GivenTurn(
            (
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": f"{number} result " * 60},
            )
        )

    def planned(turns: int) -> None:
        snapshot = snapshot_of([turn(n) for n in range(turns)], Policy(max_tokens=turns * 60))
        assert plan(snapshot, COUNTER) is not None

    assert_linear(planned, size=250)
