"""Sessions of sub-agents with a real worker: they begin with what their parent's user laid down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import WorkerProcess
from tests.worker.harness import SMALL, archive_in, chat, push_all, until_settled
from turnmill import (
    AsyncContextClient,
    ContextClient,
    InvalidInput,
    NotAnswered,
    Policy,
    Turn,
    UnknownSession,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.dialects.legality import violations as violations_for

pytestmark = pytest.mark.worker

RULE = "Never write to the staging database without asking me first."
ASKED = "Please rebuild the billing reports of the northern depot by Friday."
WORDS = "the ember falcon opens the door behind the brewery"
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "delegate", "arguments": "{}"}}
    ],
}


@pytest.fixture(scope="module", params=["archive", "no archive"], autouse=True)
def worker(
    request: pytest.FixtureRequest, store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A worker with and without an archive."""
    folder = tmp_path_factory.mktemp("children")
    env = archive_in(folder) if request.param == "archive" else {}
    with WorkerProcess(store.url, folder, name="children", env=env):
        yield request.param


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _parent(client: ContextClient) -> None:
    client.open("s", SMALL, "You orchestrate.")
    client.push("s", _user(ASKED))
    client.push("s", {"role": "assistant", "content": "I begin with the depot's invoices."})
    client.push("s", Turn(messages=[_user(RULE)], metadata={"instructs": True}))


@pytest.mark.parametrize("later", [0, 60])
def test_a_child_has_the_rules_and_the_request_and_nothing_else(
    client: ContextClient, later: int
) -> None:
    _parent(client)
    push_all(client, "s", chat(later))
    if later:
        until_settled(client, "s")
    client.push("s", CALL)

    child = client.manager("child", None, "You look things up.", parent="s")
    child.push(_user("Find the invoices of May."))

    shown = child.messages()
    assert shown[0] == {"role": "system", "content": "You look things up."}
    assert shown[-1] == _user("Find the invoices of May.")
    assert RULE in str(shown)
    assert ASKED in str(shown)
    assert "orchestrate" not in str(shown)
    assert "invoices of the" not in str(shown)
    assert RULE in [rule.text for rule in client.rules("child")]
    assert client.info("child").policy == SMALL
    assert client.info("child").parent == "s"
    assert client.info("child").usage.total < 300
    for dialect in ("chat", "anthropic", "responses"):
        said = client.read("child")
        assert violations_for(said.request_for(dialect)[_NAMES[dialect]], dialect) == []
        assert RULE in str(said.messages_for(dialect))


_NAMES = {"chat": "messages", "anthropic": "messages", "responses": "input"}


def test_they_stand_through_its_compactions_beside_what_it_was_told_itself(
    client: ContextClient,
) -> None:
    _parent(client)
    client.open("child", SMALL, parent="s")
    own = "Find the invoices of May and list every door they were brought to."
    push_all(client, "child", [_user(own), *chat(90)[1:]])
    until_settled(client, "child")
    push_all(client, "child", chat(90, topic="letter"))
    until_settled(client, "child")

    text = str(client.read("child").messages)
    assert client.info("child").version > 2
    assert RULE in text
    assert ASKED in text
    assert own in text


def test_its_tokens_count_for_itself_and_its_answer_is_one_turn(client: ContextClient) -> None:
    _parent(client)
    client.push("s", CALL)
    until_settled(client, "s")
    before = client.info("s").history_tokens
    client.open("child", Policy(max_tokens=4_000), parent="s")
    push_all(client, "child", chat(40))
    until_settled(client, "child")
    client.push("s", {"role": "tool", "tool_call_id": "c1", "content": "There were three."})

    assert client.info("s").history_tokens < before + 40
    assert client.info("s").last_seq == 5
    assert violations(client.read("s").messages) == []
    assert client.info("child").policy.max_tokens == 4_000


