"""Many worker processes share one archive."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.archive import processes
from tests.archive.records import EPOCH, session, turn
from turnmill.contract.names import Namespace
from turnmill_worker.archive import SqlArchive
from turnmill_worker.archive.database import make_engine
from turnmill_worker.ports.values import Batch, SessionRef

SHOP = Namespace("shop")
ROOT = Path(__file__).parents[2]


def test_workers_that_start_at_once_make_one_archive(empty_url: str) -> None:
    with processes.pool(6) as pool:
        start = time.time() + 3
        opened = [pool.submit(processes.open_and_store, empty_url, at, start) for at in range(6)]
        for one in opened:
            one.result()

    archive = SqlArchive.open(empty_url)
    assert len(archive.sessions(SHOP)) == 6
    archive.close()


def test_a_new_file_can_be_opened_many_times_at_once(tmp_path: Path) -> None:
    # SQLite refuses, without waiting, when two switch a file to its write-ahead log together.
    files, at_once = 150, 6
    barrier = threading.Barrier(at_once)

    def connect(_: int) -> None:
        for at in range(files):
            engine = make_engine(f"sqlite:///{tmp_path}/{at}.sqlite3")
            barrier.wait(timeout=30)
            engine.connect().close()
            engine.dispose()

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(connect, range(at_once)))


def test_concurrent_writers_lose_and_double_nothing(empty_url: str, archive: SqlArchive) -> None:
    workers, batches = 4, 8
    with processes.pool(workers) as pool:
        writing = [
            pool.submit(processes.store_in_turns, empty_url, at, batches) for at in range(workers)
        ]
        seen, after = 0, 0
        while not all(one.done() for one in writing):
            found = archive.memories(SHOP, after=after)
            seen, after = seen + len(found), found[-1][0] if found else after
        for one in writing:
            one.result()
    seen += len(archive.memories(SHOP, after=after))

    for at in range(workers):
        assert len(archive.turns(session(f"agent-{at}"))) == batches * 10
    assert len(archive.turns(session("shared"))) == batches * 10
    assert {one.turns for one in archive.sessions(SHOP)} == {batches * 10}
    everything = len(archive.memories(SHOP, most=10_000))
    assert everything == (workers + 1) * batches * 10 + workers * batches
    assert seen == everything, "following by cursor misses nothing that becomes visible late"


def test_an_image_is_there_as_long_as_anything_shows_it(
    empty_url: str, archive: SqlArchive
) -> None:
    with processes.pool(3) as pool:
        showing = [pool.submit(processes.show_and_forget, empty_url, at, 25) for at in range(3)]
        assert [one.result() for one in showing] == [0, 0, 0]

    assert archive.blobs(SHOP, [processes.SHARED.sha256]) == {}


def test_a_killed_writer_leaves_whole_batches_and_all_it_reported(
    empty_url: str, archive: SqlArchive, ref: SessionRef
) -> None:
    command = [sys.executable, "-m", "tests.archive.processes", empty_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        reported = [writer.stdout.readline() for _ in range(20)]
        writer.kill()
        reported += writer.stdout.read().splitlines()

    stored = len(archive.turns(ref))
    assert stored % 50 == 0
    assert stored >= 50 * len(reported)
    assert len(archive.memories(SHOP, most=10**6)) == stored


def test_threads_share_an_archive(archive: SqlArchive) -> None:
    def store(at: int) -> None:
        for seq in range(1, 11):
            archive.store(session(f"agent-{at}"), EPOCH, Batch(turns=(turn(seq),)))

    threads = [threading.Thread(target=store, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [one.turns for one in archive.sessions(SHOP)] == [10] * 8
