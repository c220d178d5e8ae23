"""The quota of memories where many agents push at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from turnmill.contract.errors import QuotaExceeded
from turnmill.contract.names import Namespace
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Memory

SHOP = Namespace("shop")


def test_agents_at_once_have_no_more_remembered_than_they_may(archive: SqlArchive) -> None:
    def remember(name: str) -> bool:
        return archive.remember(SHOP, Memory(id=name, kind="pushed", text=name), most=3)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(remember, f"{at}") for at in range(16)]
    refused = [error for each in asked if (error := each.exception())]

    assert len(refused) == 13
    assert {(type(each), *vars(each).values()) for each in refused} == {
        (QuotaExceeded, "memories", 3, 3, 1.0)
    }
    assert len(archive.memories(SHOP)) == 3
    assert not remember(archive.memories(SHOP)[0][1].id)
