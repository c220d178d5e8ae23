"""Names that are safe in a key, and keys that lie in one slot and are told in one table."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill import InvalidName
from turnmill.contract import keys
from turnmill.contract.keys import (
    SHARDS,
    SessionKeys,
    endpoint_keys,
    session_keys,
    shard_keys,
    shard_of,
)
from turnmill.contract.names import Namespace, SessionId, namespace, session_id

session_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:@/#+=~-]{0,199}\Z")


@given(session_names)
def test_what_is_allowed_is_taken_as_it_is(name: str) -> None:
    assert session_id(name) == name


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


@given(session_names)
def test_a_shard_is_one_of_those_there_are(name: str) -> None:
    assert 0 <= shard_of(SessionId(name)) < SHARDS


def test_the_table_names_every_key_and_no_other() -> None:
    told = set(
        re.findall(r"^``(?:s:<id>:)?(\w+)(?::<sha256>)?``", keys.__doc__ or "", re.MULTILINE)
    )

    assert told == {*(field.name for field in fields(SessionKeys)), "policies"}


def test_a_session_and_its_shard_agree_on_the_lists() -> None:
    made = session_keys(Namespace("ns"), SessionId("s"))
    shard = shard_keys(Namespace("ns"), shard_of(SessionId("s")))

    assert (made.backlog, made.due, made.index) == (shard.backlog, shard.due, shard.index)


def test_no_namespace_has_the_name_that_keys_of_all_begin_with() -> None:
    shared = endpoint_keys("0" * 16).gate

    with pytest.raises(InvalidName, match="taken"):
        namespace(shared.removeprefix("turnmill:{").partition("/")[0])