def test_a_rule_that_the_parent_changes_later_stays_as_it_was_in_the_child(
    client: ContextClient,
) -> None:
    _parent(client)
    client.open("child", parent="s")
    [rule] = client.rules("s")
    client.manager("s").revoke(rule.id)

    client.open("child", parent="s")  # again: as every process does when it starts
    client.open("second", parent="s")

    assert [each.text for each in client.rules("child")] == [RULE]
    assert client.rules("second") == ()


def test_what_is_erased_in_the_parent_is_erased_in_children_of_children(
    client: ContextClient,
) -> None:
    _parent(client)
    client.push("s", Turn(messages=[_user(f"Say that {WORDS}.")], metadata={"instructs": True}))
    client.open("child", parent="s")
    client.open("grandchild", parent="child")
    client.push("grandchild", _user("its own"))
    assert WORDS in str(client.read("grandchild").messages)

    done = client.erase("s", matching=WORDS)

    assert set(done.forks) == {"child", "grandchild"}
    for each in ("child", "grandchild"):
        assert WORDS not in str(client.read(each).messages)
        assert WORDS not in str(client.trajectory(each))
        assert RULE in str(client.read(each).messages)
    assert client.read("grandchild").messages[-1] == _user("its own")


def test_what_the_parent_erased_before_no_child_gets(client: ContextClient) -> None:
    _parent(client)
    client.erase("s", matching=RULE)

    client.open("child", parent="s")

    assert client.rules("child") == ()
    assert RULE not in str(client.trajectory("child"))


def test_a_rule_and_a_request_of_one_turn_are_one_turn_of_the_child(
    client: ContextClient,
) -> None:
    client.push("s", _user(f"{ASKED}\n{RULE}"))
    client.open("child", SMALL, parent="s")
    rules, shown = client.rules("child"), str(client.read("child").messages)

    done = client.erase("child", turns=[1])

    assert [rule.text for rule in rules] == [RULE]
    assert ASKED in shown
    assert (client.info("child").last_seq, len(done.turns)) == (1, 1)
    assert client.rules("child") == ()
    assert ASKED not in str(client.read("child").messages)


def test_a_request_that_its_parent_had_no_room_for_is_whole_in_the_child(
    client: ContextClient,
) -> None:
    asked = "\n".join(f"Rebuild the billing report of depot {at}." for at in range(60))
    client.open("s", SMALL)
    push_all(client, "s", [_user(asked), *chat(60)])
    until_settled(client, "s")
    assert asked not in str(client.read("s").messages[0]["content"])

    client.open("narrow", parent="s")
    client.open("wide", Policy(max_tokens=16_000), parent="s")

    narrow, wide = client.read("narrow"), client.read("wide")
    assert asked in wide.messages[0]["content"]
    assert asked not in narrow.messages[0]["content"]
    assert narrow.tokens < SMALL.max_tokens
    assert client.turn("narrow", 1).messages == (_user(asked),)


def test_a_child_keeps_what_it_has_when_its_parent_is_forgotten(client: ContextClient) -> None:
    _parent(client)
    client.open("child", parent="s")
    client.forget("s")

    assert RULE in str(client.read("child").messages)


def test_what_is_no_child_of_the_parent_is_refused(client: ContextClient) -> None:
    _parent(client)
    client.push("other", _user("hello"))

    with pytest.raises(InvalidInput, match="'other' that is no child of 's'"):
        client.open("other", parent="s")
    with pytest.raises(UnknownSession):
        client.open("child", parent="nobody")
    with pytest.raises(NotAnswered, match=r"^turnmill\.open of 's'"):
        client.open("child", parent="s", timeout_s=0)


async def test_the_asynchronous_client_opens_children_too(
    store: EmbeddedRedis, namespace: str
) -> None:
    async with AsyncContextClient(store.url, namespace=namespace) as client:
        await client.push("s", Turn(messages=[_user(RULE)], metadata={"instructs": True}))

        agent = await client.manager("child", parent="s")

        assert [rule.text for rule in await client.rules("child")] == [RULE]
        assert RULE in str(await agent.messages())
