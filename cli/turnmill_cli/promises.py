"""What an agent may rely on, checked from outside; pure, so that tests can show it false values.

``check_context`` looks at one read, ``check_store`` and ``check_trajectory`` at what is stored in
the end. Faults name positions and numbers, never content.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from turnmill.contract.context import JsonMessage, Usage
from turnmill.contract.legality import (
    NO_RESULT,
    UNKNOWN_CALL,
    CallTracker,
    repair,
    violations,
)
from turnmill.contract.render import receipt_message
from turnmill.contract.shorten import shorten
from turnmill.read.context import Context
from turnmill.read.view import bound

# --- is a message another one, whole or shortened? Written against what a reader sees -------------

_NOTE = re.compile(r"\[… (\d{1,9}) characters (?:removed …|left out)\]")
_LINES = re.compile(r"\[… (\d{1,9}) lines? left out\]")
_REMOVED_PART = re.compile(r"\[\w+ removed\]|\[Image (from Step \d+ )?removed to save context\]")
_SAME = ("role", "name", "tool_call_id")


def is_stub(message: JsonMessage) -> bool:
    """Whether it answers, in nobody's name, a call without a result, or calls for a lost result."""
    names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    is_answer = message["role"] == "tool" and _is_text(message.get("content"), NO_RESULT)
    return is_answer or names == [UNKNOWN_CALL]


def is_shown(shown: JsonMessage, pushed: JsonMessage, *, thinned: bool = False) -> bool:
    """Whether ``shown`` is ``pushed``, or says in notes what was removed from it.

    ``thinned``: some of its calls may be gone, with their results.
    """
    if _is_shortened(shown, pushed):
        return True
    if thinned and pushed.get("tool_calls"):
        return _is_shortened(shown, _with_calls_of(pushed, shown))
    return pushed["role"] == "tool" and _is_shortened(shown, repair([pushed])[-1])


def _with_calls_of(pushed: JsonMessage, shown: JsonMessage) -> JsonMessage:
    """``pushed`` without the calls that ``shown`` has not."""
    left = {call["id"] for call in shown.get("tool_calls") or ()}
    calls = [call for call in pushed["tool_calls"] if call["id"] in left]
    plain = {key: value for key, value in pushed.items() if key != "tool_calls"}
    return {**plain, "tool_calls": calls} if calls else plain


def _is_shortened(shown: JsonMessage, pushed: JsonMessage) -> bool:
    if shown.keys() != pushed.keys() or any(shown.get(k) != pushed.get(k) for k in _SAME):
        return False
    special = {*_SAME, "content", "tool_calls"}
    return (
        _is_content(shown.get("content"), pushed.get("content"))
        and _are_calls(shown.get("tool_calls"), pushed.get("tool_calls"))
        and all(_is_text(shown[key], pushed[key]) for key in shown.keys() - special)
    )


def _is_content(shown: Any, pushed: Any) -> bool:
    if not (isinstance(shown, list) and isinstance(pushed, list)):
        return _is_text(shown, pushed)
    return len(shown) == len(pushed) and all(map(_is_part, shown, pushed))


def _is_part(shown: Any, pushed: Any) -> bool:
    if shown == pushed:
        return True
    text = shown.get("text")
    if "text" in pushed:
        return {**shown, "text": ""} == {**pushed, "text": ""} and _is_text(text, pushed["text"])
    return isinstance(text, str) and _REMOVED_PART.fullmatch(text) is not None


def _are_calls(shown: Sequence[Any] | None, pushed: Sequence[Any] | None) -> bool:
    if not shown or not pushed:
        return shown == pushed
    return len(shown) == len(pushed) and all(map(_is_call, shown, pushed))


def _is_call(shown: Any, pushed: Any) -> bool:
    if shown == pushed:
        return True
    if shown["id"] != pushed["id"] or shown["function"]["name"] != pushed["function"]["name"]:
        return False
    return _are_arguments(shown["function"]["arguments"], pushed["function"]["arguments"])


def _are_arguments(shown: str, pushed: str) -> bool:
    """Arguments stay JSON: shortened ones are an object that quotes what is left of them."""
    try:
        quoted = json.loads(shown)["removed"]
    except (ValueError, TypeError, KeyError):
        return False
    return _is_text(quoted, pushed)


