"""turnmill visualize: a file or a session as one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill import ContextClient
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn

WORDS = "the customer's words"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A trajectory of one turn, as JSON."""
    turn = TrajectoryTurn(seq=Seq(1), messages=({"role": "user", "content": WORDS},), tokens=9)
    trajectory = Trajectory(
        session=SessionId("agent-7"), namespace=Namespace("default"), turns=(turn,)
    )
    made = tmp_path / "agent-7.json"
    made.write_text(trajectory.model_dump_json())
    return made


def test_a_file_becomes_a_page_beside_it(turnmill: Callable[..., Ran], file: Path) -> None:
    ran = turnmill("visualize", str(file))

    assert ran.exit_code == 0
    assert ran.stdout.strip() == str(file.with_suffix(".html"))
    assert WORDS.replace("'", "&#39;") in file.with_suffix(".html").read_text(encoding="utf-8")


def test_a_dash_writes_to_stdout(turnmill_process: Callable[..., Ran], file: Path) -> None:
    ran = turnmill_process("visualize", str(file), "--output", "-")

    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("<!DOCTYPE html>")
    assert not file.with_suffix(".html").exists()


def test_a_file_that_is_no_trajectory_is_refused_without_quoting_it(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / "other.json"
    file.write_text(f'{{"session": 7, "turns": "{WORDS}", "{WORDS}": 1}}')

    ran = turnmill("visualize", str(file))

    assert ran.exit_code == 2
    assert f"{file}: not a trajectory:" in ran.stderr
    assert WORDS not in ran.stderr


def test_a_folder_that_is_missing_is_said(turnmill: Callable[..., Ran], file: Path) -> None:
    ran = turnmill("visualize", str(file), "--output", str(file.parent / "no" / "page.html"))

    assert ran.exit_code == 1
    assert "No such file or directory" in ran.stderr


def test_without_a_worker_it_says_so(
    turnmill: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    client.push("agent-7", {"role": "user", "content": WORDS})

    ran = turnmill(
        "visualize", "agent-7", "--timeout", "0.3", "--output", str(tmp_path / "page.html")
    )

    assert ran.exit_code == 1
    assert "no worker took it up within 0.3 s" in ran.stderr
