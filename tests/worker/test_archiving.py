"""Turns that left the log reach the archive whatever dies; Redis keeps them until then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import (
    SMALL,
    Events,
    NewWorker,
    archive_in,
    chat,
    grown,
    keys_of,
    push_all,
    until_drained,
    until_settled,
)
from turnmill import ArchiveUnavailable, ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.trajectory import Trajectory
from turnmill_worker.archive.store import SqlArchive
from turnmill_worker.ports.values import Removed, SessionRef

pytestmark = pytest.mark.worker


@pytest.fixture
def archiving(new_worker: NewWorker, tmp_path: Path) -> WorkerProcess:
    """A worker with an archive in the test's folder."""
    return new_worker("archiving", env=archive_in(tmp_path))


def _file(folder: Path) -> Path:
    return folder / "data" / "archive.db"


@contextmanager
def _opened(folder: Path) -> Iterator[SqlArchive]:
    with closing(SqlArchive.open(f"sqlite:///{_file(folder)}")) as archive:
        yield archive


def _assert_whole(told: Trajectory, pushed: list[dict[str, object]]) -> None:
    assert [turn.seq for turn in told.turns] == list(range(1, len(pushed) + 1))
    assert [turn.messages for turn in told.turns] == [(message,) for message in pushed]
    assert {turn.state for turn in told.turns} == {"kept"}
    versions = [each.record.version for each in told.compactions]
    assert versions == list(range(1, len(versions) + 1))


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 4), ("prefork", 2)])
def test_every_pool_keeps_many_sessions_small_and_archives_what_left_them(
    pool: str,
    concurrency: int,
    client: ContextClient,
    server: redis.Redis,
    store: EmbeddedRedis,
    tmp_path: Path,
    new_worker: NewWorker,
) -> None:
    env = archive_in(tmp_path)
    worker = new_worker("pool", pool=pool, concurrency=concurrency, env=env)
    sessions = {f"s{n}": chat(100, topic=f"parcel of s{n}") for n in range(6)}

    with Events(store.url) as events:
        for session, turns in sessions.items():
            client.open(session, SMALL)
            push_all(client, session, turns)

        for session, turns in sessions.items():
            until_settled(client, session)
            until_drained(server, client, session)
            assert client.info(session).version > 0
            _assert_whole(client.trajectory(session), turns)
        wait_until(lambda: "archived" in events.outcomes(), what="the drain told of")
        assert events.failures() == []
    assert "Traceback" not in worker.output()
    assert worker.stop() == 0


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the archive's only write lock."""
    with closing(sqlite3.connect(_file(folder), timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_worker_killed_while_it_stores_loses_nothing(
    client: ContextClient, server: redis.Redis, tmp_path: Path, new_worker: NewWorker
) -> None:
    SqlArchive.open(f"sqlite:///{_prepared(tmp_path)}").close()
    client.open("s", SMALL)
    with _locked(tmp_path):
        doomed = new_worker("doomed", pool="threads", concurrency=3, env=archive_in(tmp_path))
        push_all(client, "s", turns := chat(200))
        until_settled(client, "s", turns=200)
        covered = int(server.xlen(keys_of(client, "s").covered))
        wait_until(lambda: _has_open(doomed.pid, _file(tmp_path)), what="a drain under way")

        doomed.kill()

        assert covered > 0
        assert int(server.xlen(keys_of(client, "s").covered)) == covered
    new_worker("heir", env=archive_in(tmp_path))
    until_drained(server, client, "s")
    _assert_whole(client.trajectory("s"), turns)


def _prepared(folder: Path) -> Path:
    _file(folder).parent.mkdir()
    return _file(folder)


def _has_open(pid: int, path: Path) -> bool:
    return any(each.path == str(path) for each in psutil.Process(pid).open_files())


@pytest.mark.usefixtures("archiving")
def test_a_session_forgotten_while_it_is_drained_leaves_nothing(
    client: ContextClient, server: redis.Redis, tmp_path: Path
) -> None:
    ref = SessionRef(Namespace(client.namespace), SessionId("s"))
    client.open("s", SMALL)
    push_all(client, "s", chat(150))
    wait_until(lambda: client.info("s").version > 0)
    until_drained(server, client, "s")
    with _opened(tmp_path) as archive:
        assert archive.left(ref) != Removed()

        with _locked(tmp_path):
            push_all(client, "s", chat(150, topic="letter"))
            wait_until(lambda: server.xlen(keys_of(client, "s").covered))
            forgotten = client.forget("s")

        assert forgotten.keys_left == 0
        wait_until(lambda: archive.left(ref) == Removed(), what="gone from the archive")
    # The rows are gone first, and then their pages.
    wait_until(lambda: b"parcel" not in _file(tmp_path).read_bytes(), what="gone from the file")
    wait_until(lambda: not server.exists(*keys_of(client, "s").owned), what="gone from Redis")


@pytest.mark.usefixtures("archiving")
def test_what_an_expired_session_had_archived_can_still_be_told(
    client: ContextClient, server: redis.Redis
) -> None:
    turns = grown(client, "s", 120)
    until_drained(server, client, "s")
    watermark = client.info("s").watermark

    server.delete(*keys_of(client, "s").owned)

    told = client.trajectory("s")
    assert [turn.messages for turn in told.turns] == [(each,) for each in turns[:watermark]]


def test_an_archive_that_is_away_stops_no_compaction_and_has_all_when_it_is_back(
    client: ContextClient, server: redis.Redis, tmp_path: Path, new_worker: NewWorker
) -> None:
    blocked = tmp_path / "data"
    blocked.write_text("a file where the folder should be")
    worker = new_worker("archiving", env=archive_in(tmp_path))

    turns = grown(client, "s", 150)

    assert client.info("s").version > 0
    assert int(server.xlen(keys_of(client, "s").covered)) == client.info("s").watermark
    wait_until(lambda: "turnmill.archive" in worker.output(), what="a drain that failed")
    with pytest.raises(ArchiveUnavailable):
        client.trajectory("s", timeout_s=20)
    blocked.unlink()
    until_drained(server, client, "s")
    _assert_whole(client.trajectory("s", timeout_s=20), turns)