def _is_text(shown: Any, pushed: Any) -> bool:
    """Whether a text is the other one, or what is left of it beside notes that say how much went.

    Where notes say that lines or sentences went, blank lines may be gone, too.
    """
    if shown == pushed:
        return True
    if not isinstance(shown, str) or not isinstance(pushed, str):
        return False
    if "left out]" not in shown:
        is_told = _characters(shown) == _characters(pushed)
        return is_told and _is_rest(_NOTE.split(shown)[::2], pushed)
    lines = [line for line in pushed.split("\n") if line.strip()]
    at = 0
    for line in filter(str.strip, shown.split("\n")):
        note = _LINES.fullmatch(line)
        if at < len(lines) and _is_line(line, lines[at]):
            at += 1
        elif note:
            at += int(note[1])
        else:
            return False
    return at == len(lines)


def _is_line(shown: str, pushed: str) -> bool:
    """Whether a line is the other one, or some of its sentences, between which spaces may go."""
    kept = [text.strip() for text in _NOTE.split(shown)[::2]]
    is_told = _characters(shown) >= len("".join(pushed.split()))
    return shown == pushed or (is_told and _is_rest(kept, pushed.strip()))


def _is_rest(kept: Sequence[str], text: str) -> bool:
    """Whether it begins with the first of several, ends with the last, and has all in order."""
    at, end = len(kept[0]), len(text) - len(kept[-1])
    for each in kept[1:-1]:
        found = text.find(each, at, end)
        if found < 0:
            return False
        at = found + len(each)
    starts = text.startswith(kept[0]) and text.endswith(kept[-1])
    return len(kept) > 1 and at <= end and starts


def _characters(text: str) -> int:
    """How many it had before notes stood in it."""
    return len(text) + sum(int(note[1]) - len(note[0]) for note in _NOTE.finditer(text))


# --- reads, stores and trajectories ---------------------------------------------------------------

FaultKind = Literal[
    "over-limit",
    "illegal",
    "incomplete",
    "miscounted",
    "unstable",
    "lost",
    "doubled",
    "altered",
    "misplaced",
]

FAULTS: Mapping[FaultKind, str] = {
    "over-limit": "contexts over the limit",
    "illegal": "contexts that a provider would refuse",
    "incomplete": "contexts that lack a turn, or have one twice or altered",
    "miscounted": "contexts with wrong token counts",
    "unstable": "prefixes changed between commits",
    "lost": "turns stored nowhere",
    "doubled": "turns stored twice, or never pushed",
    "altered": "turns stored not as pushed",
    "misplaced": "turns on the wrong side of the watermark",
}
"""What each kind means, for a person."""

CountMessage = Callable[[JsonMessage], int]


class Fault(NamedTuple):
    """A broken promise: which, where, and in which numbers."""

    kind: FaultKind
    detail: str


def fingerprint(value: object) -> bytes:
    """A hash of JSON values, equal when they are."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class TokenCache:
    """Exact tokens of messages, each different one counted once: reads repeat their messages."""

    def __init__(self, count: CountMessage) -> None:
        self._count = count
        self._known: dict[bytes, int] = {}

    def of(self, messages: Sequence[JsonMessage], keys: Sequence[bytes]) -> int:
        """Tokens of a request made of these messages; ``keys`` are their fingerprints."""
        return Usage.REPLY + sum(map(self._one, messages, keys))

    def _one(self, message: JsonMessage, key: bytes) -> int:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._count(message)
        return known


@dataclass(slots=True)
class Transcript:
    """What an agent pushed: the messages of each turn, by seq."""

    system_prompt: str = ""
    turns: dict[int, Sequence[JsonMessage]] = field(default_factory=dict)
    keys: dict[int, Sequence[bytes]] = field(default_factory=dict)

    def add(self, seq: int, *messages: JsonMessage) -> None:
        """Note where a turn went."""
        self.turns[seq] = messages
        self.keys[seq] = tuple(map(fingerprint, messages))

    @property
    def messages(self) -> Sequence[JsonMessage]:
        """Those of all turns."""
        return [message for turn in self.turns.values() for message in turn]

    @property
    def last_seq(self) -> int:
        """The newest turn's position, 0 before the first."""
        return max(self.turns, default=0)


