"""What a provider accepts: which results answer which calls, and where a log may be cut.

Results are paired with calls by position, not by id alone: real agents use one ``tool_call_id``
for different calls of a session. A *batch* is an assistant message with calls and the results
right behind it. A batch left unanswered when anything else follows is *dead*: a provider would
refuse it, so a read answers it with a stub, and it does not hold up later cuts. A result that comes
later is *late*: it is shown behind a second call of its tool, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self, TypeVar

from turnmill.contract.call_ids import answered, called, told_apart
from turnmill.contract.context import JsonMessage, StoredContext

NO_RESULT = "[no result was recorded for this call]"
LATE = '{"result_of_an_earlier_call":true}'
"""Arguments of the call that a late result is shown behind: with a name, they never cost less than
the call of no known tool.
"""

MOST_LATE = 16
"""So many of the newest dead calls may still get a result."""

UNKNOWN_CALL = "call_not_in_this_conversation"
"""The tool that a result without a call is shown as a result of: it stays a tool's, nobody's word.
"""


class CallTracker:
    """Follows a conversation and knows which calls still wait for a result.

    Attributes:
        open: ids of those of the newest batch.
        dead: tools' names by ids of calls that nothing answered so far; the newest last.
    """

    __slots__ = ("_names", "dead", "open")

    def __init__(
        self, open_calls: Sequence[str] = (), dead: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.open: list[str] = list(open_calls)
        self.dead: dict[str, str] = dict(dead)
        self._names: dict[str, str] = {}

    @classmethod
    def after(cls, stored: StoredContext) -> Self:
        """Follows the turns after a context: results may come for calls that it stands for."""
        return cls(dead={call.id: call.name for call in stored.calls})

    def copy(self) -> CallTracker:
        """Another one that goes on from here."""
        made = CallTracker(self.open, self.dead)
        made._names = dict(self._names)
        return made

    def feed(self, message: JsonMessage) -> tuple[list[str], bool]:
        """Take the next message; returns the calls it leaves dead, and whether it is an orphan."""
        dead, orphan, _ = self._take(message)
        return dead, orphan

    def _take(self, message: JsonMessage) -> tuple[list[str], bool, Sequence[JsonMessage]]:
        """The same, and what is shown: with the ids that its calls, or the call it answers, have.

        An orphan is shown behind a call.
        """
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            at = answered(call_id, self.open)
            if at is not None:
                own = self.open.pop(at)
                return [], False, [message if own == call_id else {**message, "tool_call_id": own}]
            # The call it is given ends a batch like any other message.
            dead = self.close()
            late = answered(call_id, ids := [*self.dead])
            return dead, True, _called(message, "" if late is None else self.dead.pop(ids[late]))
        dead, shown = self.close(), told_apart(message)
        calls = shown.get("tool_calls") or ()
        self.open = [call["id"] for call in calls]
        self._names = {call["id"]: _name(call) for call in calls}
        return dead, False, [shown]

    def close(self) -> list[str]:
        """End the batch: its calls that have no result are dead; returns their ids."""
        dead, self.open = self.open, []
        for call_id in dead:
            self.dead.pop(call_id, None)
            self.dead[call_id] = self._names.get(call_id, "")
        for _ in range(len(self.dead) - MOST_LATE):
            del self.dead[next(iter(self.dead))]
        return dead

    def follow(self, messages: Sequence[JsonMessage]) -> None:
        """Take messages that are legal already, or only looked at."""
        for message in messages:
            self.feed(message)

    def repair(self, messages: Sequence[JsonMessage]) -> Sequence[JsonMessage]:
        """The next turn's messages, made legal: the same object when they were.

        Dead calls are answered by a stub before whatever follows them, orphan results get a call
        right before them, and calls of one message with one id are told apart. Later messages
        never change what was repaired before.
        """
        if not self.open and all(map(_is_plain, messages)):
            return messages
        legal: list[JsonMessage] = []
        changed = False
        for message in messages:
            dead, orphan, shown = self._take(message)
            changed = changed or orphan or bool(dead) or shown[0] is not message
            legal += [*stubs(dead), *shown]
        return legal if changed else messages


def stubs(dead: Sequence[str]) -> list[JsonMessage]:
    """Results of calls that have none."""
    return [{"role": "tool", "tool_call_id": call_id, "content": NO_RESULT} for call_id in dead]


def _name(call: JsonMessage) -> str:
    """What the call calls."""
    return called(call)[0]


def _is_plain(message: JsonMessage) -> bool:
    return "tool_calls" not in message and message["role"] != "tool"


def repair(messages: Sequence[JsonMessage]) -> list[JsonMessage]:
    """A whole conversation made legal; see ``CallTracker.repair``."""
    return list(CallTracker().repair(messages))


def _called(orphan: JsonMessage, tool: str) -> list[JsonMessage]:
    """The result behind a call, of its tool if known: as text of a user it would be obeyed."""
    call_id = orphan.get("tool_call_id") or UNKNOWN_CALL
    function = {"name": tool or UNKNOWN_CALL, "arguments": LATE if tool else "{}"}
    call = {"id": call_id, "type": "function", "function": function}
    asked: JsonMessage = {"role": "assistant", "content": None, "tool_calls": [call]}
    # What a dialect says beside it answers a call of another kind.
    result = {key: value for key, value in orphan.items() if key != "native"}
    return [asked, {**result, "tool_call_id": call_id}]


def violations(messages: Sequence[JsonMessage]) -> list[str]:
    """Why a provider would refuse these messages; empty when it would not. Names no content."""
    found: list[str] = []
    tracker = CallTracker()
    for at, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            found.append(f"messages[{at}]: illegal role")
            continue
        dead, orphan = tracker.feed(message)
        if dead:
            found.append(f"messages[{at}]: {len(dead)} calls before it have no result")
        if orphan:
            found.append(f"messages[{at}]: a result without its call")
        if told_apart(message) is not message:
            found.append(f"messages[{at}]: calls with one id")
        if message.get("content") is None and not message.get("tool_calls") and role != "assistant":
            found.append(f"messages[{at}]: no content")
    return found


T = TypeVar("T")


def segments(
    turns: Sequence[T], messages_of: Sequence[Sequence[JsonMessage]]
) -> tuple[list[list[T]], bool]:
    """The turns in groups that a cut may fall between, and whether the last one is still open.

    A batch is never torn. ``messages_of[i]`` are the messages of ``turns[i]``; a group is open
    while a call in it waits for its result.
    """
    tracker = CallTracker()
    groups: list[list[T]] = []
    for turn, messages in zip(turns, messages_of, strict=True):
        if not tracker.open:
            groups.append([])
        groups[-1].append(turn)
        tracker.follow(messages)
    return groups, bool(tracker.open)
