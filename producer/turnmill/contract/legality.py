"""What a provider accepts: which results answer which calls, and where a log may be cut.

Results are paired with calls by position, not by id alone: real agents use one ``tool_call_id``
for different calls of a session. A *batch* is an assistant message with calls and the results
right behind it. A batch left unanswered when anything else follows is *dead*: a provider would
refuse it, so a read answers it with a stub, and it does not hold up later cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from turnmill.contract.call_ids import answered, told_apart
from turnmill.contract.context import JsonMessage

NO_RESULT = "[no result was recorded for this call]"
UNKNOWN_CALL = "call_not_in_this_conversation"
"""The tool that a result without a call is shown as a result of: it stays a tool's, nobody's word.
"""


class CallTracker:
    """Follows a conversation and knows which calls still wait for a result."""

    __slots__ = ("open",)

    def __init__(self, open_calls: Sequence[str] = ()) -> None:
        self.open: list[str] = list(open_calls)

    def feed(self, message: JsonMessage) -> tuple[list[str], bool]:
        """Take the next message; returns the calls it leaves dead, and whether it is an orphan."""
        dead, orphan, _ = self._take(message)
        return dead, orphan

    def _take(self, message: JsonMessage) -> tuple[list[str], bool, JsonMessage]:
        """The same, and the message with the ids that its calls, or the call it answers, have."""
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            at = answered(call_id, self.open)
            if at is not None:
                own = self.open.pop(at)
                return [], False, message if own == call_id else {**message, "tool_call_id": own}
            # The call it is given ends a batch like any other message.
            dead, self.open = self.open, []
            return dead, True, message
        dead, shown = self.open, told_apart(message)
        self.open = [call["id"] for call in shown.get("tool_calls") or ()]
        return dead, False, shown

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
            changed = changed or orphan or bool(dead) or shown is not message
            legal.extend(
                {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT} for call_id in dead
            )
            legal += _called(shown) if orphan else (shown,)
        return legal if changed else messages


def _is_plain(message: JsonMessage) -> bool:
    return "tool_calls" not in message and message["role"] != "tool"


def repair(messages: Sequence[JsonMessage]) -> list[JsonMessage]:
    """A whole conversation made legal; see ``CallTracker.repair``."""
    return list(CallTracker().repair(messages))


def _called(orphan: JsonMessage) -> list[JsonMessage]:
    """The result behind a call of no known tool: as text of a user it would be obeyed."""
    call_id = orphan.get("tool_call_id") or UNKNOWN_CALL
    function = {"name": UNKNOWN_CALL, "arguments": "{}"}
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
