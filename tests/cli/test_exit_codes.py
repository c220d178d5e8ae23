"""The same mistake ends every command with the same code, and in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.embedded_redis import free_port

WRONG_WORDS = 2
FAILED = 1

TABLE: dict[tuple[str, int], tuple[str, ...]] = {
    ("no such option", WRONG_WORDS): ("sessions --nope", "up --nope", "archive info --nope"),
    ("an argument is missing", WRONG_WORDS): ("read", "open", "templates show", "diff"),
    ("no such command", WRONG_WORDS): ("nope", "policies nope"),
    ("a name that no namespace can have", WRONG_WORDS): (
        "sessions --namespace {bad}",
        "namespaces --namespace {bad}",
        "doctor --namespace {bad}",
        "up --namespace {bad}",
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
    down = f"redis://127.0.0.1:{free_port()}/0"
    words = [
        word.format(bad="a b", folder=tmp_path, conversations=conversations, down=down)
        for word in line.split()
    ]

    ran = turnmill(*words)

    assert ran.exit_code == code, mistake
    assert "Traceback" not in ran.stderr + ran.stdout


def test_a_question_that_nobody_answers_stands_on_a_line_of_its_own(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("s", {"role": "user", "content": "x"})

    unanswered = turnmill("clear", "s").stderr.splitlines()
    refused = turnmill("clear", "s", stdin="n\n").stderr.splitlines()

    assert unanswered[0].rstrip().endswith("[y/N]:")
    assert unanswered[-1] == "nothing was done: add --yes where nobody can answer"
    assert refused[0].rstrip().endswith("[y/N]:")
    assert refused[-1] == "Aborted."
