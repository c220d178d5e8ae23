"""The ``Session`` protocol of openai-agents over turnmill."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import SessionSettings
from agents.memory import Session, is_openai_responses_compaction_aware_session

from tests.integrations.openai_agents.scripted import call, message, reasoning
from turnmill import AsyncContextClient, InvalidInput, InvalidTurn, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.integrations.openai_agents import TurnmillSession

Json = Any


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def output(at: int, text: str = "fine") -> Json:
    return {"type": "function_call_output", "call_id": f"call_{at}", "output": text}


async def test_it_is_a_session_that_knows_of_compaction(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client)

    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.clear_session()
    await session.run_compaction({"force": True})


async def test_items_come_back_as_they_were_added(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client)
    items: list[Any] = [
        {"role": "developer", "content": "Be brief.", "type": "message"},
        user("Look it up."),
        {"role": "user", "content": [{"type": "input_text", "text": "And this."}]},
        reasoning(1),
        call("look", 1, word="a"),
        call("look", 2, word="b"),
        output(1),
        output(2, "ü“”\n"),
        reasoning(2),
        message("Found."),
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "zz=="},
    ]

    await session.add_items(items)

    assert await session.get_items() == items


async def test_a_limit_is_of_the_newest_items(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client, session_settings=SessionSettings(limit=2))
    await session.add_items([user(f"{at}") for at in range(4)])

    assert await session.get_items() == [user("2"), user("3")]
    assert await session.get_items(1) == [user("3")]
    assert await session.get_items(0) == []
    assert len(await session.get_items(9)) == 4


async def test_what_a_response_led_to_is_one_turn(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client)

    await session.add_items(
        [user("Hi"), reasoning(1), call("look", 1), output(1), reasoning(2), message("Done.")]
    )

    assert (await client.read("s")).last_seq == 3


async def test_an_unknown_item_is_refused_by_its_name(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client)
    unknown: Any = {"type": "hologram"}

    with pytest.raises(InvalidTurn, match="hologram"):
        await session.add_items([user("Hi"), unknown])

    assert await session.get_items() == []


@pytest.mark.usefixtures("worker")
async def test_items_are_taken_back_one_by_one(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client)
    items = [user("Hi"), reasoning(1), call("look", 1), output(1), message("Done.")]
    await session.add_items(items)

    for left in range(4, -1, -1):
        assert await session.pop_item() == items[left]
        assert await session.get_items() == items[:left]

    assert await session.pop_item() is None
    await session.add_items([user("Again")])
    assert await session.get_items() == [user("Again")]


@pytest.mark.usefixtures("worker")
async def test_what_is_added_while_an_item_is_taken_back_is_kept(
    client: AsyncContextClient,
) -> None:
    mine, other = (TurnmillSession("s", client=client) for _ in range(2))
    await mine.add_items([user("first"), user("wrong")])

    popped, _ = await asyncio.gather(
        mine.pop_item(),
        other.add_items([user("meanwhile")]),
    )

    left = [user("first"), user("wrong"), user("meanwhile")]
    left.remove(popped)
    assert await mine.get_items() == left


async def test_nothing_is_taken_back_without_a_worker(
    client: AsyncContextClient, store: EmbeddedRedis
) -> None:
    session = TurnmillSession("s", client=client)
    await session.add_items([user("Hi")])

    async with AsyncContextClient(
        store.url, namespace=client.namespace, broker=SilentWaker()
    ) as unheard:
        with pytest.raises(InvalidInput, match="this client reaches none"):
            await TurnmillSession("s", client=unheard).pop_item()

    assert await session.get_items() == [user("Hi")]


async def test_a_cleared_session_begins_anew(client: AsyncContextClient) -> None:
    session = TurnmillSession("s", client=client, policy=Policy(max_tokens=4_000))
    await session.add_items([user("Hi")])

    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([user("Hi")])

    assert await session.get_items() == [user("Hi")]
    assert (await client.info("s")).policy.max_tokens == 4_000


async def test_two_writers_lose_nothing(client: AsyncContextClient) -> None:
    sessions = [TurnmillSession("s", client=client) for _ in range(2)]

    await asyncio.gather(
        *(
            session.add_items([user(f"{who}-{at}")])
            for at in range(20)
            for who, session in enumerate(sessions)
        )
    )

    found = {item.get("content") for item in await sessions[0].get_items()}
    assert found == {f"{who}-{at}" for who in range(2) for at in range(20)}


pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("worker")]


WIDE = Policy(max_tokens=200_000, quality_threshold=0.0, recent_turns_to_keep=1)


LATE: Any = {"role": "user", "content": "And ORDER-9 goes to street 5, by the way."}


def long_items(count: int = 8) -> list[Any]:
    """Items whose summary takes a worker a second or more."""
    lines = [f"Parcel {i} goes to street {i * 7}, said Anna on day {i % 31}." for i in range(600)]
    text = " ".join(lines)
    return [{"role": "user", "content": f"List {at}. {text}"} for at in range(count)]


async def compacting(session: TurnmillSession, client: AsyncContextClient) -> asyncio.Task[None]:
    """A forced compaction that a worker is at right now."""
    await session.add_items(long_items())
    task = asyncio.create_task(session.run_compaction({"force": True}))
    for _ in range(1000):
        wait = (await client.info("s")).wait
        if wait is not None and wait.on == "worker":
            break
        await asyncio.sleep(0.01)
    assert not task.done()
    return task


async def test_an_item_added_while_a_compaction_is_under_way_is_kept(
    client: AsyncContextClient,
) -> None:
    mine, other = (TurnmillSession("s", client=client, policy=WIDE) for _ in range(2))
    task = await compacting(mine, client)

    await other.add_items([LATE])
    assert not task.done(), "the item came in the middle of it"
    await task

    items = await mine.get_items()
    assert (await client.read("s")).version > 0
    assert items[-1] == LATE
    assert len(items) < len(long_items())


async def test_a_clear_while_a_compaction_is_under_way_is_not_undone(
    client: AsyncContextClient,
) -> None:
    mine, other = (TurnmillSession("s", client=client, policy=WIDE) for _ in range(2))
    task = await compacting(mine, client)

    await other.clear_session()
    assert not task.done(), "the session was cleared in the middle of it"
    await asyncio.gather(task, return_exceptions=True)

    assert await mine.get_items() == []
    assert await other.get_items() == []
    await mine.add_items([LATE])
    assert await other.get_items() == [LATE]


async def test_an_item_taken_back_while_a_compaction_is_under_way_does_not_return(
    client: AsyncContextClient,
) -> None:
    session = TurnmillSession("s", client=client, policy=WIDE)
    task = await compacting(session, client)
    await session.add_items([LATE])

    assert await session.pop_item() == LATE
    await asyncio.gather(task, return_exceptions=True)

    assert LATE not in await session.get_items()


async def test_the_runners_own_calls_leave_compacting_to_the_workers(
    client: AsyncContextClient,
) -> None:
    session = TurnmillSession("s", client=client, policy=WIDE)
    await session.add_items([LATE])

    await session.run_compaction()
    await session.run_compaction({"response_id": "resp_1", "store": True, "force": False})

    assert (await client.read("s")).version == 0
    assert await session.get_items() == [LATE]