@dataclass(frozen=True, slots=True)
class CheckedRead:
    """One read, looked at.

    Attributes:
        tokens: of the context, counted exactly.
        faults: the promises it breaks.
        keys: its messages' fingerprints; the next read's are compared with them.
    """

    context: Context
    tokens: int
    faults: tuple[Fault, ...]
    keys: tuple[bytes, ...]


def check_context(
    context: Context,
    transcript: Transcript,
    *,
    hard_limit: int,
    count: TokenCache,
    previous: CheckedRead | None = None,
) -> CheckedRead:
    """Every promise a read makes, checked against what was pushed."""
    keys = tuple(fingerprint(message) for message in context.messages)
    tokens = count.of(context.messages, keys)
    faults = [Fault("illegal", what) for what in violations(context.messages)]
    if tokens > hard_limit:
        faults.append(Fault("over-limit", f"{tokens} tokens, the hard limit is {hard_limit}"))
    if context.tokens < tokens or (context.exact and context.tokens != tokens):
        said = "exactly" if context.exact else "at most"
        faults.append(
            Fault("miscounted", f"{tokens} tokens, the read said {said} {context.tokens}")
        )
    faults += _incomplete(context, transcript, keys, hard_limit)
    if (
        previous is not None
        and previous.context.version == context.version
        and not (previous.context.projection or context.projection)
        and keys[: len(previous.keys)] != previous.keys
    ):
        faults.append(Fault("unstable", f"version {context.version}: the prefix changed"))
    return CheckedRead(context, tokens, tuple(faults), keys)


class _Pushed(NamedTuple):
    """A message, and the turn it is of."""

    seq: int
    message: JsonMessage
    key: bytes


def _incomplete(
    context: Context, transcript: Transcript, keys: Sequence[bytes], hard_limit: int
) -> list[Fault]:
    """Whether every turn after the watermark is there once, in order, unless a receipt names it."""
    faults = []
    if context.last_seq != transcript.last_seq:
        faults.append(f"ends at seq {context.last_seq}, pushed were {transcript.last_seq}")
    pushed = _tail(context, transcript)
    lacking, head = _match_from_end(context, pushed, keys)
    receipt = context.projection
    named = range(receipt.first_seq, receipt.last_seq + 1) if receipt else ()
    faults += [
        f"seq {seq} is missing and no receipt names it" for seq in lacking if seq not in named
    ]
    if receipt is not None and lacking:
        if receipt.turns < len(lacking):
            faults.append(f"the receipt names {receipt.turns} turns, {len(lacking)} are missing")
        told = (receipt_message(receipt, recall=recall) for recall in (False, True))
        if not any(fingerprint(message) in head for message in told):
            faults.append("turns are missing and no message says so")
    shown = context.messages[len(head) :]
    if pushed and (shown or _has_room(pushed, hard_limit - context.tokens)):
        faults += _without_newest(context, pushed, keys, shown)
    if transcript.system_prompt:
        if head[:1] != [fingerprint({"role": "system", "content": transcript.system_prompt})]:
            faults.append("does not begin with the system prompt")
        head = head[1:]
    tail = {each.key for each in pushed}
    faults += [f"messages[{at}] is there twice" for at, key in enumerate(head) if key in tail]
    return [Fault("incomplete", what) for what in faults]


def _without_newest(
    context: Context, tail: Sequence[_Pushed], keys: Sequence[bytes], shown: Sequence[JsonMessage]
) -> Iterator[str]:
    """What is missing of that which goes last; ``shown`` are the messages of the tail."""
    waiting = _open_calls(context.messages)
    # No model is asked amid a batch: oldest first, all its answered calls may be gone.
    may_go = bool(waiting) and all(message["role"] != "tool" for message in shown)
    if not may_go and _place(context, keys, len(keys), tail[-1]) is None:
        yield "the newest turn is missing"
    if waiting != _open_calls([each.message for each in tail]):
        yield "calls that wait for results are missing"


