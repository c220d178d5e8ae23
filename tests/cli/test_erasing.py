"""erase, and the list of what was erased."""

from __future__ import annotations

import getpass
from collections.abc import Callable

import pytest

from tests.cli.commands import Ran
from tests.cli.conversation import talk
from turnmill import ContextClient
from turnmill_cli.commands.erase import spans

pytestmark = pytest.mark.worker

WORDS = "ember falcon seven nine behind the brewery"


@pytest.fixture
def told(served: Callable[..., Ran], client: ContextClient) -> Callable[..., Ran]:
    """Runs commands beside a worker; turns 4 and 5 of session ``s`` have the secret."""
    talk(client, "s", 3)
    client.push("s", {"role": "user", "content": f"I say {WORDS}."})
    client.push("s", {"role": "assistant", "content": f"You say {WORDS}."})
    return served


def test_a_turn_is_erased_and_the_record_says_so_without_its_words(
    told: Callable[..., Ran], client: ContextClient
) -> None:
    ran = told("erase", "s", "--turn", "4", "--turn", "5", "--yes", "--by", "Kim")
    listed = told("archive", "erasures", "s")
    as_json = told("archive", "erasures", "--json").json

    assert ran.exit_code == 0
    assert "erased 2 turns (4-5)" in ran.stdout
    assert "Kim" in listed.stdout
    assert [(each["session"], each["turns"], each["by"], each["how"]) for each in as_json] == [
        ("s", [4, 5], "Kim", "turn")
    ]
    assert WORDS not in listed.stdout + str(as_json) + ran.stdout
    assert WORDS not in str(client.read("s").messages)
    assert "erase" in told("history", "s").stdout


def test_it_says_what_would_go_and_asks(told: Callable[..., Ran], client: ContextClient) -> None:
    words = ("erase", "s", "--matching", "i say EMBER")
    looked = told(*words, "--dry-run")
    refused = told(*words, stdin="n\n")
    nobody = told(*words, stdin="")
    before = str(client.read("s").messages)
    agreed = told(*words, "--json", "--yes")

    assert looked.exit_code == 0
    assert "would erase 1 turn (4)" in looked.stdout
    assert "turn 5 repeat" in looked.stdout
    assert refused.exit_code == nobody.exit_code == 1
    assert "Erase 1 turn (4)" in refused.stderr
    assert "nothing was done: add --yes" in nobody.stderr
    assert f"I say {WORDS}" in before
    assert (agreed.exit_code, agreed.json["turns"], agreed.json["repeated_in"]) == (0, [4], [5])
    assert (agreed.json["by"], agreed.json["rewritten"]) == (getpass.getuser(), True)


def test_a_person_is_erased_with_what_repeats_them(told: Callable[..., Ran]) -> None:
    ran = told("erase", "s", "--subject", "I", "--repeats", "--yes", "--json")

    assert ran.json["turns"][-2:] == [4, 5]
    assert ran.json["repeated_in"] == []


def test_what_is_not_there_or_not_said_how_is_refused(told: Callable[..., Ran]) -> None:
    nothing = told("erase", "s", "--matching", "never said by anybody", "--yes")
    unknown = told("erase", "s", "--turn", "99", "--yes")
    both = told("erase", "s", "--turn", "1", "--subject", "Anna", "--yes")
    none = told("erase", "s", "--yes")
    nobody = told("erase", "nobody", "--turn", "1", "--yes")

    assert "nothing of that is in s" in nothing.stdout
    assert "no turn 99" in unknown.stderr
    assert "exactly one" in both.stderr
    assert "exactly one" in none.stderr
    assert "nobody" in nobody.stderr
    ran = (nothing, unknown, nobody, both, none)
    assert [each.exit_code for each in ran] == [1, 2, 1, 2, 2]
    assert "nothing was erased" in told("archive", "erasures").stdout


def test_turns_are_named_in_few_words() -> None:
    assert spans([]) == ""
    assert spans([3, 4, 5, 9]) == "3-5, 9"
    assert spans([1, 2, 1_200]) == "1-2, 1,200"
