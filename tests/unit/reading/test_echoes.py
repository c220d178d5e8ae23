"""What says nothing but what its neighbours say leaves, in any language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnmill_worker.reading.echoes import Makes
from turnmill_worker.reading.passages import read


def count(text: str) -> int:
    return len(text) // 4 + 1


def makes_of(messages: list[dict[str, Any]]) -> Makes:
    makes = Makes()
    for seq, message in enumerate(messages, 1):
        makes.add(read(seq, message, count))
    return makes


def loop(announced: str, go_on: str, *between: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(10):
        name = f"INV-{2010 + n}"
        function = {"name": "get_invoice", "arguments": json.dumps({"invoice": name})}
        text = announced.format(name=name, n=n + 1)
        call = [{"id": f"c{n}", "function": function}]
        messages += [{"role": "assistant", "content": text, "tool_calls": call}]
        messages += [{"role": "tool", "tool_call_id": f"c{n}", "content": "{}"}]
        messages += between
        messages += [{"role": "user", "content": go_on}]
    return messages


@pytest.mark.parametrize(
    ("announced", "go_on"),
    [
        ("Next: {name}.", "Go on."),
        ("Let me have a look at {name} now.", "ok, keep going"),
        ("step {n}", "Yes, please continue."),
        ("Als Nächstes kommt {name}.", "Gut, bitte weiter."),
        ("次は{name}です。", "続けてください。"),
    ],
)
def test_announcements_and_go_ons_leave(announced: str, go_on: str) -> None:
    makes = makes_of(loop(announced, go_on))

    assert makes.echoed(announced.format(name="INV-2013", n=4))
    assert makes.echoed(go_on)


def test_a_sentence_with_values_of_its_own_stays() -> None:
    verdict = {"role": "assistant", "content": "That one is over 6100 EUR, flagged as F-311."}
    asked = "From now on flag only what is over 9000 EUR."
    makes = makes_of(loop("Next: {name}.", asked, verdict))

    assert not makes.echoed("That one is over 6100 EUR, flagged as F-311.")
    assert not makes.echoed(asked)


def test_nothing_leaves_where_no_tools_are_called() -> None:
    makes = makes_of([{"role": "user", "content": "Go on."}] * 20)

    assert not makes.echoed("Go on.")


def test_makes_are_the_same_once_stored_and_restored() -> None:
    makes = makes_of(loop("Next: {name}.", "Go on."))
    restored = Makes.from_json(json.loads(json.dumps(makes.to_json())))

    assert restored == makes


def test_nothing_of_later_turns_is_left() -> None:
    messages = loop("Next: {name}.", "Go on.")
    makes = makes_of([*messages, {"role": "user", "content": "Mind the swallows nesting outside."}])
    makes.up_to(len(messages))

    assert "swallows" not in json.dumps(makes.to_json())
