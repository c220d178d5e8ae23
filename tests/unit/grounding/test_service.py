"""One worker's indexes: they follow the archive, keep namespaces apart and each other going."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.archive.records import EPOCH, compaction, session, turn
from tests.unit.grounding.endpoint import Endpoint, serving
from turnmill.contract.errors import ArchiveUnavailable
from turnmill.contract.names import Namespace, Seq
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, Memory, SessionRef
from turnmill_worker.requests.embeddings import OpenAiEmbedder
from turnmill_worker.requests.grounding import GroundingService, HybridSearch

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


def test_a_memory_tells_where_it_comes_from(archive: Watched, service: GroundingService) -> None:
    say(archive, session("agent-7"), 3, "The kayak is red.")

    (memory,) = service.search(SHOP, "Which kayak is red?", 5).memories

    assert (memory.kind, memory.session, memory.seq) == ("turn", "agent-7", Seq(3))
    assert (memory.speaker, memory.at_ms) == ("user", 3_000)
    assert 0 < memory.relevance <= 1


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


def test_a_question_asked_one_turn_before_its_answer_finds_it(
    archive: Watched, service: GroundingService
) -> None:
    ref = session("agent-7")
    tools: dict[int, dict[str, Any]] = {
        2: {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        3: {"role": "tool", "tool_call_id": "c", "content": "a long result"},
    }
    said = {1: "Whose kayak is that?", 4: "It belongs to Ann."}
    for seq in range(1, 5):
        message = {"role": "user", "content": said[seq]} if seq in said else tools[seq]
        archive.store(ref, EPOCH, Batch(turns=(turn(seq, message),)))
    for seq in range(5, 60):
        say(archive, ref, seq, f"Number {seq} is on its way to street {seq}.")

    assert "It belongs to Ann." in texts(service, "whose kayak")


def test_a_result_is_found_by_its_call_and_a_turn_by_its_number(
    archive: Watched, service: GroundingService
) -> None:
    ref = session("agent-7")
    for seq in range(1, 60):
        say(archive, ref, seq, f"Parcel {seq * 7} is on its way to street {seq * 3}.")
    function = {"name": "get_order", "arguments": '{"id": "#W123"}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": '{"status": "shipped"}'}
    archive.store(ref, EPOCH, Batch(turns=(turn(60, call, result),)))

    (found, *_) = service.search(SHOP, "What did get_order return for #W123?", 5).memories
    (named, *_) = service.search(SHOP, "What was said in turn 42?", 5).memories

    assert (found.seq, found.speaker, "shipped" in found.text) == (60, "tool", True)
    assert named.seq == 42


def test_forgotten_memories_are_found_no_more(archive: Watched, service: GroundingService) -> None:
    say(archive, session("agent-7"), 1, "The kayak is red.")
    say(archive, session("agent-8"), 1, "The kayak leaks.")
    assert len(texts(service, "kayak")) == 2

    archive.forget(session("agent-7"))

    assert texts(service, "kayak") == ["The kayak leaks."]


def test_a_sessions_new_summary_replaces_its_old_one(
    archive: Watched, service: GroundingService
) -> None:
    ref = session("agent-7")
    archive.store(ref, EPOCH, Batch(compactions=(compaction(1, summary="a red kayak"),)))
    assert texts(service, "kayak") == ["[context-summary] a red kayak"]

    archive.store(ref, EPOCH, Batch(compactions=(compaction(2, summary="a sold kayak"),)))

    assert texts(service, "kayak") == ["[context-summary] a sold kayak"]
    assert texts(service, "red") == []
    assert texts(service, "sold") == ["[context-summary] a sold kayak"]


def test_namespaces_know_nothing_of_each_other(archive: Watched, service: GroundingService) -> None:
    pushed(archive, SHOP, "Ann likes tea.")
    pushed(archive, OTHER, "Bob likes tea.")

    assert texts(service, "who likes tea", SHOP) == ["Ann likes tea."]
    assert texts(service, "who likes tea", OTHER) == ["Bob likes tea."]
    assert texts(service, "who likes tea", Namespace("third")) == []


def test_namespaces_asked_longest_ago_give_way_to_others(archive: Watched) -> None:
    service = GroundingService(archive, most_memories=6)
    names = [Namespace(name) for name in ("a", "b", "c")]
    for name in names:
        pushed(archive, name, "tea")
        pushed(archive, name, "cake")
        texts(service, "tea", name)
    archive.reads.clear()

    for name in reversed(names):
        assert texts(service, "tea", name) == ["tea"]

    read_anew = [namespace for namespace, after in archive.reads if after == 0]
    assert read_anew == ["a"]


def test_a_namespace_larger_than_all_room_is_still_searched(archive: Watched) -> None:
    service = GroundingService(archive, most_memories=1)
    for at in range(5):
        pushed(archive, SHOP, f"tea {at}")

    assert len(texts(service, "tea")) == 5
    archive.reads.clear()
    assert len(texts(service, "tea")) == 5
    assert archive.reads == [(SHOP, 5)], "and not read anew each time"


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


def test_a_namespace_that_is_slow_to_read_does_not_keep_others_waiting(
    archive: Watched, service: GroundingService
) -> None:
    pushed(archive, SHOP, "Ann likes tea.")
    pushed(archive, OTHER, "Bob likes tea.")
    archive.held[SHOP] = threading.Event()

    with ThreadPoolExecutor() as pool:
        slow = pool.submit(texts, service, "tea", SHOP)
        assert texts(service, "tea", OTHER) == ["Bob likes tea."]
        assert not slow.done()
        archive.held[SHOP].set()
        assert slow.result(timeout=30) == ["Ann likes tea."]


def test_threads_that_ask_while_memories_come_in_and_go_see_whole_states(
    archive: Watched, service: GroundingService
) -> None:
    refs = [session(f"agent-{at}") for at in range(4)]
    stop = threading.Event()

    def ask(namespace: Namespace) -> int:
        asked = 0
        while not stop.is_set():
            found = service.search(namespace, "parcel number street", 10).memories
            assert len({memory.id for memory in found}) == len(found)
            assert all(memory.text.startswith(namespace) for memory in found)
            asked += 1
        return asked

    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask, name) for name in (SHOP, OTHER, SHOP, OTHER)]
        try:
            for at in range(30):
                say(archive, refs[at % 4], at + 1, f"shop parcel number {at} to street {at}")
                pushed(archive, OTHER, f"other parcel number {at} to street {at}")
                if at % 10 == 9:
                    archive.forget(refs[0])
        finally:
            stop.set()
        assert all(each.result(timeout=30) for each in asking)

    fresh = GroundingService(archive)
    for name in (SHOP, OTHER):
        assert service.search(name, "parcel street", 10) == fresh.search(name, "parcel street", 10)


# Embeddings


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as served:
        yield served


@pytest.fixture
def hybrid(archive: Watched, endpoint: Endpoint) -> Iterator[GroundingService]:
    key = SecretStr("sk-test")
    with OpenAiEmbedder(model="small", api_key=key, base_url=endpoint.url) as embedder:
        yield GroundingService(archive, HybridSearch(embedder))


def test_embeddings_order_more_than_is_asked_for(
    archive: Watched, hybrid: GroundingService
) -> None:
    for text in ("red tea", "a red kayak", "the feline slept on a red blanket"):
        pushed(archive, SHOP, text)

    found = hybrid.search(SHOP, "red boat", 1)

    assert [memory.text for memory in found.memories] == ["a red kayak"]
    assert found.degraded == ""


def test_without_its_endpoint_grounding_says_so_and_goes_on(
    archive: Watched, hybrid: GroundingService, endpoint: Endpoint
) -> None:
    pushed(archive, SHOP, "Ann likes tea.")
    endpoint.status = 503

    found = hybrid.search(SHOP, "tea", 5)

    assert [memory.text for memory in found.memories] == ["Ann likes tea."]
    assert "small" in found.degraded


def test_a_slow_endpoint_keeps_nobody_else_waiting(
    archive: Watched, hybrid: GroundingService, endpoint: Endpoint
) -> None:
    for namespace in (SHOP, OTHER):
        pushed(archive, namespace, "Ann likes tea.")
    endpoint.delay_s = 1.0

    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(texts, hybrid, "tea", name) for name in (SHOP, OTHER, SHOP)]
        assert all(each.result(timeout=30) == ["Ann likes tea."] for each in asked)

    assert endpoint.peak == 3
