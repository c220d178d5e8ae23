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


def test_list_shows_files_that_are_not_valid(templates: Callable[..., Ran], mine: Path) -> None:
    (mine / "broken.md").write_text("a\n{{oops\n\x1b[2J")
    (mine / "my own.md").write_text("fine")

    ran = templates("list", "--dir", str(mine))

    assert ran.exit_code == 0
    assert "not valid" in ran.stdout
    assert "line 2: {{ that is no part of a placeholder" in ran.stdout
    assert "template name: got 6 characters" in ran.stdout


def test_list_names_a_folder_as_it_is_seen_from_here(
    templates: Callable[..., Ran], mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine.parent)

    ran = templates("list", "--dir", "mine")

    assert str(mine) not in ran.stdout
    assert ran.stdout.splitlines()[1].split()[-1] == "mine"


def test_folders_are_searched_in_order_also_those_of_the_environment(
    templates: Callable[..., Ran], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coding.md").write_text("theirs")

    given = templates("show", "coding", "--dir", str(tmp_path), "--dir", str(mine))
    monkeypatch.setenv("TURNMILL_TEMPLATE_DIRS", os.pathsep.join([str(tmp_path), str(mine)]))
    named = templates("show", "coding")

    assert (given.stdout, named.stdout) == ("theirs\n", "theirs\n")


def test_a_folder_that_does_not_exist_is_said(
    templates: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = templates("list", "--dir", str(tmp_path / "nowhere"))

    assert ran.exit_code == 0
    assert "nowhere: no such folder" in ran.stderr


@pytest.mark.parametrize("name", sorted(built_in_templates()))
def test_show_prints_a_template_as_it_is_written(templates: Callable[..., Ran], name: str) -> None:
    assert templates("show", name).stdout == built_in_templates()[name].text


def test_show_json_has_what_was_understood(templates: Callable[..., Ran]) -> None:
    shown = templates("show", "support", "--json").json

    template = built_in_templates()["support"]
    assert shown["sections"] == ["Request", "Done", "Agreed", "Next"]
    assert shown["contract"] == template.contract
    assert shown["text"] == template.text


def test_show_of_an_unknown_name_says_what_there_is(templates: Callable[..., Ran]) -> None:
    ran = templates("show", "codng")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("UnknownTemplate: ")
    assert "coding, default, endless, research, support" in ran.stderr


def test_show_never_leaves_the_folders(templates: Callable[..., Ran], mine: Path) -> None:
    ran = templates("show", "../mine/coding", "--dir", str(mine))

    assert ran.exit_code == 2
    assert ran.stderr.startswith("InvalidName: ")


def test_check_passes_a_valid_file(templates: Callable[..., Ran], mine: Path) -> None:
    ran = templates("check", str(mine / "coding.md"))

    assert ran.exit_code == 0
    assert ran.stdout == f"✓ {mine / 'coding.md'}: 1 section, 1 placeholder\n"


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


def test_check_warns_of_unknown_placeholders_and_names_nothing_can_load(
    templates: Callable[..., Ran], mine: Path
) -> None:
    odd = mine / "my own.txt"
    odd.write_text("a\n{{recent_turn}}\n")

    ran = templates("check", str(odd))

    assert ran.exit_code == 0
    assert f"! {odd}:2: {{{{recent_turn}}}} is not known" in ran.stdout
    assert "did you mean recent_turns?" in ran.stdout
    assert ran.stdout.count("cannot be loaded by name") == 2


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
