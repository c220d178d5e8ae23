"""Calls whose results nobody has pushed yet: a context that covers them says so.

A sub-agent may run for hundreds of turns of the session that called it. What was asked of it then
stands in a line of the context, and its result is shown as its tool's whenever it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from turnmill.contract.call_ids import called
from turnmill.contract.context import JsonMessage, Limits, OpenCall, StoredContext
from turnmill.contract.legality import CallTracker
from turnmill.contract.names import Seq
from turnmill.contract.render import call_text
from turnmill_worker.compaction.snapshot import LoggedTurn

_SHARE: Final = 10
"""Their lines take a tenth of the room at most."""

_MOST_CHARS: Final = 400
"""Of one call's arguments; half of it from their beginning, half from their end."""


def dead_calls(stored: StoredContext, turns: Sequence[LoggedTurn]) -> tuple[OpenCall, ...]:
    """The calls of the context and of these turns after it that nothing in them answers."""
    tracker = CallTracker.after(stored)
    for turn in turns:
        tracker.follow(turn.original)
    made = {call.id: call for call in stored.calls}
    for turn in turns if tracker.dead else ():
        made |= {call.id: call for call in _calls(turn)}
    return tuple(made[name] for name in tracker.dead if name in made)


def fitting(
    calls: Sequence[OpenCall], limits: Limits, count: Callable[[str], int]
) -> tuple[OpenCall, ...]:
    """Those that have room, the newest first; those that have none lose their arguments."""
    left = limits.room // _SHARE
    kept: list[OpenCall] = []
    for call in reversed(calls):
        for shown in (call, call.model_copy(update={"arguments": ""})):
            cost = count(f"{call_text(shown)}\n")
            if cost <= left:
                kept.append(shown)
                left -= cost
                break
    return tuple(reversed(kept))


def _calls(turn: LoggedTurn) -> Iterable[OpenCall]:
    for call in (call for message in turn.original for call in _made(message)):
        name, arguments = called(call)
        if len(arguments) > _MOST_CHARS:
            half = _MOST_CHARS // 2
            gone = len(arguments) - 2 * half
            arguments = f"{arguments[:half]} [… {gone} characters left out] {arguments[-half:]}"
        yield OpenCall(seq=Seq(turn.seq), id=call["id"], name=name, arguments=arguments)


def _made(message: JsonMessage) -> Sequence[JsonMessage]:
    return message.get("tool_calls") or ()
