"""Which node gets which command while slots move, and what is sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, NoScriptError, TryAgainError

from turnmill.connection.routing import Pause, Routing, Send
from turnmill.contract.scripts import load_script

A, B, C = ("a", 1), ("b", 2), ("c", 3)
ALL_OF_A = [[0, 16383, [b"a", 1, b"id"]]]
KEY = "{x}:meta"
SLOT = key_slot(KEY.encode())

Answer = Callable[[Any, Any], Any]


class Played:
    """A trip with servers played by a function: what was sent where, and what it ended with."""

    def __init__(self, commands: list[Any], answer: Answer, *, seeds: Any = (A,)) -> None:
        self.sent: list[tuple[Any, Any]] = []
        self.pauses = 0
        self._now = 0.0
        steps = Routing(seeds, 5.0, clock=lambda: self._now).trip(commands)
        found: Any = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as end:
                self.replies = end.value
                return
            if isinstance(step, Pause):
                self._now += step.seconds
                self.pauses += 1
            found = self._asked(step, answer) if isinstance(step, Send) else None

    def _asked(self, step: Send, answer: Answer) -> Any:
        if step.commands == [("CLUSTER", "SLOTS")]:
            known = answer(step.node, step.commands[0])
            return known if isinstance(known, redis.RedisError) else [known]
        replies = []
        for command in step.commands:
            reply = answer(step.node, command)
            if isinstance(reply, redis.ConnectionError):
                return reply
            self.sent.append((step.node, command))
            replies.append(reply)
        return replies


def _moving(moved: set[str]) -> Answer:
    """A slot on its way from A to B; some keys have arrived."""
    asking = False

    def answer(node: Any, command: Any) -> Any:
        nonlocal asking
        if command[0] == "CLUSTER":
            return ALL_OF_A
        if command[0] == "ASKING":
            asking = True
            return b"OK"
        if node == B:
            assert asking, "B serves it to nobody else yet"
            asking = False
            return f"{command[1]} from b"
        return AskError(f"{SLOT} b:2") if command[1] in moved else f"{command[1]} from a"

    return answer


def test_a_slot_that_has_moved_is_asked_for_at_its_new_place_and_remembered() -> None:
    def answer(node: Any, command: Any) -> Any:
        if command[0] == "CLUSTER":
            return ALL_OF_A
        return MovedError(f"{SLOT} b:2") if node == A else b"here"

    played = Played([("GET", KEY), ("GET", KEY)], answer)

    assert played.replies == [b"here"] * 2
    assert [node for node, _ in played.sent] == [A, A, B, B]
    assert not played.pauses


def test_a_read_of_a_slot_that_moves_ends_with_its_last_command() -> None:
    keys = ["{x}:meta", "{x}:context", "{x}:log", "{x}:meta"]
    played = Played([("GET", key) for key in keys], _moving({"{x}:context", "{x}:log"}))

    assert played.replies == [
        "{x}:meta from a",
        "{x}:context from b",
        "{x}:log from b",
        "{x}:meta from a",
    ]
    assert played.sent[-1] == (A, ("GET", "{x}:meta"))
    assert not played.pauses


def test_commands_after_one_that_was_not_executed_are_sent_again_in_their_order() -> None:
    tries = 0

    def answer(_: Any, command: Any) -> Any:
        nonlocal tries
        if command[0] == "CLUSTER":
            return ALL_OF_A
        tries += 1
        return TryAgainError("moving") if tries == 2 else tries

    played = Played([("GET", "{x}1"), ("GET", "{x}2"), ("GET", "{x}3"), ("GET", "{y}")], answer)

    assert played.replies == [1, 5, 6, 4]
    assert played.pauses == 1


def test_what_stays_unexecuted_ends_in_time_with_an_error_for_all_that_follows() -> None:
    def answer(_: Any, command: Any) -> Any:
        if command[0] == "CLUSTER":
            return ALL_OF_A
        return TryAgainError("moving") if command[1] == "{x}2" else b"ok"

    played = Played([("GET", "{x}1"), ("GET", "{x}2"), ("GET", "{x}3")], answer)

    assert played.replies[0] == b"ok"
    assert [type(reply) for reply in played.replies[1:]] == [TryAgainError] * 2
    assert 5 < played.pauses < 50


def test_a_master_that_dies_is_replaced_by_the_one_that_takes_its_slots() -> None:
    looks = 0

    def answer(node: Any, command: Any) -> Any:
        nonlocal looks
        if command[0] == "CLUSTER":
            looks += 1
            return ALL_OF_A if looks < 4 else [[0, 16383, [b"b", 2]]]
        return redis.ConnectionError("gone") if node == A else b"ok"

    played = Played([("GET", KEY)], answer, seeds=(B,))

    assert played.replies == [b"ok"]
    assert played.pauses == 3


def test_a_node_that_never_saw_a_script_gets_its_source_before_anything_follows() -> None:
    script = load_script("turnmill.lua", "info")
    call = ("EVALSHA", script.sha, "1", KEY)

    def answer(_: Any, command: Any) -> Any:
        if command[0] == "CLUSTER":
            return ALL_OF_A
        return NoScriptError("none") if command[0] == "EVALSHA" else b"done"

    alone, many = Played([call], answer), Played([call, ("SET", KEY, "1")], answer)
    read = Played([call, ("GET", KEY)], answer)

    assert [command[0] for _, command in alone.sent] == ["EVALSHA", "EVAL"]
    assert [command[0] for _, command in many.sent] == ["EVAL", "SET"]
    assert [command[0] for _, command in read.sent] == ["EVALSHA", "GET", "EVAL", "GET"]
    assert alone.sent[1][1] == ("EVAL", script.source, "1", KEY)
