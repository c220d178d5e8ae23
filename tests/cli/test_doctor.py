"""What `turnmill doctor` finds, and what it says to do."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.cli.commands import Ran
from tests.processes import wait_until
from tests.properties.stepping import SentHints
from tests.tokenizer_files import byte_level, saved
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.keys import (
    ENDPOINTS,
    NAMESPACES,
    QUARANTINED,
    QUARANTINED_COUNT,
    TROUBLED,
    endpoint_hash,
    endpoint_keys,
    session_keys,
    shard_keys,
)
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.doctor import checks as doctor_checks
from turnmill_cli.doctor.checks import Check
from turnmill_worker.archive import SqlArchive, database
from turnmill_worker.background.consumer import BadMessage, Quarantine
from turnmill_worker.background.sweep import Sweeper
from turnmill_worker.errors import (
    RateLimited,
    SummarizerFailed,
    SummarizerUnavailable,
)
from turnmill_worker.store.model_gates import RedisGate
from turnmill_worker.store.reports import RedisQuarantine, RedisUsage
from turnmill_worker.store.sweep_lists import RedisSweepLists

# --- doctor ---------------------------------------------------------------------------------------


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A server whose configuration a test may spoil."""
    with EmbeddedRedis(tmp_path / "own") as server:
        yield server


def found(ran: Ran) -> dict[str, dict[str, str]]:
    report = ran.json
    assert report["ok"] is (ran.exit_code == 0)
    return {check["name"]: check for check in report["checks"]}


def test_a_redis_without_workers_is_a_problem_that_says_what_to_start(
    turnmill: Callable[..., Ran], own_redis: EmbeddedRedis
) -> None:
    ran = turnmill("doctor", "--json", "--redis-url", own_redis.url)

    checks = found(ran)
    assert ran.exit_code == 1
    for name in ("redis", "eviction", "persistence", "memory", "scripts", "backlog", "broker"):
        assert checks[name]["status"] == "ok", checks[name]
    assert checks["workers"]["status"] == "problem"
    assert "turnmill up" in checks["workers"]["advice"]
    assert "summarize" in checks["queues"]["found"]
    assert checks["vocabulary"]["found"].startswith("tokens are counted exactly (o200k_base")


def test_the_table_marks_problems_and_hides_passwords(
    turnmill: Callable[..., Ran], own_redis: EmbeddedRedis
) -> None:
    url = own_redis.url.replace("//", "//default:hunter2@")
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("requirepass", "hunter2")

    ran = turnmill("doctor", "--redis-url", url)

    with redis.Redis.from_url(url) as client:
        client.config_set("requirepass", "")
    assert "✗  workers" in ran.stdout
    assert "✓  redis" in ran.stdout
    assert "→ start them" in ran.stdout
    assert "TURNMILL_BROKER_URL is another one" in " ".join(ran.stdout.split())
    assert "hunter2" not in ran.stdout + ran.stderr


