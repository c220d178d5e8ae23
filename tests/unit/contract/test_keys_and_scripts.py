"""Names are safe in a key, keys lie in one slot, and a script's header is its contract."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import InvalidName, ScriptContract, lua
from turnmill.contract.keys import (
    AskKeys,
    EndpointKeys,
    RegistryKeys,
    SessionKeys,
    WaitingKeys,
    session_keys,
    shard_of,
)
from turnmill.contract.names import Namespace, SessionId, namespace, session_id
from turnmill.contract.scripts import Script, load_script
from turnmill_worker.store import lua as worker_lua
from turnmill_worker.store.leases import SweepKeys
from turnmill_worker.store.namespaces import ListKeys

# Names that are safe in a key, and keys that lie in one slot and are told in one table.

session_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:@/#+=~-]{0,199}\Z")


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a{b}", "-a", "a*", "a\n", "ä", "a" * 201, "\ud800", None, 7, b"a"]
)
def test_any_other_session_name_is_refused_without_being_quoted(name: object) -> None:
    with pytest.raises(InvalidName, match="allowed are 1 to 200") as refused:
        session_id(name)

    assert "a" * 201 not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a/b", "a{", "a" * 65, None, "a:b", "a\n"])
def test_any_other_namespace_is_refused(name: object) -> None:
    with pytest.raises(InvalidName, match="allowed are 1 to 64"):
        namespace(name)


@given(session_names)
def test_all_keys_of_a_session_lie_in_one_slot(name: str) -> None:
    made = session_keys(Namespace("ns"), SessionId(name))
    every = [getattr(made, field.name) for field in fields(SessionKeys)]

    tags = {re.match(r"turnmill:\{([^{}]*)\}:", key) for key in every}
    assert {tag and tag[1] for tag in tags} == {f"ns/{shard_of(SessionId(name))}"}


@given(session_names, session_names)
def test_two_sessions_share_no_key_of_their_own(one: str, other: str) -> None:
    owned = [set(session_keys(Namespace("ns"), SessionId(name)).owned) for name in (one, other)]

    assert one == other or not owned[0] & owned[1]


# A script's header is its contract: a wrong header or a wrong call never reaches Redis.

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


@pytest.mark.parametrize(("folder", "name"), PACKAGED)
def test_every_script_names_keys_that_exist(folder: str, name: str) -> None:
    named = set(load_script(folder, name).keys)

    # Of one kind: a script's keys lie in one slot.
    of = (SessionKeys, EndpointKeys, WaitingKeys, AskKeys, RegistryKeys)
    kinds = [{each.name for each in fields(kind)} for kind in of]
    assert any(named <= kind for kind in [*kinds, {*SweepKeys._fields}, {*ListKeys._fields}])
