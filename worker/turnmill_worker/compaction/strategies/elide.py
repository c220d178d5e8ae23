"""The cheapest strategy: bulky old tool results give way to a short stub that says so."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from turnmill.contract.context import Elision, JsonMessage
from turnmill.contract.estimate import Counter
from turnmill.contract.shorten import shorten
from turnmill_worker.compaction.heard import heard_in
from turnmill_worker.compaction.plan import groups
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies.registry import Elides, register
from turnmill_worker.reading.requests import shortened

_STUB_SHARE = 0.2
"""Share of ``Policy.elide_over_tokens`` a stub may have: enough to tell what the result was."""


def elide(snapshot: Snapshot, counter: Counter) -> Snapshot:
    """The snapshot, if above its target, with all its bulky old tool results shortened.

    All at once: the prompt after the first one is new to a provider's cache anyway, and each one
    delays the next change. The newest ``recent_turns_to_keep`` turns, pinned turns, open
    batches and what was elided before stay as they are. Never lengthens anything; elided turns
    remain whole in the log, and a later summary is made from the whole.
    """
    policy = snapshot.policy
    if snapshot.usage.total <= snapshot.aim:
        return snapshot
    stub_tokens = max(int(policy.elide_over_tokens * _STUB_SHARE), _MIN_STUB_TOKENS)
    made = []
    for turn, index, message in _candidates(snapshot):
        if counter.count_messages([message]) <= policy.elide_over_tokens:
            continue
        elision = _elision(turn, index, message, stub_tokens, counter)
        if elision is not None:
            made.append(elision)
    return snapshot.with_elisions(made) if made else snapshot


_MIN_STUB_TOKENS = 40


def _candidates(snapshot: Snapshot) -> Iterator[tuple[LoggedTurn, int, JsonMessage]]:
    keep = snapshot.policy.recent_turns_to_keep
    newest = {turn.seq for turn in snapshot.turns[-keep:]} if keep else set()
    done = {(elision.seq, elision.index) for elision in snapshot.stored.elisions}
    for group in groups(snapshot):
        if not group.closed or group.pinned:
            continue
        for turn in group.turns:
            if turn.seq in newest or turn.tokens <= snapshot.policy.elide_over_tokens:
                continue
            for index, message in enumerate(turn.shown):
                if message["role"] == "tool" and (turn.seq, index) not in done:
                    yield turn, index, message


def fit_newest(snapshot: Snapshot, budget: int, counter: Counter) -> Snapshot | None:
    """The snapshot with its newest group shortened inside to ``budget`` tokens, or None.

    For the one message that alone breaks the limit: it is cut in the middle, with a receipt; what
    the user asks for keeps whole lines, its demands first.
    None when the newest group is open or pinned, fits already, or cannot be made to fit.
    """
    found = groups(snapshot)
    if not found or not found[-1].closed or found[-1].pinned or found[-1].tokens <= budget:
        return None
    newest = found[-1].turns
    messages = [message for turn in newest for message in turn.shown]
    asked = {request.seq for request in heard_in(snapshot, counter).requests(newest[-1].seq)}
    if not any(m["role"] == "assistant" for turn in snapshot.turns for m in turn.original):
        # Nobody has answered yet: what is said there will be the request.
        asked = {turn.seq for turn in newest}
    fitted = _request_shortened(newest, asked, budget, counter)
    fitted = fitted or shorten(messages, budget, counter.count_messages)
    if fitted is None:
        return None
    places = [(turn.seq, index) for turn in newest for index in range(len(turn.shown))]
    made = [
        Elision(
            seq=seq,
            index=index,
            message=after,
            tokens_before=counter.count_messages([before]),
            tokens_after=counter.count_messages([after]),
        )
        for (seq, index), before, after in zip(places, messages, fitted, strict=True)
        if after is not before
    ]
    return snapshot.with_elisions(made)


def _request_shortened(
    newest: Sequence[LoggedTurn], asked: Container[int], budget: int, counter: Counter
) -> list[JsonMessage] | None:
    """The messages in ``budget`` tokens with the open request among them shortened, or None."""
    messages = [message for turn in newest for message in turn.shown]
    seqs = [turn.seq for turn in newest for _ in turn.shown]
    left = budget - counter.count_messages(messages)  # once: a turn may hold thousands
    for at, message in enumerate(messages):
        content = message.get("content")
        if seqs[at] in asked and message["role"] == "user" and isinstance(content, str):
            room = left + counter.count_messages([message])
            text = shortened(content, room - _FRAME_TOKENS, counter.count)
            if text:
                return [*messages[:at], {**message, "content": text}, *messages[at + 1 :]]
    return None


_FRAME_TOKENS = 8
"""What a message costs beside its text, generously."""


def _elision(
    turn: LoggedTurn, index: int, message: JsonMessage, stub_tokens: int, counter: Counter
) -> Elision | None:
    shortened = shorten([message], stub_tokens, counter.count_messages)
    before = counter.count_messages([message])
    if shortened is None or counter.count_messages(shortened) >= before:
        return None
    return Elision(
        seq=turn.seq,
        index=index,
        message=shortened[0],
        tokens_before=before,
        tokens_after=counter.count_messages(shortened),
    )


register("elide", Elides(elide))
