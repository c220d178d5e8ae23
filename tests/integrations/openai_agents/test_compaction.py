"""Writes that land while a session is compacted: none is lost, and none is undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from turnmill import AsyncContextClient, Policy
from turnmill.integrations.openai_agents import TurnmillSession

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
