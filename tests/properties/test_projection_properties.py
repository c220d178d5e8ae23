"""What holds of every read while no worker has run: contexts are cut, and nobody waits."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.image_parts import data_url, image, png
from tests.properties.strategies import (
    SYSTEM_PROMPTS,
    GivenTurn,
    conversations,
    legal_conversations,
    policies,
    texts,
)
from turnmill import Context, ContextClient, Policy, SystemPromptTooLarge
from turnmill.contract.estimate import bound_turn
from turnmill.contract.legality import CallTracker, segments, violations
from turnmill.contract.turns import encode_turn, to_turn
from turnmill_worker.tokens import count_request, counter_for

COUNTER = counter_for("o200k_base")

limits = policies((512, 1024))
FORMULAS = st.sampled_from(["gpt-4o", "gpt-4o-mini", "gpt-5-nano"])
SIDES = st.sampled_from([(1, 1), (640, 480), (1024, 768), (3000, 200), (8000, 8000)])
DETAILS = st.sampled_from([{}, {"detail": "low"}, {"detail": "high"}, {"detail": "auto"}])


def _showing(
    sides: tuple[int, int], size: int, detail: dict[str, str], text: str, pin: int
) -> GivenTurn:
    url = data_url(png(size, width=sides[0], height=sides[1], size=size))
    content = [{"type": "text", "text": text}, image(url, **detail)]
    return GivenTurn(({"role": "user", "content": content},), pinned=pin == 0)


SHOWING = st.builds(
    _showing, SIDES, st.sampled_from([20, 2000]), DETAILS, texts(40), st.integers(0, 5)
)
quickly = settings(
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def opened(client: ContextClient, policy: Policy, system: str) -> str:
    """A new session under this policy, without the prompt when it leaves no room."""
    session = uuid.uuid4().hex
    try:
        client.open(session, policy, system)
    except SystemPromptTooLarge:
        client.open(session, policy)
    return session


def pushed(
    client: ContextClient, said: list[GivenTurn], policy: Policy, system: str = ""
) -> Context:
    """The context read once all was pushed."""
    session = opened(client, policy, system)
    client.push_many((session, turn.as_pushed()) for turn in said)
    return client.read(session)


def bound_of(turn: GivenTurn) -> int:
    """What a read takes the turn to cost before anybody has counted it."""
    return bound_turn(encode_turn(to_turn(turn.as_pushed()))[0])


def legal_turns(said: list[GivenTurn]) -> list[list[dict[str, Any]]]:
    """The turns as a provider takes them."""
    tracker = CallTracker()
    return [list(tracker.repair(turn.messages)) for turn in said]


def dropped(said: list[GivenTurn], turns: int) -> list[int]:
    """The places of the oldest turns a projection may leave out, until it left out this many."""
    found, _ = segments(range(len(said)), [turn.messages for turn in said])
    gone: list[int] = []
    for group in found:
        if len(gone) < turns and not any(said[at].pinned for at in group):
            gone += group
    return gone


@settings(parent=quickly, max_examples=100)
@given(said=conversations(60, least=3), policy=limits, system=SYSTEM_PROMPTS)
def test_a_read_never_exceeds_the_hard_limit_and_has_everything_or_a_receipt(
    client: ContextClient, said: list[GivenTurn], policy: Policy, system: str
) -> None:
    read = pushed(client, said, policy, system)

    assert count_request(COUNTER, read.messages) <= read.tokens <= policy.hard_limit
    everything = [message for turn in legal_turns(said) for message in turn]
    if read.projection is None:
        assert read.messages[len(read.messages) - len(everything) :] == everything
    elif read.projection.turns:
        shown = [str(message.get("content")) for message in read.messages]
        start = f"[Turn{'s' if read.projection.turns > 1 else ''} {read.projection.first_seq}"
        assert any(start in text for text in shown)


@quickly
@given(
    said=conversations(40, least=2, most=12),
    shown=st.lists(st.tuples(st.integers(0, 30), SHOWING), min_size=1, max_size=8),
    policy=policies((512, 4096, 60_000)),
    formula=FORMULAS,
    system=SYSTEM_PROMPTS,
)
def test_a_read_with_images_never_exceeds_the_hard_limit_and_is_valid(
    client: ContextClient,
    said: list[GivenTurn],
    shown: list[tuple[int, GivenTurn]],
    policy: Policy,
    formula: str,
    system: str,
) -> None:
    for place, turn in shown:
        said.insert(place, turn)

    read = pushed(client, said, policy.model_copy(update={"image_formula": formula}), system)

    exact = count_request(counter_for("o200k_base", formula), read.messages)
    assert exact <= read.tokens <= policy.hard_limit
    assert violations(read.messages) == []


@quickly
@given(said=conversations(30, least=6, pins=False), policy=limits)
def test_a_receipt_names_the_turns_that_are_missing(
    client: ContextClient, said: list[GivenTurn], policy: Policy
) -> None:
    read = pushed(client, said, policy)
    receipt = read.projection
    places, _ = segments(range(len(said)), [turn.messages for turn in said])
    newest = sum(bound_of(GivenTurn(tuple(legal_turns(said)[at]))) for at in places[-1])
    if receipt is not None and receipt.turns and 2 * newest < policy.hard_limit:
        gone = dropped(said, receipt.turns)
        kept = [turn for at, turn in enumerate(legal_turns(said)) if at not in gone]
        roles = [message["role"] for turn in kept for message in turn]
        assert len(gone) == receipt.turns
        assert (gone[0] + 1, gone[-1] + 1) == (receipt.first_seq, receipt.last_seq)
        asked = read.messages[0]["content"].startswith(("[The request", "[What the user"))
        assert [m["role"] for m in read.messages[1 + asked :]] == roles


@quickly
@given(
    said=legal_conversations(60, least=3, pins=False),
    policy=policies((2048,)),
    system=SYSTEM_PROMPTS,
)
def test_the_newest_turn_is_there_whole_or_shortened(
    client: ContextClient, said: list[GivenTurn], policy: Policy, system: str
) -> None:
    read = pushed(client, said, policy, system)

    newest = [(m["role"], m.get("tool_call_id")) for m in said[-1].messages]
    assert [(m["role"], m.get("tool_call_id")) for m in read.messages[-len(newest) :]] == newest


@quickly
@given(said=legal_conversations(6, least=12, most=40), policy=policies((1024, 2048)))
def test_pins_that_fit_are_kept_word_for_word(
    client: ContextClient, said: list[GivenTurn], policy: Policy
) -> None:
    read = pushed(client, said, policy)

    places, _ = segments(range(len(said)), [turn.messages for turn in said])
    stay = [group for group in places if any(said[at].pinned for at in group)] + places[-1:]
    needed = sum(bound_of(said[at]) for group in stay for at in group)
    if 2 * needed < policy.limits(0).target:
        assert all(m in read.messages for turn in said if turn.pinned for m in turn.messages)


@settings(parent=quickly, max_examples=15)
@given(
    said=st.lists(legal_conversations(4, least=4, most=8, pins=False), min_size=8, max_size=8),
    policy=policies((1024,)),
)
def test_each_read_is_a_prefix_of_the_next_but_for_rare_jumps(
    client: ContextClient, said: list[list[GivenTurn]], policy: Policy
) -> None:
    turns = [turn for part in said for turn in part]
    session = opened(client, policy, "You are terse.")
    reads = []

    for turn in turns:
        client.push(session, turn.as_pushed())
        reads.append(client.read(session).messages)

    pairs = list(pairwise(reads))
    jumps = [at for at, (one, next_) in enumerate(pairs, 1) if next_[: len(one)] != one]
    # From one jump up to and with the turn that made the next.
    between = [
        sum(bound_of(turn) for turn in turns[start + 1 : end + 1]) for start, end in pairwise(jumps)
    ]
    room = policy.limits(0).hard - policy.limits(0).target
    # A large turn cannot be dropped while it is the newest, so a jump may follow it at once.
    largest = max(bound_of(turn) for turn in turns)
    assert min(between, default=room) > room / 8 or largest > room / 4


@quickly
@given(text=st.integers(200, 20_000), policy=limits)
def test_one_message_larger_than_any_context_is_shortened_and_says_so(
    client: ContextClient, text: int, policy: Policy
) -> None:
    giant = GivenTurn(({"role": "user", "content": "begin " + "work " * text + "end"},))

    read = pushed(client, [giant], policy)

    if read.projection is not None:
        content = read.messages[-1]["content"]
        assert content.startswith("begin ")
        assert content.endswith("end")
        assert "characters removed" in content
