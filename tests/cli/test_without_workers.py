"""Commands that ask a worker, or look at an archive, where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient, UnknownSession


@pytest.mark.parametrize(
    "words",
    [
        ("transcript", "s"),
        ("export", "s"),
        ("history", "s"),
        ("diff", "s", "0", "1"),
        ("compact", "s"),
        ("ground", "q"),
        ("remember", "t"),
    ],
)
def test_the_queue_nobody_consumes_is_named(
    turnmill: Callable[..., Ran], client: ContextClient, words: tuple[str, ...]
) -> None:
    client.push("s", {"role": "user", "content": "x"})

    ran = turnmill(*words, "--timeout", "0.2")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("NotAnswered: ")
    assert "Does a worker consume the queue" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.usefixtures("turnmill")
def test_a_person_is_told_at_once_that_a_worker_is_asked(client: ContextClient) -> None:
    client.push("s", {"role": "user", "content": "x"})
    terminal, end = pty.openpty()

    done = subprocess.run(
        [sys.executable, "-m", "turnmill_cli", "history", "s", "--timeout", "0.2"],
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=end,
        timeout=60,
        check=False,
    )
    os.close(end)
    told = os.read(terminal, 4096).decode()
    os.close(terminal)

    assert done.stdout == b""
    waits = "asking a worker, 0.2 s at most; `turnmill up` starts one"
    assert told.index(waits) < told.index("NotAnswered: ")


def test_forget_says_what_is_pending_and_fails_for_want_of_proof(
    turnmill: Callable[..., Ran], client: ContextClient
) -> None:
    client.push("s", {"role": "user", "content": "x"})

    ran = turnmill("forget", "s", "--yes", "--timeout", "0.2", "--json")

    done = ran.json
    assert ran.exit_code == 1
    assert done["keys_left"] == 0
    assert not done["archive"]["gone"]
    assert "no worker answered" in done["archive"]["found"]
    with pytest.raises(UnknownSession):
        client.info("s")


def test_an_archive_that_is_not_there_is_one_line_and_not_made(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    for words in (("info",), ("sessions",), ("prune", "--older-than", "1d")):
        ran = turnmill("archive", *words, "--data-dir", str(tmp_path))

        assert ran.exit_code == 1
        assert ran.stderr.startswith(f"no archive at {tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_is_turned_off_or_no_database_is_one_line(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "archive.db").write_text("this is no database at all, whatever it is called")

    off = turnmill("archive", "sessions", "--archive-url", "none")
    broken = turnmill("archive", "sessions", "--data-dir", str(tmp_path))
    wrong = turnmill("archive", "sessions", "--archive-url", "mysql://me:hunter2@host/db")

    assert off.stderr.startswith("the archive is turned off")
    assert broken.stderr.startswith("ArchiveFailed: ")
    assert wrong.stderr.startswith("InvalidArchiveUrl: ")
    assert "hunter2" not in wrong.stderr
    assert [ran.exit_code for ran in (off, broken, wrong)] == [1, 1, 2]


def test_what_up_keeps_here_is_found_without_being_named(
    turnmill: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TURNMILL_DATA_DIR")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turnmill-data").mkdir()
    (tmp_path / "turnmill-data" / "archive.db").touch()

    ran = turnmill("archive", "info")

    assert ran.stdout.startswith(str(tmp_path / "turnmill-data" / "archive.db"))
