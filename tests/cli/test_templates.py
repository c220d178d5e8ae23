"""templates list, show and check."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cli.commands import Ran
from turnmill_worker.templates import built_in_templates


@pytest.fixture
def templates(turnmill: Callable[..., Ran]) -> Callable[..., Ran]:
    """Runs a command of the group."""
    return partial(turnmill, "templates")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a template of one's own."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "coding.md").write_text("# [bold]Mine[/bold]\n\n## Goal\n{{recent_turns}}\n")
    return folder


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """Runs a command whose stdout is a terminal, and gives what it printed."""

    def run(*words: str) -> str:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "turnmill_cli", *words]
        subprocess.run(command, stdout=theirs, check=True, timeout=60)
        os.close(theirs)
        printed = os.read(ours, 65_536).decode()
        os.close(ours)
        return printed

    return run


def test_list_names_each_template_with_its_source_hash_and_purpose(
    templates: Callable[..., Ran],
) -> None:
    ran = templates("list")

    assert ran.exit_code == 0
    for template in built_in_templates().values():
        assert template.name in ran.stdout
        assert template.sha256[:12] in ran.stdout
        assert template.description in ran.stdout
    assert ran.stdout.count("built-in") == len(built_in_templates())


def test_list_says_which_template_hides_another(templates: Callable[..., Ran], mine: Path) -> None:
    table = templates("list", "--dir", str(mine)).stdout
    listed = templates("list", "--dir", str(mine), "--json").json

    assert "[bold]Mine[/bold]" in table
    assert str(mine) in table
    assert table.count("(hidden by the first coding)") == 1
    first, second = (each for each in listed if each["name"] == "coding")
    assert (first["source"], first["shadowed_by"]) == (str(mine / "coding.md"), "")
    assert (second["source"], second["shadowed_by"]) == ("built-in", str(mine / "coding.md"))
    assert len(second["sha256"]) == 64


def test_a_folder_that_does_not_exist_is_said(
    templates: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = templates("list", "--dir", str(tmp_path / "nowhere"))

    assert ran.exit_code == 0
    assert "nowhere: no such folder" in ran.stderr


def test_show_of_an_unknown_name_says_what_there_is(templates: Callable[..., Ran]) -> None:
    ran = templates("show", "codng")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("UnknownTemplate: ")
    assert "coding, default, endless, research, support" in ran.stderr


def test_check_fails_when_one_file_is_not_valid_and_says_so_for_each(
    templates: Callable[..., Ran], mine: Path
) -> None:
    (mine / "broken.md").write_text('## Contract\n```json\n{"a": }\n```\n')

    ran = templates("check", *(str(mine / f"{name}.md") for name in ("broken", "coding", "none")))

    assert ran.exit_code == 1
    broken, coding, none = ran.stdout.splitlines()
    assert broken.startswith(f"✗ {mine / 'broken.md'}:3: the contract is not valid JSON: ")
    assert coding.startswith("✓ ")
    assert none == f"✗ {mine / 'none.md'}: cannot be read: No such file or directory"


def test_check_json_is_one_report_a_file(templates: Callable[..., Ran], mine: Path) -> None:
    (mine / "broken.md").write_text("{{")

    ran = templates("check", str(mine / "coding.md"), str(mine / "broken.md"), "--json")

    good, bad = ran.json
    assert ran.exit_code == 1
    assert good["error"] == ""
    assert good["template"]["sections"] == ["Goal"]
    assert "broken.md:1: " in bad["error"]
    assert bad["template"] is None


def test_a_template_cannot_drive_the_terminal_but_a_pipe_is_given_it_as_it_is(
    templates: Callable[..., Ran],
    mine: Path,
    on_terminal: Callable[..., str],
    turnmill_process: Callable[..., Ran],
) -> None:
    (mine / "evil.md").write_text("# \x1b[2Jevil\n")
    show = ("templates", "show", "evil", "--dir", str(mine))

    assert "\x1b[2J" not in templates("list", "--dir", str(mine)).stdout
    assert "\x1b[2J" not in on_terminal(*show)
    assert turnmill_process(*show).stdout == "# \x1b[2Jevil\n"
