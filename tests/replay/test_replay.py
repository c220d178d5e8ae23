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


def write(folder: Path, *, sessions: int, turns: int) -> Path:
    """Sessions of calls and results, some with a large result, that outgrow a small limit."""
    lines = []
    for session in range(sessions):
        messages: list[dict[str, Any]] = [{"role": "system", "content": "You look things up."}]
        for at in range(turns // 4):
            call = {"name": "look", "arguments": json.dumps({"at": at})}
            messages += [
                {"role": "user", "content": f"What is at {at}, {session}?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "c", "content": f"row {at} " * (9 + at % 5 * 40)},
                {"role": "assistant", "content": f"Row {at} is there."},
            ]
        lines.append(json.dumps({"session_id": f"made-{session}", "messages": messages}))
    path = folder / "made.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def kept(client: redis.Redis) -> list[bytes]:
    """Keys of replayed sessions, but not what workers end: orders to forget, and registrations."""
    found = map(bytes, client.scan_iter("turnmill:{replay-*"))
    return sorted(key for key in found if not key.endswith((b":forgotten", b":registered")))


def assert_all_kept(card: dict[str, Any]) -> None:
    assert not any(card["faults"].values()), card["examples"]
    assert card["ok"]
    assert card["unsettled"] == 0


def test_a_replay_starts_its_own_workers_and_ends_with_zeros(tmp_path: Path) -> None:
    path = write(tmp_path, sessions=6, turns=80)

    ran = run(tmp_path, "replay", path, "--max-tokens", 1000, "--workers", 1)

    assert ran.exit_code == 0, ran
    assert "turns lost / doubled" in ran.stdout
    assert "compactions" in ran.stdout
    assert ran.stderr == ""


def test_json_tells_what_happened_and_nothing_stays_in_redis(pipeline: str, tmp_path: Path) -> None:
    path = write(tmp_path, sessions=4, turns=80)
    with redis.Redis.from_url(pipeline) as client:
        before = kept(client)

        ran = run(
            *(tmp_path, "replay", path, "--redis-url", pipeline, "--max-tokens", 1000),
            *("--limit", 3, "--pace", 1, "--json"),
        )

        assert kept(client) == before
    assert ran.exit_code == 0, ran
    assert_all_kept(ran.json)
    assert ran.json["sessions"] == 3
    assert ran.json["turns"] == 3 * 80
    assert sum(ran.json["compactions"].values()) > 0
    assert ran.json["turns_archived"] > 0
    assert ran.json["tokens_final"] < ran.json["tokens_in"] / 2


def test_without_workers_every_cut_is_a_projection_and_nothing_is_lost(tmp_path: Path) -> None:
    path = write(tmp_path, sessions=3, turns=80)

    ran = run(tmp_path, "replay", path, "--max-tokens", 1000, "--workers", 0, "--json")

    assert ran.exit_code == 0, ran
    assert not any(ran.json["faults"].values()), ran.json["examples"]
    assert ran.json["compactions"] == {}
    assert ran.json["reads_projected"] > 100


def test_a_system_prompt_that_leaves_no_room_is_counted_as_refused(
    pipeline: str, tmp_path: Path
) -> None:
    messages = [{"role": "system", "content": "word " * 2000}, {"role": "user", "content": "hi"}]
    path = tmp_path / "large.jsonl"
    path.write_text(json.dumps({"messages": messages}), encoding="utf-8")

    ran = run(tmp_path, "replay", path, "--redis-url", pipeline, "--max-tokens", 1000, "--json")

    assert ran.exit_code == 0, ran
    assert (ran.json["refused"], ran.json["sessions"]) == (1, 0)


def test_a_bad_file_is_refused_by_name_and_line_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"messages": []}\n{"messages": [{"role": "wizard"}]}', encoding="utf-8")

    ran = run(tmp_path, "replay", path)

    assert ran.exit_code == 2
    assert f"{path}:2: messages[0].role: unknown role" in ran.stderr.replace("\n", "")
    assert ran.stdout == ""


def test_sessions_that_exist_are_not_replayed_over(pipeline: str, tmp_path: Path) -> None:
    path = write(tmp_path, sessions=1, turns=4)
    words = ("replay", path, "--redis-url", pipeline, "--namespace", "mine", "--json")

    first = run(tmp_path, *words, "--keep")
    second = run(tmp_path, *words)

    assert first.exit_code == 0, first
    assert first.stderr == "The sessions stay: turnmill sessions --namespace mine\n"
    assert second.exit_code == 1
    assert "already has 1 of these sessions" in " ".join(second.stderr.split())


def test_what_a_redis_of_its_own_would_keep_is_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, "replay", write(tmp_path, sessions=1, turns=4), "--keep")

    assert ran.exit_code == 2
    assert ran.stderr.startswith("--keep needs --redis-url")


def test_a_policy_file_is_used_and_a_bad_one_refused(pipeline: str, tmp_path: Path) -> None:
    path = write(tmp_path, sessions=2, turns=80)
    policy = tmp_path / "policy.json"
    words = ("replay", path, "--redis-url", pipeline, "--policy", policy, "--max-tokens", 900)

    policy.write_text('{"strategies": ["window"]}', encoding="utf-8")
    windowed = run(tmp_path, *words, "--json")
    policy.write_text('{"target_ratio": 7}', encoding="utf-8")
    refused = run(tmp_path, *words)

    assert windowed.exit_code == 0, windowed
    assert_all_kept(windowed.json)
    assert set(windowed.json["compactions"]) == {"window"}
    assert refused.exit_code == 2
    assert "target_ratio" in refused.stderr


@requires_data
@pytest.mark.parametrize(
    ("name", "limit", "max_tokens"),
    [("tau", 20, 4000), ("coding", 13, 8000), ("webvoyager", 4, 6000)],
)
def test_real_conversations_are_kept_whole_and_under_their_limit(
    pipeline: str, tmp_path: Path, name: str, limit: int, max_tokens: int
) -> None:
    assert DATA_DIR is not None
    path = DATA_DIR / f"{name}.jsonl.gz"

    ran = run(
        *(tmp_path, "replay", path, "--redis-url", pipeline, "--limit", limit),
        *("--max-tokens", max_tokens, "--json"),
    )

    assert ran.exit_code == 0, ran
    assert_all_kept(ran.json)
    assert ran.json["sessions"] + ran.json["refused"] == limit
    assert ran.json["refused"] <= 1
    assert sum(ran.json["compactions"].values()) > 0


@requires_data
@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("image_history", ("--max-tokens", "9000", "--set", "max_history_images=2")),
        (
            "sliding_window",
            (
                "--max-tokens",
                "6000",
            ),
        ),
        (
            "managed",
            (
                "--max-tokens",
                "6000",
            ),
        ),
        ("iterations", ("--max-tokens", "6000", "--set", "soft_ratio=0.8")),
    ],
)
def test_screenshots_are_kept_whole_under_every_preset(
    pipeline: str, tmp_path: Path, preset: str, options: tuple[str, ...]
) -> None:
    assert DATA_DIR is not None
    path = DATA_DIR / "webvoyager.jsonl.gz"

    words = ("replay", path, "--redis-url", pipeline, "--preset", preset, *options)
    ran = run(tmp_path, *words, "--json")

    assert ran.exit_code == 0, ran
    assert_all_kept(ran.json)
    assert sum(ran.json["compactions"].values()) > 0
