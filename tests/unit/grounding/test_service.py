"""One worker's indexes: they follow the archive, keep namespaces apart and each other going."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archive.records import EPOCH, session, turn
from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.names import Namespace
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, Memory, SessionRef
from turnmill_worker.requests.grounding import GroundingService

SHOP = Namespace("shop")
OTHER = Namespace("other")


class Watched(SqlArchive):
    """The archive, which also notes what is read of it, and may be told to fail or to wait."""

    def begin(self) -> None:
        """What a fixture sets up."""
        self.reads: list[tuple[Namespace, int]] = []
        self.down = False
        self.held: dict[Namespace, threading.Event] = {}

    def memories(
        self, namespace: Namespace, *, after: int = 0, most: int = 1000
    ) -> list[tuple[int, Memory]]:
        """As the archive's own."""
        self.reads.append((namespace, after))
        if self.down:
            raise ArchiveUnavailable("down for the test")
        if namespace in self.held:
            assert self.held[namespace].wait(timeout=30)
        return super().memories(namespace, after=after, most=most)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Watched]:
    opened = Watched.open(f"sqlite:///{tmp_path}/archive.sqlite3")
    opened.begin()
    yield opened
    opened.close()


@pytest.fixture
def service(archive: Watched) -> GroundingService:
    return GroundingService(archive)


def say(archive: SqlArchive, ref: SessionRef, seq: int, text: str) -> None:
    archive.store(ref, EPOCH, Batch(turns=(turn(seq, {"role": "user", "content": text}),)))


def pushed(archive: SqlArchive, namespace: Namespace, text: str) -> None:
    archive.remember(namespace, Memory(id=text, kind="pushed", text=text))


def texts(service: GroundingService, query: str, namespace: Namespace = SHOP) -> list[str]:
    return [memory.text for memory in service.search(namespace, query, 5).memories]


def test_what_is_archived_later_is_found_without_reading_all_again(
    archive: Watched, service: GroundingService
) -> None:
    ref = session("agent-7")
    say(archive, ref, 1, "The kayak is red.")
    assert texts(service, "kayak") == ["The kayak is red."]

    say(archive, ref, 2, "The kayak leaks.")
    archive.reads.clear()

    assert set(texts(service, "kayak")) == {"The kayak is red.", "The kayak leaks."}
    assert archive.reads == [(SHOP, 1), (SHOP, 2)]


def test_forgotten_memories_are_found_no_more(archive: Watched, service: GroundingService) -> None:
    say(archive, session("agent-7"), 1, "The kayak is red.")
    say(archive, session("agent-8"), 1, "The kayak leaks.")
    assert len(texts(service, "kayak")) == 2

    archive.forget(session("agent-7"))

    assert texts(service, "kayak") == ["The kayak leaks."]


def test_namespaces_know_nothing_of_each_other(archive: Watched, service: GroundingService) -> None:
    pushed(archive, SHOP, "Ann likes tea.")
    pushed(archive, OTHER, "Bob likes tea.")

    assert texts(service, "who likes tea", SHOP) == ["Ann likes tea."]
    assert texts(service, "who likes tea", OTHER) == ["Bob likes tea."]
    assert texts(service, "who likes tea", Namespace("third")) == []


def test_an_archive_that_was_down_is_read_on_from_where_it_failed(
    archive: Watched, service: GroundingService
) -> None:
    pushed(archive, SHOP, "Ann likes tea.")
    assert len(texts(service, "tea")) == 1
    pushed(archive, SHOP, "Bob likes tea.")

    archive.down = True
    with pytest.raises(ArchiveUnavailable):
        service.search(SHOP, "tea", 5)
    archive.down = False

    assert len(texts(service, "tea")) == 2
