"""What doctor says of tokenizers of files: nothing unless they are used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.commands import Ran
from tests.tokenizer_files import byte_level, saved
from turnmill import ContextClient, Policy


def checked(ran: Ran) -> dict[str, str] | None:
    return next((each for each in ran.json["checks"] if each["name"] == "tokenizers"), None)


def test_doctor_says_nothing_of_tokenizers_that_nobody_uses(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.open("plain", Policy())

    assert checked(turnmill("doctor", "--json")) is None


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
