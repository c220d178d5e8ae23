"""archive, forget, ground and remember: what is kept beyond Redis, and how it goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.cli.commands import Ran
from tests.cli.conversation import settled, talk
from turnmill import ContextClient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

pytestmark = pytest.mark.worker


@pytest.fixture
def archived(client: ContextClient, served: Callable[..., Ran]) -> Callable[..., Ran]:
    """Commands, and a session ``s`` with turns in the archive."""
    talk(client, "s", 30)
    settled(client, "s")
    return served


def rows(data_dir: Path, namespace: str) -> int:
    """Of the namespace's turns in the archive."""
    with sqlite3.connect(data_dir / "archive.db") as archive:
        query = "SELECT count(*) FROM turns WHERE namespace = ?"
        return int(archive.execute(query, (namespace,)).fetchone()[0])


def expire(client: redis.Redis, namespace: str, session: str) -> None:
    """Have Redis lose a session, as at the end of its time."""
    client.delete(*session_keys(Namespace(namespace), SessionId(session)).owned)


def age(data_dir: Path, namespace: str, session: str) -> None:
    """Have the archive believe that nothing was added to the session since 1970."""
    with sqlite3.connect(data_dir / "archive.db") as archive:
        archive.execute(
            "UPDATE sessions SET last_at_ms = 1 WHERE namespace = ? AND session = ?",
            (namespace, session),
        )


def test_the_archives_sessions_are_listed_those_gone_from_redis_too(
    archived: Callable[..., Ran], redis_client: redis.Redis, namespace: str, data_dir: Path
) -> None:
    expire(redis_client, namespace, "s")

    listed = archived("archive", "sessions", "--json").json
    table = archived("archive", "sessions")
    info = archived("archive", "info", "--json").json

    assert [each["session"] for each in listed] == ["s"]
    assert listed[0]["turns"] == rows(data_dir, namespace) > 0
    assert table.stdout.splitlines()[1].startswith("s ")
    assert info["archive"] == str(data_dir / "archive.db")
    assert (info["sessions"], info["turns"]) == (1, listed[0]["turns"])
    assert info["schema"].startswith("v")
    assert "1 session of" in archived("archive", "info").stdout


def test_prune_removes_what_is_old_and_says_what_went(
    archived: Callable[..., Ran], client: ContextClient, namespace: str, data_dir: Path
) -> None:
    talk(client, "young", 30)
    settled(client, "young")
    before = rows(data_dir, namespace)
    age(data_dir, namespace, "s")

    tried = archived("archive", "prune", "--older-than", "30d", "--dry-run", "--json").json
    unchanged = rows(data_dir, namespace)
    ran = archived("archive", "prune", "--older-than", "30d", "--yes")

    assert (tried["sessions"], unchanged) == (1, before)
    assert rows(data_dir, namespace) == before - tried["turns"]
    assert f"removed 1 session of {namespace}: {tried['turns']} turns, " in ran.stdout
    assert [each["session"] for each in listed(archived)] == ["young"]


def listed(turnmill: Callable[..., Ran]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = turnmill("archive", "sessions", "--json").json
    return found


def test_prune_asks_first_and_needs_an_age(
    archived: Callable[..., Ran], namespace: str, data_dir: Path
) -> None:
    age(data_dir, namespace, "s")

    refused = archived("archive", "prune", "--older-than", "1d", stdin="n\n")
    wrong = archived("archive", "prune", "--older-than", "30")

    assert refused.exit_code == 1
    assert "Remove 1 session of" in refused.stderr
    assert wrong.exit_code == 2
    assert "30d" in wrong.stderr
    assert len(listed(archived)) == 1


def test_forgetting_proves_that_neither_redis_nor_the_archive_has_anything(
    archived: Callable[..., Ran], namespace: str, data_dir: Path
) -> None:
    ran = archived("forget", "s", "--yes", "--json")

    done = ran.json
    assert ran.exit_code == 0
    assert done["keys_left"] == 0
    assert done["archive"]["gone"]
    assert done["archive"]["left"]["turns"] == 0
    assert rows(data_dir, namespace) == 0
    assert listed(archived) == []


def test_where_the_archive_is_not_at_hand_a_worker_is_asked(
    archived: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    namespace: str,
    data_dir: Path,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TURNMILL_DATA_DIR", str(tmp_path))

    ran = archived("forget", "s", "--yes")

    assert ran.exit_code == 0
    assert "Redis    0 keys left" in ran.stdout
    assert "a worker looked and found nothing of it" in ran.stdout
    assert rows(data_dir, namespace) == 0


def test_a_session_that_expired_is_forgotten_in_the_archive(
    archived: Callable[..., Ran], redis_client: redis.Redis, namespace: str, data_dir: Path
) -> None:
    expire(redis_client, namespace, "s")

    asked = archived("forget", "s", stdin="n\n")
    ran = archived("forget", "s", "--yes")

    assert "turns in the archive" in asked.stderr
    assert ran.exit_code == 0
    assert rows(data_dir, namespace) == 0
    unknown = archived("forget", "s", "--yes")
    assert unknown.stderr.startswith("UnknownSession: ")


def test_a_memory_is_found_again_in_the_whole_namespace(archived: Callable[..., Ran]) -> None:
    made = archived("remember", "Anna likes green tea")

    found = archived("ground", "who likes green tea?", "-k", "2", "--json").json
    shown = archived("ground", "who likes green tea?", "-k", "1")

    assert made.stdout.startswith("pushed:")
    assert found["memories"][0]["id"] == made.stdout.strip()
    assert "Anna likes green tea" in shown.stdout
    order = archived("ground", "order #W7919", "--json").json["memories"]
    assert "#W7919" in order[0]["text"]
    in_session = archived("ground", "green tea order", "--session", "s", "--json").json["memories"]
    assert {memory["session"] for memory in in_session} == {"s"}


def test_what_nobody_knows_is_said(served: Callable[..., Ran]) -> None:
    assert "nothing is remembered" in served("ground", "anything").stdout
    assert served("remember", " ").stderr.startswith("InvalidInput: ")
