"""A tour of turnmill, to be read from top to bottom. Everything here is real: Redis, Celery, all.

An agent *pushes* each turn of its conversation and *reads* a context that fits its model. In the
background, workers count tokens and, when a session has grown too large, *compact* it.
"""

from __future__ import annotations

import pytest

from tests.processes import wait_until
from turnmill import Context, ContextClient, Policy, SilentWaker, Turn, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations

SYSTEM = "You are a courier's assistant."

# 2,000 tokens are the hard limit. At 80 % of them a compaction starts; it aims for 50 %.
POLICY = Policy(max_tokens=2_000, soft_ratio=0.8, target_ratio=0.5)


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def delivery(number: int) -> dict[str, object]:
    return user(f"Parcel {number} goes to 12 Long Street, before noon, and Anna signs for it.")


# 1. An agent pushes and reads


def test_what_was_pushed_is_read_back_with_the_system_prompt(client: ContextClient) -> None:
    client.open("agent-7", POLICY, system_prompt=SYSTEM)

    first = client.push("agent-7", user("Where is parcel 9?"))
    second = client.push("agent-7", {"role": "assistant", "content": "On its way."})

    assert (first.seq, second.seq) == (1, 2)
    assert client.read("agent-7").messages == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Where is parcel 9?"},
        {"role": "assistant", "content": "On its way."},
    ]


def test_a_session_needs_no_opening(client: ContextClient) -> None:
    client.push("agent-7", user("Hello!"))

    assert client.info("agent-7").policy == Policy()


def test_pushing_a_turn_id_again_stores_nothing(client: ContextClient) -> None:
    # So an agent may retry a push whose answer got lost.
    once = client.push("agent-7", user("Deliver it."), turn_id="step-1")
    again = client.push("agent-7", user("Deliver it."), turn_id="step-1")

    assert again.duplicate
    assert again.seq == once.seq
    assert len(client.read("agent-7").messages) == 1


# 2. Workers count and compact, while the agent goes on


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
def test_tokens_are_counted_in_the_background(client: ContextClient) -> None:
    client.push("agent-7", user("How many tokens are these?"))

    wait_until(lambda: client.read("agent-7").exact)

    assert client.info("agent-7").usage.tail == client.read("agent-7").tokens - 3  # reply's opening


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
def test_a_context_before_and_after_a_compaction(client: ContextClient) -> None:
    client.open("agent-7", POLICY, system_prompt=SYSTEM)
    client.push_many(("agent-7", delivery(number)) for number in range(10))
    wait_until(lambda: client.read("agent-7").exact)
    before = client.read("agent-7")

    client.push_many(("agent-7", delivery(number)) for number in range(10, 100))
    after = compacted(client, "agent-7", turns=100)

    # Before: every turn, as it was pushed.
    assert (before.version, before.watermark) == (0, 0)
    assert before.messages[1:] == [delivery(number) for number in range(10)]
    # After: a summary stands for all turns up to the watermark, the newest are there in full.
    system, summary, *tail = after.messages
    assert system["content"] == SYSTEM
    assert summary["role"] == "user"
    assert summary["content"].startswith("[Summary of the conversation so far]")
    assert tail == [delivery(number) for number in range(after.watermark, 100)]
    assert after.tokens <= POLICY.max_tokens * POLICY.soft_ratio


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
def test_between_target_and_soft_limit_nothing_is_committed(client: ContextClient) -> None:
    # Each commit changes the beginning of the context, and a provider's prompt cache misses.
    client.open("agent-7", POLICY)
    client.push_many(("agent-7", delivery(number)) for number in range(100))
    settled = compacted(client, "agent-7", turns=100)

    client.push("agent-7", user("One turn more is no reason to compact."))
    wait_until(lambda: client.info("agent-7").counted_seq == 101)

    context = client.read("agent-7")
    assert context.version == settled.version
    assert context.messages[:-1] == settled.messages


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
def test_a_tool_call_and_its_result_stay_together(client: ContextClient) -> None:
    client.open("agent-7", POLICY)
    for number in range(60):
        call = {"id": f"call-{number}", "type": "function"}
        call_to = {"function": {"name": "track", "arguments": f'{{"parcel": {number}}}'}}
        answer = f"Parcel {number} was seen in hall {number % 7} at noon, undamaged."
        client.push("agent-7", {"role": "assistant", "tool_calls": [{**call, **call_to}]})
        client.push("agent-7", {"role": "tool", "tool_call_id": call["id"], "content": answer})

    context = compacted(client, "agent-7", turns=120)

    assert violations(context.messages) == []  # no provider would refuse it


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
def test_a_pinned_turn_stays_word_for_word(client: ContextClient) -> None:
    address = {"role": "user", "content": "My address is 3 Rose Lane. Never forget it!"}
    client.open("agent-7", POLICY)
    client.push("agent-7", Turn.model_validate({"messages": [address], "pinned": True}))
    client.push_many(("agent-7", delivery(number)) for number in range(100))

    context = compacted(client, "agent-7", turns=101)

    assert context.watermark > 1
    assert address in context.messages


# 3. An agent never waits for a worker


def test_without_workers_a_read_is_cut_to_its_limit_and_says_so(
    store: EmbeddedRedis, namespace: str
) -> None:
    with ContextClient(store.url, namespace=f"{namespace}-idle", broker=SilentWaker()) as client:
        client.open("agent-7", POLICY)
        client.push_many(("agent-7", delivery(number)) for number in range(500))

        context = client.read("agent-7")

    assert context.tokens <= POLICY.hard_limit
    assert context.messages[-1] == delivery(499)
    receipt = context.projection
    assert receipt is not None  # nothing was removed from Redis: the next read may show it again
    assert receipt.first_seq == 1
    # Beside the other turns stand the receipt, and what the user said in those left out.
    assert receipt.turns + len(context.messages) - 2 == 500


# 4. And when it is over


def test_a_forgotten_session_is_gone(client: ContextClient) -> None:
    client.push("agent-7", user("Forget me."))

    assert client.forget("agent-7")

    assert client.sessions() == []
    with pytest.raises(UnknownSession):
        client.read("agent-7")


def compacted(client: ContextClient, session: str, *, turns: int) -> Context:
    """The session's context, once all its turns are counted and no compaction is due any more."""

    def done() -> bool:
        info = client.info(session)
        return info.version > 0 and info.counted_seq == turns and info.due_in_s is None

    wait_until(done, what="background compaction")
    return client.read(session)
