from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, emptied
from tests.realdata import DATA_DIR, requires_data
from tests.replay.commands import run
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def pipeline(
    redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a Redis with a worker beside it, who keeps an archive."""
    folder = tmp_path_factory.mktemp("replay")
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    emptied(redis_server.url)
    with WorkerProcess(redis_server.url, folder, env=env):
        yield redis_server.url


def write(folder: Path, *, sessions: int, turns: int = 80, system: str = "Look it up.") -> Path:
    """Sessions of calls and results, some with a large result, that outgrow a small limit."""
    lines = []
    for session in range(sessions):
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        for at in range(turns // 4):
            call = {"name": "look", "arguments": json.dumps({"at": at})}
            calls = [{"id": "c", "type": "function", "function": call}]
            messages += [
                {"role": "user", "content": f"What is at {at}, {session}?"},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "c", "content": f"row {at} " * (9 + at % 5 * 40)},
                {"role": "assistant", "content": f"Row {at} is there."},
            ]
        lines.append(json.dumps({"session_id": f"made-{session}", "messages": messages}))
    path = folder / "made.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def assert_all_kept(found: dict[str, Any]) -> None:
    assert not any(found["faults"].values()), found["examples"]
    assert found["ok"]
    assert found["unsettled"] == 0


def test_what_is_replayed_is_compacted_archived_and_forgotten(
    pipeline: str, tmp_path: Path
) -> None:
    words = ("replay", write(tmp_path, sessions=4), "--redis-url", pipeline, "--max-tokens", 1000)

    ran = run(tmp_path, *words, "--limit", 3, "--json")

    assert ran.exit_code == 0, ran
    assert_all_kept(ran.json)
    assert (ran.json["sessions"], ran.json["turns"]) == (3, 3 * 80)
    assert sum(ran.json["compactions"].values()) > 0
    assert ran.json["turns_archived"] > 0
    assert ran.json["tokens_final"] < ran.json["tokens_in"] / 2
    with redis.Redis.from_url(pipeline) as client:
        left = set(map(bytes, client.scan_iter("turnmill:{replay-*}:s:*")))
    assert not [key for key in left if not key.endswith((b":forgotten", b":registered"))]


def test_without_workers_every_cut_is_a_projection_and_nothing_is_lost(tmp_path: Path) -> None:
    path = write(tmp_path, sessions=3)

    ran = run(tmp_path, "replay", path, "--max-tokens", 1000, "--workers", 0)

    assert ran.exit_code == 0, ran
    told = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert {"turns 240", "compactions 0", "turns stored nowhere (must be 0) 0"} <= set(told)
    assert "reads projected 0" not in told
    assert ran.stderr == ""


def test_a_system_prompt_that_leaves_no_room_is_counted_as_refused(
    pipeline: str, tmp_path: Path
) -> None:
    path = write(tmp_path, sessions=1, system="word " * 2000)

    ran = run(tmp_path, "replay", path, "--redis-url", pipeline, "--max-tokens", 1000, "--json")

    assert ran.exit_code == 0, ran
    assert (ran.json["refused"], ran.json["sessions"]) == (1, 0)


def test_sessions_that_exist_are_not_replayed_over(pipeline: str, tmp_path: Path) -> None:
    path = write(tmp_path, sessions=1, turns=4)
    words = ("replay", path, "--redis-url", pipeline, "--namespace", "mine", "--json")

    first = run(tmp_path, *words, "--keep")
    second = run(tmp_path, *words)

    assert first.exit_code == 0, first
    assert first.stderr == "The sessions stay: turnmill sessions --namespace mine\n"
    assert second.exit_code == 1
    assert "already has 1 of these sessions" in " ".join(second.stderr.split())


@pytest.mark.parametrize(
    ("line", "words", "told"),
    [
        ('{"messages": [{"role": "wizard"}]}', (), "made.jsonl:1: messages[0].role: unknown role"),
        ('{"messages": []}', ("--keep",), "--keep needs --redis-url"),
        ('{"messages": []}', ("--set", "target_ratio=7"), "target_ratio"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_anything_starts(
    tmp_path: Path, line: str, words: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text(line, encoding="utf-8")

    ran = run(tmp_path, "replay", path, *words)

    assert ran.exit_code == 2
    assert told in ran.stderr.replace("\n", "")
    assert ran.stdout == ""


@requires_data
@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("tau", 10, "--max-tokens 4000"),
        ("coding", 6, "--max-tokens 8000"),
        ("webvoyager", 4, "--preset image_history --max-tokens 9000 --set max_history_images=2"),
        ("webvoyager", 4, "--preset sliding_window --max-tokens 6000"),
        ("webvoyager", 4, "--preset managed --max-tokens 6000"),
        ("webvoyager", 4, "--preset iterations --max-tokens 6000 --set soft_ratio=0.8"),
    ],
)
def test_real_conversations_are_kept_whole_and_under_their_limit(
    pipeline: str, tmp_path: Path, name: str, limit: int, words: str
) -> None:
    assert DATA_DIR is not None
    path = DATA_DIR / f"{name}.jsonl.gz"
    where = ("--redis-url", pipeline, "--limit", limit, "--json")

    ran = run(tmp_path, "replay", path, *where, *words.split())

    assert ran.exit_code == 0, ran
    assert_all_kept(ran.json)
    assert ran.json["sessions"] + ran.json["refused"] == limit
    assert ran.json["refused"] <= 1
    assert sum(ran.json["compactions"].values()) > 0
