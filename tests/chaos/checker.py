"""Whether what happened is what was promised; pure: a history and a final state in, violations out.

Turns are checked as Jepsen checks a list: what was acknowledged is there once, as it was pushed, in
an order that agrees with time. Reads are checked against the turns that were there. Where Redis
went back to an earlier state, turns acknowledged shortly before may be lost; nothing else may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.chaos.final import FinalState, Place, SessionState
from tests.chaos.history import Call, History
from tests.chaos.turns import message_of
from turnmill_cli.promises import (
    CheckedRead,
    CountMessage,
    TokenCache,
    Transcript,
    check_context,
    fingerprint,
)

__all__ = ["Expected", "Loss", "Violation", "check"]


class Violation(NamedTuple):
    """A broken promise: which, in which session, and in which turns and numbers."""

    kind: str
    session: str
    detail: str


class Loss(NamedTuple):
    """Redis went back: what was acknowledged in this time may be gone.

    ``to_s`` is when the server that had it ended, and before the next one took calls.
    """

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Expected:
    """What the sessions were opened with, and what the faults may have cost."""

    hard_limit: int
    system_prompt: str = ""
    losses: Sequence[Loss] = ()

    def may_lose(self, call: Call) -> bool:
        """Whether what this call was told may be lost."""
        ended_s = call.ended_s or call.began_s
        return any(call.began_s <= lost.to_s and lost.from_s <= ended_s for lost in self.losses)

    def era(self, call: Call) -> int | None:
        """How often Redis had gone back when it was called; None when it did so meanwhile."""
        began, ended = (self._era(at_s) for at_s in (call.began_s, call.ended_s or call.began_s))
        return began if began == ended else None

    def _era(self, at_s: float) -> int:
        return sum(loss.to_s < at_s for loss in self.losses)


def check(
    history: History, final: FinalState, expected: Expected, count: CountMessage
) -> list[Violation]:
    """Every promise that was broken."""
    found = [
        Violation("left behind", "", f"{count} of {name}") for name, count in final.left.items()
    ]
    cache = TokenCache(count)
    for name, state in final.sessions.items():
        pushes = list(history.of(name, "push"))
        told = [*_check_turns(pushes, state, expected), *_check_order(pushes, state, expected)]
        told += _check_reads(name, history, state, expected, cache)
        found += [Violation(kind, name, detail) for kind, detail in told]
    return found


def _kept(state: SessionState, expected: Expected) -> list[Place]:
    """The turns of the session as it is now: what was set aside, or lost, is told apart from it.

    Where Redis lost a commit and not the turns it covered, these are in the log again, and stay
    archived: each is one turn.
    """
    now = ("", state.epoch)
    kept = [each for each in state.places if each.state == "kept" and each.epoch in now]
    if not expected.losses:
        return kept
    logged = {each.seq: each for each in kept if each.where == "log"}
    return [
        each
        for each in kept
        if each.where != "archive" or replace(each, where="log", epoch="") != logged.get(each.seq)
    ]


def _check_turns(
    pushes: Sequence[Call], state: SessionState, expected: Expected
) -> Iterator[tuple[str, str]]:
    """Conservation."""
    kept = _kept(state, expected)
    times = Counter(place.turn for place in kept)
    seqs = Counter(place.seq for place in kept)
    begun = {turn for call in pushes for turn in call.turns}
    acked = _acknowledged(pushes)
    for turn, (seq, call) in acked.items():
        if turn not in times and not expected.may_lose(call):
            yield "lost", f"{turn}, acknowledged as seq {seq}"
    for place in kept:
        if place.turn not in begun:
            yield "invented", f"seq {place.seq} in the {place.where}"
        elif fingerprint(list(place.messages)) != fingerprint([message_of(place.turn)]):
            yield "altered", f"seq {place.seq} in the {place.where}"
        seq, told = acked.get(place.turn, (place.seq, None))
        if seq != place.seq and told and not expected.may_lose(told):
            yield "moved", f"{place.turn} is seq {place.seq}, acknowledged as {seq}"
        if (place.where == "log") != (place.seq > state.watermark):
            yield "misplaced", f"seq {place.seq} in the {place.where}: watermark {state.watermark}"
    yield from (("doubled", f"{turn}: {n} times") for turn, n in times.items() if n > 1)
    yield from (("doubled", f"seq {seq}: {n} turns") for seq, n in seqs.items() if n > 1)
    missing = set(range(1, state.last_seq + 1)) - set(seqs)
    yield from (("gap", f"seq {seq} of {state.last_seq}") for seq in sorted(missing))


def _acknowledged(pushes: Sequence[Call]) -> dict[str, tuple[int, Call]]:
    """Each acknowledged turn's seq, and the last call that was told so."""
    return {
        turn: (seq, call)
        for call in pushes
        if call.acknowledged
        for turn, seq in zip(call.turns, call.seqs, strict=True)
    }