def test_a_redis_that_may_evict_loses_turns(
    turnmill: Callable[..., Ran], own_redis: EmbeddedRedis
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        unlimited = found(turnmill("doctor", "--json", "--redis-url", own_redis.url))
        client.config_set("maxmemory", "1gb")
        limited = found(turnmill("doctor", "--json", "--redis-url", own_redis.url))

    assert unlimited["eviction"]["status"] == "warning"
    assert limited["eviction"]["status"] == "problem"
    assert "noeviction" in limited["eviction"]["advice"]


def test_a_full_broker_is_not_one_that_is_down(
    turnmill: Callable[..., Ran], own_redis: EmbeddedRedis
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", "1")
        broker = found(turnmill("doctor", "--json", "--redis-url", own_redis.url))["broker"]

    assert broker["status"] == "problem"
    assert "is at maxmemory" in broker["found"]
    assert "start it" not in broker["advice"]


@pytest.mark.parametrize(
    ("spoiled", "check", "status"),
    [
        ({"redis_version": "6.0.16"}, doctor_checks._version, "problem"),
        ({"redis_version": "8.2.1"}, doctor_checks._version, "ok"),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, doctor_checks._persistence, "problem"),
        ({"used_memory": 50, "maxmemory": 100}, doctor_checks._memory, "ok"),
        ({"used_memory": 80, "maxmemory": 100}, doctor_checks._memory, "warning"),
        ({"used_memory": 95, "maxmemory": 100}, doctor_checks._memory, "problem"),
        (
            {"used_memory": 80, "maxmemory": 0, "total_system_memory": 100},
            doctor_checks._memory,
            "warning",
        ),
    ],
)
def test_what_redis_says_of_itself_is_judged(
    spoiled: dict[str, Any], check: Callable[[dict[str, Any]], Check], status: str
) -> None:
    assert check(spoiled).status == status


@pytest.mark.parametrize(("waits_s", "status"), [(1, "ok"), (30, "warning"), (600, "problem")])
def test_a_backlog_is_judged_by_its_oldest_session(
    turnmill: Callable[..., Ran],
    client: ContextClient,
    redis_client: redis.Redis,
    namespace: str,
    waits_s: int,
    status: str,
) -> None:
    client.push("late", {"role": "user", "content": "x"})
    client.push("new", {"role": "user", "content": "x"})
    keys = session_keys(Namespace(namespace), SessionId("late"))
    redis_client.zadd(keys.backlog, {"late": (time.time() - waits_s) * 1000})
    # Its turns make nothing due: they are counted later, and nobody waits for that.
    redis_client.zadd(keys.backlog, {"quiet": (time.time() + 60) * 1000})

    checks = found(turnmill("doctor", "--json"))

    assert checks["backlog"]["status"] == status
    assert checks["backlog"]["found"].startswith("2 sessions waiting")


def test_without_redis_and_broker_both_are_problems(turnmill: Callable[..., Ran]) -> None:
    down = f"redis://:hunter2@127.0.0.1:{free_port()}/0"

    ran = turnmill("doctor", "--json", "--redis-url", down)

    checks = found(ran)
    assert ran.exit_code == 1
    assert set(checks) == {"redis", "broker", "vocabulary", "archive", "templates"}
    assert checks["redis"]["status"] == checks["broker"]["status"] == "problem"
    assert "hunter2" not in ran.stdout


def test_a_broker_whose_driver_is_not_installed_is_told_from_one_that_is_down(
    turnmill: Callable[..., Ran],
) -> None:
    ran = turnmill("doctor", "--json", "--broker-url", "mongodb://me:hunter2@127.0.0.1/x")

    assert ran.exit_code == 1
    assert "no module pymongo" in found(ran)["broker"]["found"]
    assert "pip" in found(ran)["broker"]["advice"]
    assert "hunter2" not in ran.stdout


def test_a_script_redis_refuses_is_named(
    turnmill: Callable[..., Ran], own_redis: EmbeddedRedis
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.execute_command(
            "ACL", "SETUSER", "limited", "on", "nopass", "~*", "+@all", "-script"
        )
        url = own_redis.url.replace("//", "//limited:x@")
        checks = found(turnmill("doctor", "--json", "--redis-url", url))

    assert checks["scripts"]["status"] == "problem"
    assert ".lua is refused" in checks["scripts"]["found"]


def make_archive(folder: Path) -> Path:
    SqlArchive.open(f"sqlite:///{folder / 'archive.db'}").close()
    return folder / "archive.db"


def test_an_archive_that_can_be_written_is_well_and_none_is_not_made(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    words = ("doctor", "--json", "--data-dir", str(tmp_path))

    without = found(turnmill(*words))["archive"]
    assert not (tmp_path / "archive.db").exists()
    file = make_archive(tmp_path)
    with_one = found(turnmill(*words))["archive"]

    assert (without["status"], with_one["status"]) == ("ok", "ok")
    assert "not needed yet" in without["found"]
    assert with_one["found"].startswith(f"{file}: writable, schema v")


def test_an_archive_that_is_damaged_or_in_use_for_writing_is_a_problem(
    turnmill: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.1)
    words = ("doctor", "--json", "--data-dir", str(tmp_path))
    file = make_archive(tmp_path)
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        locked = found(turnmill(*words))["archive"]
        other.execute("ROLLBACK")
    other.close()
    for each in tmp_path.glob("archive.db*"):
        each.unlink()
    file.write_text("no database, but text that somebody has put in its place")
    damaged = found(turnmill(*words))["archive"]

    assert (locked["status"], damaged["status"]) == ("problem", "problem")
    assert "covered turns wait in Redis" in locked["advice"]


@pytest.mark.parametrize(("waits_s", "status"), [(1, "ok"), (90, "warning"), (900, "problem")])
def test_turns_that_wait_for_the_archive_are_judged_by_the_oldest(
    turnmill: Callable[..., Ran],
    redis_client: redis.Redis,
    namespace: str,
    waits_s: int,
    status: str,
) -> None:
    keys = session_keys(Namespace(namespace), SessionId("late"))
    redis_client.zadd(keys.unarchived, {"late": (time.time() - waits_s) * 1000})

    judged = found(turnmill("doctor", "--json"))["archiving"]
    off = found(turnmill("doctor", "--json", "--archive-url", "none"))["archiving"]

    assert judged["status"] == status
    assert judged["found"].startswith("1 session with turns to archive")
    assert off["status"] == "ok"


def test_template_folders_that_are_absent_or_hold_a_bad_template_are_named(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    absent = found(turnmill("doctor", "--json", "--template-dirs", str(tmp_path / "none")))
    (tmp_path / "mine.md").write_bytes(b"\xff")
    bad = found(turnmill("doctor", "--json", "--template-dirs", str(tmp_path)))
    usual = found(turnmill("doctor", "--json"))

    assert absent["templates"]["status"] == "warning"
    assert str(tmp_path / "none") in absent["templates"]["found"]
    assert bad["templates"]["status"] == "problem"
    assert "mine.md" in bad["templates"]["found"]
    assert usual["templates"]["status"] == "ok"


# --- doctor models --------------------------------------------------------------------------------


def checks(ran: Ran) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in ran.json["checks"]}


@pytest.fixture
def gate(redis_client: redis.Redis) -> Iterator[tuple[str, RedisGate, str]]:
    """A model's name, its gate and the gate's key; gone afterwards."""
    model = f"m-{uuid.uuid4().hex}"
    hashed = endpoint_hash("models.example/v1", model)
    key = endpoint_keys(hashed).gate
    yield model, RedisGate(redis_client, "https://me:hunter2@models.example/v1", model), key
    redis_client.delete(key)
    redis_client.zrem(ENDPOINTS, hashed)


def test_the_doctor_knows_a_model_that_answers(
    turnmill: Callable[..., Ran], gate: tuple[str, RedisGate, str], redis_client: redis.Redis
) -> None:
    model, made, _ = gate
    # What is used counts by the minute: all of this is to happen in one.
    wait_until(lambda: redis_client.time()[0] % 60 < 52)
    round_ = made.admit(tokens=100, within_s=60)
    made.failed(round_, SummarizerUnavailable(f"{model}: HTTP 503"), estimated=100)
    round_ = made.admit(tokens=100, within_s=60)
    made.answered(round_, estimated=100, used=1_234)

    ran = turnmill("doctor", "--json")

    found = checks(ran)[f"model {model}"]
    assert found["status"] == "ok"
    assert found["found"].startswith(
        "models.example/v1: breaker closed; last failure SummarizerUnavailable (HTTP 503)"
    )
    assert "2 requests and 1,234 tokens" in found["found"]
    assert "hunter2" not in ran.stdout


def test_the_doctor_knows_what_is_wrong_with_a_model(
    turnmill: Callable[..., Ran], gate: tuple[str, RedisGate, str], redis_client: redis.Redis
) -> None:
    model, made, key = gate

    def said() -> str:
        found = checks(turnmill("doctor", "--json"))[f"model {model}"]
        assert found["status"] == "warning"
        return found["found"]

    made.failed(made.admit(tokens=1, within_s=60), RateLimited(retry_after_s=50), estimated=1)
    assert "pauses for" in said()
    redis_client.hdel(key, "blocked_until")
    for round_ in [made.admit(tokens=1, within_s=60) for _ in range(3)]:
        made.failed(round_, SummarizerFailed(), estimated=1)
    assert "breaker open for" in said()
    redis_client.hset(key, "open_until", 1)
    assert "until the next call probes it" in said()
    made.admit(tokens=1, within_s=60)
    assert "breaker probing after SummarizerFailed" in said()


# --- doctor damage --------------------------------------------------------------------------------


@pytest.fixture
def server(redis_client: redis.Redis) -> Iterator[redis.Redis]:
    """All that these tests leave is about no namespace of other tests."""
    kept = (TROUBLED, QUARANTINED, QUARANTINED_COUNT)
    redis_client.delete(*kept)
    yield redis_client
    redis_client.delete(*kept)


def _check(ran: Ran, name: str) -> dict[str, str]:
    [found] = [check for check in ran.json["checks"] if check["name"] == name]
    return dict(found)


def test_a_damaged_namespace_is_named_with_what_is_wrong(
    turnmill: Callable[..., Ran], server: redis.Redis, namespace: str
) -> None:
    server.sadd(NAMESPACES, namespace)
    server.set(shard_keys(Namespace(namespace), 1).due, "x")
    server.zadd(shard_keys(Namespace(namespace), 2).backlog, {b"\xff": 1, b"no name": 2})
    Sweeper(RedisSweepLists(server), SentHints(), stale_after_s=0.0).run()

    found = _check(turnmill("doctor", "--json"), "namespaces")

    assert found["status"] == "warning"
    assert (
        f"{namespace}: WRONGTYPE (1 time), 2 members that named no session dropped"
        in found["found"]
    )


def test_messages_put_aside_are_counted_and_the_newest_is_described(
    turnmill: Callable[..., Ran], server: redis.Redis
) -> None:
    aside = Quarantine(lambda: RedisQuarantine(server))
    for why in ("not JSON", "header timelimit"):
        aside.put_aside(BadMessage.of(why, "estimate", b"moonflower", {}))

    found = _check(turnmill("doctor", "--json"), "messages")

    assert found["status"] == "warning"
    assert found["found"].startswith("workers put 2 messages aside, the newest ")
    assert found["found"].endswith("header timelimit, 10 bytes in queue estimate")


def test_a_quota_that_is_used_up_is_said_with_its_numbers(
    turnmill: Callable[..., Ran], redis_client: redis.Redis, namespace: str
) -> None:
    RedisUsage(redis_client).tell(Namespace(namespace), {"sessions": (1_200, 1_000)}, None)

    found = _check(turnmill("doctor", "--json"), "quotas")

    assert found["status"] == "warning"
    assert "1,200 of 1,000 sessions" in found["found"]
    assert "TURNMILL_QUOTAS_FILE" in found["advice"]


# --- doctor tokenizers ----------------------------------------------------------------------------


def checked(ran: Ran) -> dict[str, str] | None:
    return next((each for each in ran.json["checks"] if each["name"] == "tokenizers"), None)


def test_a_file_that_a_session_needs_and_nobody_has_is_a_problem(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    client.open("local", Policy(encoding="file:own"))

    unseen = checked(turnmill("doctor", "--json"))
    missing = checked(turnmill("doctor", "--json", "--tokenizer-dir", str(tmp_path)))
    saved(byte_level(300), tmp_path, "own")
    usable = checked(turnmill("doctor", "--json", "--tokenizer-dir", str(tmp_path)))

    assert unseen is not None
    assert unseen["status"] == "warning"
    assert "set TURNMILL_TOKENIZER_DIR" in unseen["advice"]
    assert missing is not None
    assert missing["status"] == "problem"
    assert "own.json in the workers' TURNMILL_TOKENIZER_DIR cannot be read" in missing["found"]
    assert usable is not None
    assert usable["status"] == "ok"


def test_a_file_that_cannot_be_used_is_a_problem(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "broken.json").write_text("{}")

    found = checked(turnmill("doctor", "--json", "--tokenizer-dir", str(tmp_path)))

    assert found is not None
    assert found["status"] == "problem"
    assert "broken.json is no tokenizer.json" in found["found"]
