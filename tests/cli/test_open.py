"""open: a session's policy, prompt and tools from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient


def test_open_takes_the_policy_and_the_prompt_from_files(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    policy, prompt = tmp_path / "policy.json", tmp_path / "prompt.txt"
    policy.write_text('{"max_tokens": 5000, "recent_turns_to_keep": 7}')
    prompt.write_text("be kind")

    ran = turnmill("open", "s", "--policy", str(policy), "--system-prompt", f"@{prompt}")

    assert ran.exit_code == 0
    assert "hard limit 5,000" in ran.stdout
    assert client.info("s").policy.recent_turns_to_keep == 7
    assert client.read("s").messages == [{"role": "system", "content": "be kind"}]


def test_open_counts_the_schemas_of_tools_in_a_file(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    file = tmp_path / "tools.json"
    file.write_text('[{"type": "function", "function": {"name": "look", "parameters": {}}}]')

    ran = turnmill("open", "s", "--tools", str(file))

    assert ran.exit_code == 0
    assert client.info("s").tools_tokens > 0


@pytest.mark.parametrize(("text", "says"), [("{", "not JSON"), ("{}", "must be a list")])
def test_a_file_that_holds_no_tools_is_refused(
    turnmill: Callable[..., Ran], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "tools.json").write_text(text)

    ran = turnmill("open", "s", "--tools", str(tmp_path / "tools.json"))

    assert ran.exit_code == 2
    assert says in ran.stderr


@pytest.mark.parametrize(
    ("content", "exit_code", "says"),
    [(None, 2, "No such file"), (b"\xff", 2, "not UTF-8"), (b'{"max": 1}', 2, "InvalidPolicy")],
)
def test_a_policy_file_that_is_no_policy_is_named(
    turnmill: Callable[..., Ran],
    tmp_path: Path,
    content: bytes | None,
    exit_code: int,
    says: str,
) -> None:
    policy = tmp_path / "policy.json"
    if content is not None:
        policy.write_bytes(content)

    ran = turnmill("open", "s", "--policy", str(policy))

    assert ran.exit_code == exit_code
    assert says in ran.stderr
