"""What an agent may rely on, checked from outside; pure, so that tests can show it false values.

``check_context`` looks at one read, ``check_store`` and ``check_trajectory`` at what is stored in
the end. Faults name positions and numbers, never content.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from turnmill.contract.context import JsonMessage, Usage
from turnmill.contract.legality import violations
from turnmill.contract.render import receipt_message
from turnmill.read.context import Context
from turnmill_cli.replay.message_match import is_shown, is_stub

__all__ = [
    "CheckedRead",
    "CountMessage",
    "Fault",
    "FaultKind",
    "TokenCache",
    "Transcript",
    "check_context",
    "check_store",
    "check_trajectory",
    "fingerprint",
]

FaultKind = Literal[
    "over-limit",  # more tokens than the hard limit, counted exactly
    "illegal",  # a provider would refuse it
    "incomplete",  # a turn it should hold is missing, doubled, out of order, or not as pushed
    "miscounted",  # it says fewer tokens than it has, or claims to be exact and is not
    "unstable",  # no commit and no projection, and yet the last read is not its prefix
    "lost",  # a turn that is stored nowhere
    "doubled",  # a turn that is stored twice, or was never pushed
    "altered",  # a turn whose stored body is not what was pushed
    "misplaced",  # a turn on the wrong side of the watermark
]

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
    """What an agent pushed, by seq: one message per turn."""

    system_prompt: str = ""
    turns: dict[int, JsonMessage] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)

    def add(self, seq: int, message: JsonMessage) -> None:
        """Note where a message went."""
        self.turns[seq] = message
        self.keys[seq] = fingerprint(message)

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
        recut: it is of the last read's version and does not begin with it: a projection moved.
    """

    context: Context
    tokens: int
    faults: tuple[Fault, ...]
    keys: tuple[bytes, ...]
    recut: bool = False


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
    faults += _incomplete(context, transcript, keys)
    recut = False
    if previous is not None and previous.context.version == context.version:
        recut = keys[: len(previous.keys)] != previous.keys
    if recut and previous and not (previous.context.projection or context.projection):
        faults.append(Fault("unstable", f"version {context.version}: the prefix changed"))
    return CheckedRead(context, tokens, tuple(faults), keys, recut)


def _incomplete(context: Context, transcript: Transcript, keys: Sequence[bytes]) -> list[Fault]:
    """Whether every turn after the watermark is there once, in order, unless a receipt names it."""
    faults = []
    if context.last_seq != transcript.last_seq:
        faults.append(f"ends at seq {context.last_seq}, pushed were {transcript.last_seq}")
    missing, head = _match_from_end(context, transcript, keys)
    receipt = context.projection
    named = range(receipt.first_seq, receipt.last_seq + 1) if receipt else ()
    faults += [
        f"seq {seq} is missing and no receipt names it" for seq in missing if seq not in named
    ]
    if receipt is not None and missing:
        if receipt.turns < len(missing):
            faults.append(f"the receipt names {receipt.turns} turns, {len(missing)} are missing")
        told = (receipt_message(receipt, recall=recall) for recall in (False, True))
        if not any(fingerprint(message) in head for message in told):
            faults.append("turns are missing and no message says so")
    if transcript.last_seq in missing:
        faults.append("the newest turn is missing")
    if transcript.system_prompt:
        if head[:1] != [fingerprint({"role": "system", "content": transcript.system_prompt})]:
            faults.append("does not begin with the system prompt")
        head = head[1:]
    tail = {transcript.keys[seq] for seq in _tail(context, transcript)}
    faults += [f"messages[{at}] is there twice" for at, key in enumerate(head) if key in tail]
    return [Fault("incomplete", what) for what in faults]


def _tail(context: Context, transcript: Transcript) -> range:
    return range(context.watermark + 1, transcript.last_seq + 1)


def _match_from_end(
    context: Context, transcript: Transcript, keys: Sequence[bytes]
) -> tuple[list[int], list[bytes]]:
    """The tail's seqs that are not in the context, and the keys of what stands before the tail."""
    thinned = context.projection is not None
    at = len(keys)
    missing = []
    for seq in reversed(_tail(context, transcript)):
        end = at
        while end and not (
            keys[end - 1] == transcript.keys[seq]
            or is_shown(context.messages[end - 1], transcript.turns[seq], thinned=thinned)
        ):
            if not is_stub(context.messages[end - 1]):
                end = 0
                break
            end -= 1  # it answers a call that never got a result; no agent pushed it
        if end:
            at = end - 1
        else:
            missing.append(seq)
    return missing[::-1], list(keys[:at])


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
