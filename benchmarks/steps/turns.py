"""Turns as working agents push them: prose, tool calls with their results, answers; from a seed.

Standard library only, because the peers run it in environments of their own.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

__all__ = ["JsonMessage", "Turn", "mark", "turns"]

JsonMessage = dict[str, Any]
Turn = list[JsonMessage]
"""What an agent pushes at once: one message, or a tool call together with its result."""

MEAN_CHARACTERS = 800
SPREAD = 0.5
"""Sigma of the lognormal lengths: one turn in twenty is longer than 1,600 characters."""

AROUND = 300
"""Characters of a tool call and of the JSON around its result."""

SENTENCE = 84
"""Characters of one, on average."""

_SENTENCES = (
    "The {thing} for {name} has not arrived at {place}, although the {part} was paid on {day}.",
    "Please do not change {thing} {code} before {name} has seen the {part} again.",
    "I looked at {path} and the {part} there still expects {number} instead of {other}.",
    "{name} said that {place} closes at {hour}, so the {thing} must be moved to {day}.",
    "When {code} is opened twice, the second {thing} fails with error {number} in {path}.",
    "We could also {verb} the {part} first, which takes about {hour} and costs {price} euros.",
    "That worked: {code} is now at {place}, and its {part} shows {price} as agreed.",
    "Could you {verb} the {thing} of {name} and tell me how many {part}s are left?",
    "It is not clear why the {thing} counts {number} of them while {path} lists only {other}.",
    "After {day} nobody may {verb} it without a new {part}, and {name} knows that.",
    "The log says that {place} answered in {other} ms, then nothing came for {number} seconds.",
    "If the {part} is missing, {verb} {code} and write to {mail} before {hour}.",
    "Yes, the {thing} at {place} is the one I meant, not the old {part} from {day}.",
    "I would rather wait until the people at the front desk have read what we wrote last week.",
    "Nobody has asked for it since then, so there is no reason to hurry or to tell anyone.",
    "Thank you, that is what I wanted to know, and it explains why the list looked so short.",
    "Let me go through it once more and come back to you when all of it is done.",
    "It would be good to have the same for the other {part}s before {name} comes back.",
    "As far as I can see, every {thing} since {day} was treated in the same way.",
    "There are {number} ways to {verb} this, but only {path} has a test for its {part}.",
)
_WORDS = {
    "thing": "order parcel invoice ticket build report contract booking backup account",
    "part": "label field payment handler address index total window release column",
    "name": "Anna Bernd Chidi Dana Emre Farah Goran Hana Ines Jun Kofi Lena Mateo Nora",
    "place": "Hamburg Lagos Porto Kyoto Quito Tallinn Cork Split Pune Turku Graz Leon",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "verb": "move check cancel rename restore measure split deploy refund archive",
    "tool": "look_up_order read_file run_tests search_flights list_tickets query_table",
}


def turns(session: int, number: int) -> list[Turn]:
    """So many turns of a session, always the same ones; the first message of each has its mark."""
    chance = random.Random(session)
    return [_turn(chance, session, at) for at in range(1, number + 1)]


def mark(session: int, at: int) -> str:
    """Text that only this turn has, to find it again."""
    return f"#s{session:04}t{at:05}#"


def _turn(chance: random.Random, session: int, at: int) -> Turn:
    # The mean of a lognormal is exp(mu + sigma²/2): mu makes it MEAN_CHARACTERS.
    length = int(MEAN_CHARACTERS * chance.lognormvariate(-(SPREAD**2) / 2, SPREAD))
    begin = mark(session, at)
    match at % 4:
        case 1:
            return [{"role": "user", "content": f"{begin} {_prose(chance, length)}"}]
        case 0:
            return [{"role": "assistant", "content": f"{begin} {_prose(chance, length)}"}]
        case _:
            return _called(chance, begin, f"call_{session}_{at}", length)


def _called(chance: random.Random, begin: str, call: str, length: int) -> Turn:
    """A tool call with its result, whose rows take most of the length."""
    words = {"id": _slot(chance, "code"), "path": _slot(chance, "path")}
    function = {"name": _slot(chance, "tool"), "arguments": json.dumps(words)}
    rows: list[dict[str, str]] = []
    while len(json.dumps(rows)) < length - AROUND:
        row = {key: _slot(chance, key) for key in ("code", "name", "place", "price")}
        rows.append({**row, "note": _prose(chance, 60)})
    result = json.dumps({"mark": begin, "status": "ok", "rows": rows})
    calls = [{"id": call, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call, "content": result},
    ]


def _prose(chance: random.Random, length: int) -> str:
    said: list[str] = []
    while sum(map(len, said)) < length - SENTENCE / 2:
        pattern = chance.choice(_SENTENCES)
        said.append(pattern.format_map(_Slots(chance)))
    return " ".join(said)


class _Slots(dict[str, str]):
    """Fills a pattern: a word for whatever it asks for."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def __missing__(self, key: str) -> str:
        return _slot(self._chance, key)


def _slot(chance: random.Random, key: str) -> str:
    """A word of this kind: from its list, or made of numbers."""
    make = _MADE.get(key)
    return make(chance) if make else chance.choice(_WORDS[key].split())


_MADE: dict[str, Callable[[random.Random], str]] = {
    "code": lambda chance: f"#W{chance.randrange(10**7):07}",
    "path": lambda chance: f"/srv/{_slot(chance, 'thing')}/{_slot(chance, 'part')}.py",
    "mail": lambda chance: f"{_slot(chance, 'name').lower()}{chance.randrange(99)}@example.com",
    "price": lambda chance: f"{chance.randrange(2, 900)}.{chance.randrange(100):02}",
    "hour": lambda chance: f"{chance.randrange(24)}:{chance.randrange(60):02}",
    "number": lambda chance: str(chance.randrange(2, 5000)),
    "other": lambda chance: str(chance.randrange(2, 5000)),
}
