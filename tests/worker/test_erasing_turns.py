"""Which turns are erased, what goes with them, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.image_parts import png, showing
from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import ROLLING, chat, keys_of, push_all, settled
from turnmill import ContextClient, InvalidInput, NoCheckpoint, UnknownSession
from turnmill.contract.names import Namespace
from turnmill_worker.archive.store import SqlArchive

pytestmark = pytest.mark.worker

SAID = "Always ring Priscilla Vandergelder at her cottage behind the brewery by noon, for 4471-99."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the workers keep their archive."""
    return tmp_path / "data"


@pytest.fixture
def erasing(new_worker: Callable[..., WorkerProcess], folder: Path) -> WorkerProcess:
    """A worker with an archive."""
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder)}
    return new_worker("erasing", pool="threads", concurrency=3, env=env)


def _at_rest(server: redis.Redis, client: ContextClient) -> None:
    keys, turns = keys_of(client, "s"), client.info("s").last_seq
    wait_until(lambda: settled(client, "s", turns=turns), within_s=60)
    wait_until(lambda: not server.xlen(keys.covered) and not server.xlen(keys.commits))


def _said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.usefixtures("erasing")
def test_turns_are_erased_by_a_text_or_a_name_in_them(client: ContextClient, folder: Path) -> None:
    client.open("s", ROLLING)
    texts = ["Ask Anna.", "Annabel is here.", "ask   ANNA again.", "Nobody at all."]
    push_all(client, "s", map(_said, texts))

    named = client.erase("s", subject="anna", by="me", timeout_s=60)
    matched = client.erase("s", matching="bel is", timeout_s=60)

    assert (named.turns, matched.turns) == ((1, 3), (2,))
    assert (named.remade, matched.remade) == (False, False)
    read = [message["content"][:8] for message in client.read("s").messages]
    assert read == ["[erased "] * 3 + ["Nobody a"]
    with closing(SqlArchive.open(f"sqlite:///{folder}/archive.db")) as archive:
        records = archive.erasures(Namespace(client.namespace))
    assert [(r.session, r.how, r.turns, r.by) for r in records] == [
        ("s", "subject", (1, 3), "me"),
        ("s", "matching", (2,), ""),
    ]


@pytest.mark.usefixtures("erasing")
def test_what_repeats_the_words_is_told_and_goes_when_that_is_asked_for(
    client: ContextClient,
) -> None:
    client.open("s", ROLLING, f"Remember: {SAID}")
    push_all(client, "s", [_said(SAID), _said("Hello."), _said(f"You said: {SAID}")])

    looked = client.erase("s", turns=[1], dry_run=True, timeout_s=60)
    assert (looked.turns, looked.repeated_in, looked.in_system_prompt) == ((1,), (3,), True)
    assert client.read("s").messages[1]["content"] == SAID

    told = client.erase("s", turns=[1], repeats=True, timeout_s=60)
    assert (told.turns, told.repeated_in) == ((1, 3), ())


@pytest.mark.usefixtures("erasing")
def test_what_changes_a_rule_goes_with_its_turn_and_the_rule_stays_unmarked(
    client: ContextClient, server: redis.Redis
) -> None:
    client.open("s", ROLLING)
    rule, newer = "Never book hotels above 200 euros.", "Make that 260 euros instead of 200."
    push_all(client, "s", [_said("Hello."), *chat(9)])
    push_all(client, "s", [_said(rule), _said(newer), *chat(60, topic="crate")])
    _at_rest(server, client)
    assert [(each.text, each.revised) for each in client.rules("s")][:1] == [(rule, 12)]

    client.erase("s", turns=[12], timeout_s=60)

    _at_rest(server, client)
    assert [(each.text, each.revised) for each in client.rules("s")][:1] == [(rule, None)]
    assert "260 euros" not in str(client.read("s").messages)


@pytest.mark.usefixtures("erasing")
def test_no_memory_is_found_of_what_was_erased(client: ContextClient, server: redis.Redis) -> None:
    client.open("s", ROLLING)
    push_all(client, "s", [_said(SAID), *chat(100)])
    client.remember(f"It is known that {SAID}")
    client.remember("Otto has a bicycle.")
    _at_rest(server, client)
    asked = "Priscilla Vandergelder cottage brewery"
    assert any("Priscilla" in each.text for each in client.ground(asked, 20).memories)

    told = client.erase("s", turns=[1], timeout_s=60)

    assert told.memories >= 2
    _at_rest(server, client)
    assert not any("Priscilla" in each.text for each in client.ground(asked, 20).memories)
    assert client.ground("Who has a bicycle?").memories[0].text == "Otto has a bicycle."


@pytest.mark.usefixtures("erasing")
def test_an_image_goes_if_no_other_turn_shows_it(
    client: ContextClient, server: redis.Redis
) -> None:
    for session in ("s", "other"):
        client.open(session, ROLLING)
    mine, shared = png(1), png(2)
    push_all(client, "s", [showing(mine, shared)])
    push_all(client, "other", [showing(shared)])

    client.erase("s", turns=[1], timeout_s=60)

    held: Any = server.hkeys(keys_of(client, "s").meta)
    assert [field for field in held if field.startswith(b"blob:")] == []
    prefix = keys_of(client, "other").blob
    assert len(server.keys(f"{prefix.replace('{', '?').replace('}', '?')}*")) == 2
    [message] = client.read("other").messages
    assert message["content"][-1]["image_url"]["url"].startswith("data:")


@pytest.mark.usefixtures("erasing")
def test_no_version_made_of_erased_turns_can_be_restored(
    client: ContextClient, server: redis.Redis
) -> None:
    client.open("s", ROLLING)
    push_all(client, "s", chat(60))
    _at_rest(server, client)
    first = client.info("s").version
    push_all(client, "s", [_said(SAID), *chat(60, topic="crate")])
    _at_rest(server, client)
    last = client.info("s").version

    told = client.erase("s", turns=[61], timeout_s=60)

    assert told.contexts == last - first
    with pytest.raises(NoCheckpoint, match="erased"):
        client.rollback("s", last, timeout_s=30)
    assert client.rollback("s", first, timeout_s=30).seq <= 60
    assert client.trajectory("s").compactions[last].record.strategy == "erase"


@pytest.mark.usefixtures("erasing")
def test_what_is_not_there_cannot_be_erased(client: ContextClient) -> None:
    client.open("s", ROLLING)
    push_all(client, "s", chat(3))

    with pytest.raises(InvalidInput, match="no turn 4"):
        client.erase("s", turns=[2, 4], timeout_s=60)
    with pytest.raises(UnknownSession):
        client.erase("t", matching="parcel", timeout_s=60)
    assert client.erase("s", matching="nothing like that", timeout_s=60).turns == ()
    assert [m["content"] for m in client.read("s").messages] == [m["content"] for m in chat(3)]
