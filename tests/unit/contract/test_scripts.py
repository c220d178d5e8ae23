"""A script's header is its contract: a wrong header or a wrong call never reaches Redis."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from turnmill import ScriptContract, lua
from turnmill.contract.keys import KEY_GROUPS, AskKeys, EndpointKeys, SessionKeys, WaitingKeys
from turnmill.contract.registry import RegistryKeys
from turnmill.contract.scripts import Script, load_script
from turnmill_worker.store import lua as worker_lua
from turnmill_worker.store.leases import SweepKeys
from turnmill_worker.store.namespaces import ListKeys

GOOD = "-- Says hello.\n-- KEYS: meta, log\n-- ARGV: name, size:number, more...\n-- returns: 1\n"
PACKAGED = [
    (package.__name__, path.stem)
    for package in (lua, worker_lua)
    for path in sorted(Path(package.__file__ or "").parent.glob("*.lua"))
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of scripts made by the test."""
    name = f"scripts_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def script(package: str, tmp_path: Path, text: str) -> Script:
    (tmp_path / package / "hello.lua").write_text(text)
    return load_script(package, "hello")


def test_a_header_becomes_named_locals(package: str, tmp_path: Path) -> None:
    made = script(package, tmp_path, GOOD + "return 1")

    assert (made.keys, made.args, made.rest) == (("meta", "log"), ("name", "size"), "more")
    assert "local log = KEYS[2]" in made.source
    assert "local size = tonumber(ARGV[2])" in made.source


def test_a_group_of_keys_becomes_locals_and_a_list(package: str, tmp_path: Path) -> None:
    made = script(package, tmp_path, GOOD.replace("meta, log", "owned..., backlog"))

    assert made.keys == (*KEY_GROUPS["owned"], "backlog")
    assert "local backlog = KEYS[16]" in made.source
    assert f"local owned = {{{', '.join(KEY_GROUPS['owned'])}}}" in made.source


def test_a_group_of_keys_nobody_knows_is_refused(package: str, tmp_path: Path) -> None:
    with pytest.raises(ScriptContract, match=r"'all\.\.\.' is none of expiring, owned"):
        script(package, tmp_path, GOOD.replace("meta, log", "all..."))


def test_a_call_lists_keys_arguments_and_the_rest(package: str, tmp_path: Path) -> None:
    made = script(package, tmp_path, GOOD)
    keys = SimpleNamespace(meta="m", log="l")

    assert made.call(keys, ["x", "y"], size=2, name="n") == [2, "m", "l", "n", 2, "x", "y"]


@pytest.mark.parametrize("line", ["KEYS", "ARGV", "returns"])
def test_a_header_without_one_of_its_lines_is_refused(
    package: str, tmp_path: Path, line: str
) -> None:
    text = "\n".join(each for each in GOOD.splitlines() if not each.startswith(f"-- {line}:"))

    with pytest.raises(ScriptContract, match="needs the lines KEYS, ARGV and returns"):
        script(package, tmp_path, text)


@pytest.mark.parametrize("argument", ["size:text", "two words", "Upper", "more..., last"])
def test_an_argument_that_is_no_name_is_refused(
    package: str, tmp_path: Path, argument: str
) -> None:
    text = f"-- KEYS: meta\n-- ARGV: {argument}\n-- returns: 1\n"

    with pytest.raises(ScriptContract, match="name:number"):
        script(package, tmp_path, text)


@pytest.mark.parametrize(
    "args", [{}, {"name": "n"}, {"name": "n", "size": 1, "other": 2}, {"name": "n", "sise": 1}]
)
def test_a_call_with_other_arguments_is_refused_without_their_values(
    package: str, tmp_path: Path, args: dict[str, str | int]
) -> None:
    made = script(package, tmp_path, GOOD)
    values = {name: "private" if name == "name" else value for name, value in args.items()}

    with pytest.raises(ScriptContract, match=r"takes keys \(meta, log\)") as refused:
        made.call(SimpleNamespace(meta="m", log="l"), (), **values)

    assert "private" not in str(refused.value)


def test_a_call_with_a_rest_nobody_takes_is_refused(package: str, tmp_path: Path) -> None:
    made = script(package, tmp_path, GOOD.replace(", more...", ""))

    with pytest.raises(ScriptContract):
        made.call(SimpleNamespace(meta="m", log="l"), ["x"], name="n", size=1)


@pytest.mark.parametrize(("folder", "name"), PACKAGED)
def test_every_script_names_keys_that_exist(folder: str, name: str) -> None:
    named = set(load_script(folder, name).keys)

    # Of one kind: a script's keys lie in one slot.
    of = (SessionKeys, EndpointKeys, WaitingKeys, AskKeys, RegistryKeys)
    kinds = [{each.name for each in fields(kind)} for kind in of]
    assert any(named <= kind for kind in [*kinds, {*SweepKeys._fields}, {*ListKeys._fields}])
