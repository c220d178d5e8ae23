"""The same mistake ends every command with the same code, and in one line."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.connection.embedded import free_port

WRONG_WORDS = 2
FAILED = 1

TABLE: dict[tuple[str, int], tuple[str, ...]] = {
    ("no such option", WRONG_WORDS): ("sessions --nope", "up --nope", "sessions --limit -1"),
    ("an argument is missing", WRONG_WORDS): (
        "read",
        "open",
        "templates show",
        "diff",
        "replay",
        "evaluate",
    ),
    ("a value that is none of those there are", WRONG_WORDS): (
        "open s --preset nope",
        "evaluate {conversations} --strategies nope",
    ),
    ("no such command", WRONG_WORDS): ("nope", "policies nope"),
    ("a name that no namespace can have", WRONG_WORDS): (
        "sessions --namespace {bad}",
        "namespaces --namespace {bad}",
        "doctor --namespace {bad}",
        "archive sessions --namespace {bad}",
        "policies list --namespace {bad}",
    ),
    ("a name that no session can have", WRONG_WORDS): (
        "read {bad}",
        "info {bad}",
        "open {bad}",
        "checkpoint {bad}",
        "clear {bad} --yes",
        "history {bad}",
        "push {bad}",
    ),
    ("a URL that is none", WRONG_WORDS): (
        "sessions --redis-url http://host",
        "read s --redis-url http://host",
        "replay {conversations} --redis-url http://host",
        "up --redis-url http://host --data-dir {folder}/up --no-flower",
    ),
    ("a file that is not there", WRONG_WORDS): (
        "open s --policy {folder}/none.json",
        "open s --system-prompt @{folder}/none.txt",
        "visualize {folder}/none.json",
        "visualize {conversations}",
        "replay {folder}/none.jsonl",
        "evaluate {folder}/none.jsonl",
    ),
    ("a field that no policy has", WRONG_WORDS): (
        "open s --set nope=1",
        "policies set p --set nope=1",
        "open s --policy {policy}",
        "replay {conversations} --policy {policy}",
    ),
    ("nothing of this name", FAILED): (
        "read nobody",
        "info nobody",
        "clear nobody --yes",
        "policies show nobody",
        "open s --policy nobody",
        "templates show nobody",
        "rollback known --to nobody --yes",
    ),
    ("Redis is down", FAILED): (
        "sessions --redis-url {down}",
        "namespaces --redis-url {down}",
        "read s --redis-url {down}",
        "open s --redis-url {down}",
        "push s --redis-url {down}",
        "doctor --redis-url {down}",
    ),
    ("nobody can answer the question", FAILED): ("clear known", "forget known"),
}


@pytest.mark.parametrize(
    ("mistake", "code", "line"),
    [(mistake, code, line) for (mistake, code), lines in TABLE.items() for line in lines],
)
def test_the_same_mistake_has_the_same_exit_code(
    turnmill: Callable[..., Ran],
    client: ContextClient,
    tmp_path: Path,
    mistake: str,
    code: int,
    line: str,
) -> None:
    conversations = tmp_path / "some.jsonl"
    conversations.write_text('{"messages": [{"role": "user", "content": "x"}]}\n')
    client.push("known", {"role": "user", "content": "x"})
    policy = tmp_path / "policy.json"
    policy.write_text('{"soft_ration": 0.7}')
    down = f"redis://127.0.0.1:{free_port()}/0"
    words = [
        word.format(
            bad="a b", folder=tmp_path, conversations=conversations, policy=policy, down=down
        )
        for word in line.split()
    ]

    ran = turnmill(*words, stdin='{"role": "user", "content": "x"}\n')

    assert ran.exit_code == code, mistake
    assert "Traceback" not in ran.stderr + ran.stdout


@pytest.mark.parametrize("line", ["sessions", "push s", "compact s", "policies", "export s"])
def test_each_command_says_the_same_of_a_redis_that_is_down(
    turnmill: Callable[..., Ran], line: str
) -> None:
    down = f"redis://:hunter2@127.0.0.1:{free_port()}/0"

    ran = turnmill(*line.split(), "--redis-url", down, stdin='{"role": "user", "content": "x"}\n')

    assert "StoreUnavailable: Redis cannot be reached" in ran.stderr
    assert "→ start it (`turnmill up`), or correct --redis-url" in ran.stderr
    assert "hunter2" not in ran.stderr


@pytest.mark.parametrize(
    "line",
    ["read nobody", "retry nobody", "checkpoints nobody", "info nobody", "checkpoint nobody"],
)
def test_an_unknown_session_may_be_in_another_namespace(
    turnmill: Callable[..., Ran], line: str
) -> None:
    assert turnmill(*line.split()).stderr.splitlines()[-1].startswith("→ `turnmill sessions -A`")


def test_a_wrong_field_of_a_policy_is_told_with_its_file(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"soft_ration": 0.7}')

    told = turnmill("open", "s", "--policy", str(file)).stderr

    assert f"{file}: policy: no field 'soft_ration'; did you mean soft_ratio?" in told


def test_flower_beside_another_one_asks_for_another_port(turnmill: Callable[..., Ran]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = turnmill("flower", "--port", str(port))

    assert ran.exit_code == FAILED
    assert ran.stderr == f"port {port} is in use: choose another with --port\n"