def _check_order(
    pushes: Sequence[Call], state: SessionState, expected: Expected
) -> Iterator[tuple[str, str]]:
    """What was acknowledged before another turn's first push began comes before it."""
    where = {place.turn: place.seq for place in _kept(state, expected)}
    begun: dict[str, float] = {}
    for call in pushes:
        for turn in call.turns:
            begun.setdefault(turn, call.began_s)
    done = sorted(
        (call.ended_s or 0.0, where[turn])
        for turn, (_, call) in _acknowledged(pushes).items()
        if turn in where and not expected.may_lose(call)
    )
    highest, at = 0, 0
    for turn, began_s in sorted(begun.items(), key=lambda entry: entry[1]):
        while at < len(done) and done[at][0] < began_s:
            highest, at = max(highest, done[at][1]), at + 1
        if where.get(turn, highest + 1) <= highest:
            yield "out of order", f"{turn} is seq {where[turn]}, after {highest} was acknowledged"


def _check_reads(
    name: str, history: History, state: SessionState, expected: Expected, count: TokenCache
) -> Iterator[tuple[str, str]]:
    """Every read is legal, within its limit, complete, and never behind what was seen before."""
    last_era = len(expected.losses)
    now = {place.seq: place.turn for place in _kept(state, expected)}
    previous: dict[str, tuple[int | None, CheckedRead]] = {}
    for call in sorted(history.of(name, "read"), key=lambda call: call.ended_s or 0):
        if call.read is None or call.ended_s is None:
            continue
        era = expected.era(call)
        before_era, before = previous.get(call.agent, (era, None))
        context = call.read.context(name, history.messages)
        checked = check_context(
            context,
            _transcript(context.watermark, context.last_seq, now, context.system_prompt),
            hard_limit=expected.hard_limit,
            count=count,
            previous=before if before_era == era is not None else None,
        )
        yield from (
            (f"read {fault.kind}", f"{call.agent} at {call.ended_s:.3f}: {fault.detail}")
            for fault in checked.faults
            if era == last_era or fault.kind != "incomplete"
        )
        previous[call.agent] = (era, checked)
    yield from _check_freshness(name, history, expected)


_NOWHERE = {"role": "user", "content": "a turn that is stored nowhere"}


def _transcript(
    watermark: int, last_seq: int, seqs: Mapping[int, str], system_prompt: str
) -> Transcript:
    """What a read should show: the turns behind its watermark."""
    made = Transcript(system_prompt=system_prompt)
    for seq in range(min(watermark + 1, last_seq), last_seq + 1):
        made.add(seq, message_of(seqs[seq]) if seq in seqs else _NOWHERE)
    return made


def _check_freshness(name: str, history: History, expected: Expected) -> Iterator[tuple[str, str]]:
    """A read shows what was acknowledged, or read by anybody, before it began."""
    events: list[tuple[float, bool, Call]] = []
    for call in (*history.of(name, "push"), *history.of(name, "read")):
        if call.acknowledged and call.ended_s is not None and expected.era(call) is not None:
            events += [(call.began_s, False, call), (call.ended_s, True, call)]
    floors: dict[int, tuple[int, ...]] = {}
    era: int | None = 0
    highest = (0, 0, 0)
    for at_s, is_end, call in sorted(events, key=lambda event: event[:2]):
        if expected.era(call) != era:
            era, highest = expected.era(call), (0, 0, 0)
        if not is_end:
            floors[id(call)] = highest
            continue
        seen = (max(call.seqs, default=0), 0, 0)
        if call.read is not None:
            seen = (call.read.last_seq, call.read.version, call.read.watermark)
            floor = floors[id(call)]
            if any(new < old for new, old in zip(seen, floor, strict=True)):
                yield "went backwards", f"{call.agent} at {at_s:.3f}: {seen} after {floor}"
        highest = (max(highest[0], seen[0]), max(highest[1], seen[1]), max(highest[2], seen[2]))
