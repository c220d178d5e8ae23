"""transcript, export, history and diff."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from tests.cli.conversation import settled, talk
from tests.processes import wait_until
from turnmill import ContextClient, Policy, Trajectory

pytestmark = pytest.mark.worker


@pytest.fixture
def talked(client: ContextClient, served: Callable[..., Ran]) -> Callable[..., Ran]:
    """Commands, and a session ``s`` that was compacted twice or more."""
    talk(client, "s", 20)
    settled(client, "s")
    talk(client, "s", 20, first=21)
    settled(client, "s", versions=2)
    return served


def test_a_transcript_has_every_turn_whatever_was_compacted(talked: Callable[..., Ran]) -> None:
    ran = talked("transcript", "s")

    assert ran.exit_code == 0
    assert ran.stdout.startswith("# Session s\n")
    assert [f"\n## Turn {seq} " in ran.stdout for seq in range(1, 41)] == [True] * 40
    assert "## Compactions" in ran.stdout


def test_an_export_loads_back_with_the_context_of_now(
    talked: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    file = tmp_path / "s.json"

    ran = talked("export", "s", "--output", str(file))

    assert ran.exit_code == 0
    assert f"wrote 40 turns to {file}" in ran.stderr.replace("\n", "")
    found = Trajectory.model_validate_json(file.read_bytes())
    assert [turn.seq for turn in found.turns] == list(range(1, 41))
    assert list(found.context) == client.read("s").messages
    assert Trajectory.model_validate_json(talked("export", "s").stdout) == found


def test_an_export_loads_back_even_with_half_a_character_in_it(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("s", {"role": "user", "content": "héllo \ud800"})

    ran = served("export", "s")

    assert ran.exit_code == 0
    assert Trajectory.model_validate_json(ran.stdout).question == "héllo \ufffd"


def test_a_file_that_cannot_be_written_is_one_line(
    talked: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = talked("export", "s", "--output", str(tmp_path / "none" / "s.json"))

    assert ran.exit_code == 1
    assert "No such file or directory" in ran.stderr


def test_history_tells_when_what_and_how_well(talked: Callable[..., Ran]) -> None:
    table = talked("history", "s")
    rows = talked("history", "s", "--json").json

    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["tokens_after"] < row["tokens_before"] for row in rows)
    assert all(row["at_ms"] and "receipts" in row for row in rows)
    for row in rows:
        assert f"{row['tokens_before']:,} → {row['tokens_after']:,}" in table.stdout
    assert "by extractive" in table.stdout
    assert "tokens freed" in table.stdout


def test_history_says_of_views_that_they_added_tokens(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    client.open("s", Policy.managed(recent_runs=2, passthrough_runs=1, max_tokens=4096))
    for word in ("one", "two", "three"):
        client.manager("s").add_interaction(word, "ok")
    wait_until(lambda: client.info("s").version == 1)

    told = served("history", "s").stdout

    assert "tokens added" in told
    assert "-" not in told.splitlines()[-1]


def test_history_tells_why_a_model_did_not_write(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 20, summarizer="openai")
    settled(client, "s")

    [row, *_] = served("history", "s", "--json").json

    assert (row["model"], row["failed"]) == ("extractive", ["SummarizerMisconfigured"])
    assert "failed before: SummarizerMisconfigured\n" in served("history", "s").stdout


def test_a_session_never_compacted_says_so(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("short", {"role": "user", "content": "hi"})

    assert "never compacted" in served("history", "short").stdout
    assert served("history", "short", "--json").json == []


def test_diff_shows_the_summaries_lines_that_came_and_went(talked: Callable[..., Ran]) -> None:
    ran = talked("diff", "s", "1", "2")
    found = talked("diff", "s", "0", "1", "--json").json

    assert ran.exit_code == 0
    assert "--- version 1" in ran.stdout
    assert "+++ version 2" in ran.stdout
    assert [each["version"] for each in found["versions"]] == [0, 1]
    assert found["versions"][0]["tokens"] is None
    assert [line for line in found["summary"] if line.startswith("+")]
    assert not any(line.startswith("-") for line in found["summary"][2:])


def test_diff_without_versions_is_of_the_newest_and_the_one_before(
    talked: Callable[..., Ran],
) -> None:
    last = len(talked("history", "s", "--json").json)

    newest = talked("diff", "s", "--json").json["versions"]
    since = talked("diff", "s", "0", "--json").json["versions"]

    assert [each["version"] for each in newest] == [last - 1, last]
    assert [each["version"] for each in since] == [0, last]


def test_diff_of_a_version_with_itself_is_none(talked: Callable[..., Ran]) -> None:
    assert "no difference" in talked("diff", "s", "1", "1").stdout


def test_an_unknown_version_says_which_there_are(talked: Callable[..., Ran]) -> None:
    last = len(talked("history", "s", "--json").json)

    ran = talked("diff", "s", "1", "99")

    assert ran.exit_code == 1
    assert ran.stderr.strip() == f"no version 99 of 's'; there are 0-{last}"


def test_rolled_back_turns_are_marked_in_the_transcript_and_listed_in_the_history(
    talked: Callable[..., Ran], client: ContextClient
) -> None:
    client.checkpoint("s", name="here")
    talk(client, "s", 1, first=41)

    assert talked("rollback", "s", "--to", "here", "--yes").exit_code == 0

    wait_until(lambda: "rolled back" in talked("transcript", "s").stdout, what="the mark")
    assert "1 rollback" in talked("history", "s").stdout