def _has_room(tail: Sequence[_Pushed], tokens: int) -> bool:
    """Whether so many are enough, by the bound that reads count with, for what goes last.

    That is the newest message, with the call it answers, or the calls that wait beside it.
    """
    messages = [each.message for each in tail]
    newest = messages[-1]
    waiting = _open_calls(messages)
    last = [] if waiting else [newest]
    left = waiting or [newest.get("tool_call_id", "")]
    for caller in reversed(messages):
        if calls := [call for call in caller.get("tool_calls") or () if call["id"] in left]:
            last = [{**caller, "tool_calls": calls}, *last]
            break
    return shorten(last, tokens, bound) is not None


def _tail(context: Context, transcript: Transcript) -> list[_Pushed]:
    return [
        _Pushed(seq, message, key)
        for seq in range(context.watermark + 1, transcript.last_seq + 1)
        for message, key in zip(transcript.turns[seq], transcript.keys[seq], strict=True)
    ]


def _open_calls(messages: Sequence[JsonMessage]) -> Sequence[str]:
    tracker = CallTracker()
    tracker.follow(messages)
    return tracker.open


def _match_from_end(
    context: Context, tail: Sequence[_Pushed], keys: Sequence[bytes]
) -> tuple[list[int], list[bytes]]:
    """The seqs of which a message or a call is gone, and the keys before the tail."""
    at = len(keys)
    lacking = set()
    for pushed in reversed(tail):
        place = _place(context, keys, at, pushed)
        at = at if place is None else place
        if place is None or not (
            keys[place] == pushed.key or is_shown(context.messages[place], pushed.message)
        ):
            lacking.add(pushed.seq)
    return sorted(lacking), list(keys[:at])


def _place(context: Context, keys: Sequence[bytes], end: int, pushed: _Pushed) -> int | None:
    """Where a message is shown, the last one before ``end`` that was pushed."""
    thinned = context.projection is not None
    for at in reversed(range(end)):
        shown = context.messages[at]
        if keys[at] == pushed.key or is_shown(shown, pushed.message, thinned=thinned):
            return at
        if not is_stub(shown):  # it answers a call that never got a result; no agent pushed it
            return None
    return None


def check_store(
    pushed: Mapping[int, bytes],
    log: Iterable[tuple[int, bytes]],
    covered: Iterable[tuple[int, bytes]],
    *,
    watermark: int,
) -> list[Fault]:
    """Conservation: every turn is stored exactly once, on its side of the watermark, as pushed.

    ``pushed``, ``log`` and ``covered`` are seqs with the fingerprints of the turns' message lists.
    """
    places = [*(("log", *entry) for entry in log), *(("covered", *entry) for entry in covered)]
    times = Counter(seq for _, seq, _ in places)
    faults = [Fault("lost", f"seq {seq}") for seq in pushed if seq not in times]
    faults += [Fault("doubled", f"seq {seq}: {n} times") for seq, n in times.items() if n > 1]
    for place, seq, body in places:
        if seq not in pushed:
            faults.append(Fault("doubled", f"seq {seq}: in the {place}, and never pushed"))
        elif body != pushed[seq]:
            faults.append(Fault("altered", f"seq {seq}: in the {place}, not as pushed"))
        if (seq <= watermark) != (place == "covered"):
            faults.append(Fault("misplaced", f"seq {seq}: in the {place}, watermark {watermark}"))
    return faults


def check_trajectory(
    pushed: Mapping[int, bytes], whole: Sequence[tuple[int, bytes]]
) -> list[Fault]:
    """Conservation in a trajectory: it has every turn once, in order, as it was pushed."""
    told = dict(whole)
    faults = [
        Fault("lost", f"seq {seq}: not in the trajectory") for seq in pushed if seq not in told
    ]
    faults += [
        Fault("altered", f"seq {seq}: in the trajectory, not as pushed")
        for seq, body in pushed.items()
        if told.get(seq, body) != body
    ]
    if [seq for seq, _ in whole] != sorted(told):
        faults.append(Fault("doubled", "the trajectory's turns are doubled, or out of order"))
    return faults
