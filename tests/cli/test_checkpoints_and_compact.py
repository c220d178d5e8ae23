"""checkpoint, checkpoints, rollback, compact and clear."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.commands import Ran
from tests.cli.conversation import settled, talk
from turnmill import ContextClient, Policy

pytestmark = pytest.mark.worker


def test_a_checkpoint_is_named_listed_and_gone_back_to(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    made = served("checkpoint", "s", "before the refund", "--name", "refund")
    talk(client, "s", 2, first=4)
    listed = served("checkpoints", "s", "--json").json
    table = served("checkpoints", "s")

    ran = served("rollback", "s", "--to", "refund", "--yes", "--json")

    assert made.stdout == "refund\n"
    assert [(each["id"], each["seq"]) for each in listed] == [("refund", 3)]
    assert "before the refund" in table.stdout
    assert ran.json["turns_lost"] == 2
    assert client.info("s").turns_in_log == 3


def test_a_rollback_says_what_will_leave_and_asks(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    served("checkpoint", "s")
    talk(client, "s", 2, first=4)

    refused = served("rollback", "s", stdin="n\n")
    agreed = served("rollback", "s", stdin="y\n")

    assert refused.exit_code == 1
    assert "2 turns will leave the session" in refused.stderr
    assert agreed.exit_code == 0
    assert "2 turns set aside" in agreed.stdout
    assert client.info("s").turns_in_log == 3


def test_a_second_rollback_does_not_count_what_left_before(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 2)
    served("checkpoint", "s", "--name", "two")
    talk(client, "s", 2, first=3)
    served("checkpoint", "s", "--name", "four")
    talk(client, "s", 3, first=5)

    first = served("rollback", "s", "--to", "four", stdin="y\n")
    second = served("rollback", "s", "--to", "two", stdin="y\n")

    assert "3 turns will leave" in first.stderr
    assert "2 turns will leave" in second.stderr
    assert "2 turns set aside" in second.stdout


def test_where_nobody_can_be_asked_nothing_is_done_without_yes(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    served("checkpoint", "s")

    for words in (("rollback", "s"), ("clear", "s"), ("forget", "s")):
        ran = served(*words, stdin="")

        assert ran.exit_code == 1
        assert "nothing was done: add --yes" in ran.stderr
    assert client.info("s").turns_in_log == 3


def test_a_rollback_to_a_version_knows_how_many_turns_leave(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 30)
    settled(client, "s")
    version = client.info("s").version
    talk(client, "s", 2, first=31)
    client.open("s", Policy(max_tokens=8000))  # no further compaction

    asked = served("rollback", "s", "--to", str(version), stdin="n\n")
    ran = served("rollback", "s", "--to", str(version), "--yes", "--json")

    lost = ran.json["turns_lost"]
    assert f" {lost} turns will leave the session" in asked.stderr
    assert ran.json["restored"] == f"version {version}"


def test_what_cannot_be_gone_back_to_says_what_can(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    none = served("rollback", "s", "--yes")
    served("checkpoint", "s", "--name", "here")
    other = served("rollback", "s", "--to", "there", "--yes")
    version = served("rollback", "s", "--to", "77", "--yes")

    assert none.stderr.startswith("NoCheckpoint: 's' has no checkpoint")
    assert other.stderr.startswith("NoCheckpoint: no checkpoint 'there' of 's'")
    assert "checkpoints are: here" in other.stderr
    assert version.stderr.startswith("NoCheckpoint: ")
    assert {ran.exit_code for ran in (none, other, version)} == {1}


def test_a_policy_without_checkpoints_says_how_to_have_some(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    client.open("s", Policy(keep_checkpoints=0))

    ran = served("checkpoint", "s")

    assert ran.exit_code == 1
    assert "turnmill open s --set keep_checkpoints=10" in ran.stderr
    assert "no checkpoints" in served("checkpoints", "s").stdout


def test_compact_waits_and_says_what_it_did(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 12)

    ran = served("compact", "s", "--json")
    again = served("compact", "s")

    done = ran.json
    assert done["turns_summarized"] > 0
    assert done["tokens_after"] < done["tokens_before"]
    assert "s stays as it is: " in again.stdout


def test_compact_of_a_short_session_says_that_everything_fits(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    said = ["Hi, I am Ann Lee.", "Do not ever email me.", "The invoice of May 3 is $412.50."]
    more = ["My dog is called Rex.", "We live in Oslo.", "Our car is a red Volvo.", "Thanks."]
    for text in [*said, *more]:
        client.push("s", {"role": "user", "content": text})

    ran = served("compact", "s", "--json")
    told = served("compact", "s")

    done = ran.json
    assert done["turns_summarized"] == 0
    assert done["tokens_after"] == done["tokens_before"]
    assert done["reason"] == "everything fits as it is, and a summary would be no shorter"
    assert "s stays as it is: everything fits" in told.stdout
    read = client.read("s")
    assert [message["content"] for message in read.messages[:3]] == said


def test_compact_writes_to_a_template_and_refuses_one_that_is_none(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 12)

    refused = served("compact", "s", "--template", "nope")
    ran = served("compact", "s", "--template", "support")

    assert refused.exit_code == 1
    assert refused.stderr.startswith("UnknownTemplate: ")
    assert ran.exit_code == 0
    assert "turns summarized" in ran.stdout


def test_clear_leaves_the_system_prompt(served: Callable[..., Ran], client: ContextClient) -> None:
    talk(client, "s", 4)

    ran = served("clear", "s", "--yes")

    assert "4 turns set aside" in ran.stdout
    assert client.read("s").messages == [{"role": "system", "content": "Be brief."}]


def test_a_fork_and_a_rewind_from_the_command_line(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 4)

    forked = served("fork", "s", "other", "--at", "2", "--json")
    again = served("fork", "s", "other")
    rewound = served("rewind", "s", "--at", "4", stdin="y\n")

    assert (forked.json["session"], forked.json["seq"]) == ("other", 2)
    assert "there is a session 'other'" in again.stderr
    assert "back at turn 3: 1 turn set aside" in rewound.stdout
    assert [client.info(each).turns_in_log for each in ("s", "other")] == [3, 2]
    assert "begun as another session was after turn 2" in served("history", "other").stdout
