"""The cut a read applies when a context is over its hard limit: deterministic, and never written.

Promise 3: a read never exceeds the hard limit, whether or not a worker has ever run. Oldest turns
go first, never splitting a tool call from its results; pinned turns stay. A turn of more than half
the room is shortened inside. Where the newest turns alone are too large they are shortened further;
then answered calls of their batch go, then pins, and only then is a conversation reduced to its
receipt. What the user said in turns that leave stands beside the receipt, word for word,
as far as it fits: while no worker runs, nobody reads what a conversation means, and what a user
laid down or asked for must be there all the same.

The cut moves in steps: replaying the log from the watermark, it jumps to the target each time the
hard limit is crossed, so between two jumps every read is a byte-identical prefix of the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from turnmill.contract.base64_text import without_base64
from turnmill.contract.context import JsonMessage, Limits, Receipt, StoredContext
from turnmill.contract.estimate import CountMessages
from turnmill.contract.images import image_parts
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import TailTurn
from turnmill.contract.marks import own_words
from turnmill.contract.render import (
    images_gone,
    receipt_message,
    render_head,
    rules_message,
    said_entry,
    said_message,
    system_message,
)
from turnmill.contract.rules import with_marked
from turnmill.contract.shorten import characters, shorten
from turnmill.contract.thoughts import without_thoughts

_WORDS_MOST_SHARE: Final = 3
"""The words take a third of the room at most, and half of what the head leaves of the target."""

_WORDS_LEAST_SHARE: Final = 8
_LEAST_ROOM: Final = 200
_LEAST_ROOM_SHARE: Final = 4
"""But an eighth of the room, however much stands in the head, or as many tokens as a short request
takes where that is more; of those a quarter of the room at most."""

_OF_FIRST: Final = 2
_OF_ONE: Final = 4
"""The first request takes half of that at most, and what was said in another turn a quarter."""

_LEAST_TOKENS: Final = 16
"""Where less is left, nothing can be said."""

_LABEL: Final = 12
"""Tokens of an entry's turn, and of what divides it from the next, about."""

_HEAD_SHARE: Final = 0.6
"""Share of a shortened text taken from its beginning, as everywhere."""


class _Entry(NamedTuple):
    """What the user said in one turn, beside so many images.

    ``text`` is what is shown of it, of so many tokens, or about that.
    """

    seq: int
    said: str
    text: str
    tokens: int
    marked: bool
    images: int


class UsersWords:
    """The user's words of the turns left out so far, as many as fit.

    Attributes:
        stored: the context without rules that those turns ended.
        tokens: of ``messages`` at most.
    """

    def __init__(
        self,
        stored: StoredContext,
        tail: Sequence[TailTurn],
        limits: Limits,
        count: CountMessages,
        *,
        fixed: int,
    ) -> None:
        self._room = _room(limits, fixed)
        self._count = count
        self._frame = count([said_message([])])
        self._alone = count([_said_alone("")])
        # Where turns were covered, workers chose what stands for the first request.
        begins = tail if stored.is_empty and not stored.requests else ()
        self._first = next((turn.seq for turn in begins if _own(turn)), 0)
        self._kept: list[_Entry] = []
        self._ended: set[str] = set()
        self.stored: StoredContext = stored
        self.tokens: int = 0

    @property
    def messages(self) -> list[JsonMessage]:
        """One with the words, in the order of turns; none where there are none."""
        if not self._kept:
            return []
        return [said_message(entry.text for entry in sorted(self._kept))]

    def leave_out(self, turns: Sequence[TailTurn]) -> None:
        """Keep the words of turns that leave now, which follow those that left before.

        What finds no room leaves for good: the same words are never looked at twice.
        """
        self._end_rules(turns)
        left = self._room - self._frame
        kept: list[_Entry] = []
        known: set[str] = set()
        for entry in sorted(self._candidates(turns), key=self._rank):
            if left < _LEAST_TOKENS:
                break
            # Said again in the same words, it stands where it was said last.
            fitted = None if entry.said in known else self._fitted(entry)
            if fitted is not None and fitted.tokens <= left:
                kept.append(fitted)
                known.add(fitted.said)
                left -= fitted.tokens
        self._keep(kept)

    def _end_rules(self, turns: Iterable[TailTurn]) -> None:
        """Take out what is marked as no longer in force."""
        revoking = [turn for turn in turns if turn.mark.revokes]
        self._ended.update(turn.mark.revokes for turn in revoking)
        if revoking and self.stored.rules:
            rules = with_marked(self.stored.rules, revoking)
            self.stored = self.stored.model_copy(update={"rules": rules})

    def _candidates(self, turns: Iterable[TailTurn]) -> list[_Entry]:
        """What is kept and what may be, without instructions that were taken back."""
        fresh = (
            _Entry(turn.seq, text, "", 0, turn.mark.instructs, _images(turn))
            for turn, text in ((turn, _own(turn)) for turn in turns)
            if text
        )
        return [
            entry
            for entry in (*self._kept, *fresh)
            if not (entry.marked and str(entry.seq) in self._ended)
        ]

    def _rank(self, entry: _Entry) -> tuple[bool, bool, int]:
        return (entry.seq != self._first, not entry.marked, -entry.seq)

    def _fitted(self, entry: _Entry) -> _Entry | None:
        """The entry as it is shown, cut in the middle where it is longer than its share."""
        if entry.text:
            return entry
        most = self._room // (_OF_FIRST if entry.seq == self._first else _OF_ONE)
        text, size = entry.said, len(entry.said)
        while (tokens := self._tokens(text)) > most:
            if size < _LEAST_TOKENS:
                return None
            size = min(size * most // tokens, size - size // 8)
            text = _cut(entry.said, size)
        if entry.images:
            tokens += self._tokens(images_gone(entry.seq, entry.images, entry.images))
        shown = said_entry(entry.seq, text, entry.images)
        return entry._replace(text=shown, tokens=tokens + _LABEL)

    def _tokens(self, text: str) -> int:
        return self._count([_said_alone(text)]) - self._alone

    def _keep(self, kept: list[_Entry]) -> None:
        """Keep as many of these as fit together, whatever each was thought to take."""
        self._kept = kept
        self.tokens = self._count(self.messages) if kept else 0
        while self.tokens > self._room and kept:
            over = self.tokens - self._room
            while kept and over > 0:
                over -= max(kept.pop().tokens, 1)
            self.tokens = self._count(self.messages) if kept else 0


def _room(limits: Limits, fixed: int) -> int:
    """Most tokens the words may take."""
    most = min(limits.room // _WORDS_MOST_SHARE, (limits.target - fixed) // 2)
    least = min(_LEAST_ROOM, limits.room // _LEAST_ROOM_SHARE)
    return max(most, limits.room // _WORDS_LEAST_SHARE, least)


def _own(turn: TailTurn) -> str:
    """What the user says in the turn."""
    texts = [without_base64(own_words(message)).strip() for message in _of_users(turn)]
    return "\n".join(filter(None, texts))


def _images(turn: TailTurn) -> int:
    """How many images the user shows in the turn."""
    return sum(1 for _ in image_parts(_of_users(turn)))


def _of_users(turn: TailTurn) -> list[JsonMessage]:
    messages = turn.messages if turn.pushed is None else turn.pushed
    return [message for message in messages if message["role"] == "user"]


def _said_alone(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def _cut(text: str, size: int) -> str:
    """The first and last of a text, ``size`` characters of it, and how many are between."""
    head = int(size * _HEAD_SHARE)
    last = len(text) - (size - head)
    return f"{text[:head]}[… {characters(text[head:last])} characters removed …]{text[last:]}"


_Placed = tuple[TailTurn, JsonMessage]
"""A message and the turn it belongs to."""


def without_oldest_calls(placed: Sequence[_Placed], calls: int) -> list[_Placed]:
    """The messages without the first ``calls`` that have a result; none when there are fewer."""
    results: set[int] = set()
    leaving: dict[int, list[str]] = {}
    caller = 0
    for at, (_, message) in enumerate(placed):
        if message.get("tool_calls"):
            caller = at
        elif message["role"] == "tool" and len(results) < calls:
            results.add(at)
            leaving.setdefault(caller, []).append(message["tool_call_id"])
    if len(results) < calls:
        return []
    return [
        (turn, left)
        for at, (turn, message) in enumerate(placed)
        if at not in results
        for left in _without_calls(message, leaving.get(at, ()))
    ]


def _without_calls(message: JsonMessage, ids: Sequence[str]) -> list[JsonMessage]:
    """The message without these of its calls; nothing where that leaves nothing of it."""
    if not ids:
        return [message]
    calls = list(message["tool_calls"])
    for call_id in ids:
        calls.remove(next(call for call in calls if call["id"] == call_id))
    return [{**message, "tool_calls": calls}] if calls else _said(message)


def _said(caller: JsonMessage) -> list[JsonMessage]:
    """What an assistant message says beside its calls, as a message of its own."""
    plain = {key: value for key, value in caller.items() if key != "tool_calls"}
    return [plain] if plain.get("content") else []


_RECEIPT_TOKENS = 48
"""Room kept for the receipt: its text and the message around it, generously."""

_MOST_SHARE = 0.5
"""Share of the room one turn may take, when not everything fits."""

_LEAST_SHARE = 0.25
"""Share of the room the newest turns get before the summary must give way to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What fits: messages under the hard limit, and the receipt for what does not, if anything."""

    messages: list[JsonMessage]
    tokens: int
    receipt: Receipt | None


def project(
    system: str,
    stored: StoredContext,
    tail: Sequence[TailTurn],
    limits: Limits,
    count: CountMessages,
    *,
    fixed_tokens: int,
    head_tokens: int = 0,
) -> Projected:
    """The context cut to its hard limit.

    ``fixed_tokens`` are those of the system prompt, the stored context and the reply's opening,
    ``head_tokens`` of them the stored context's; the turns carry their own. ``count`` gives an
    upper bound for any list of messages; it is asked only when messages must be shortened inside.
    """
    prompt = [system_message(system)] if system else []
    whole = fixed_tokens + _tokens(tail)
    if whole <= limits.hard:
        messages = [*prompt, *render_head(stored), *_messages(tail)]
        return Projected(messages=messages, tokens=whole, receipt=None)
    fixed = fixed_tokens + _RECEIPT_TOKENS
    shown = [_clamp(_thoughtless(turn), int(limits.room * _MOST_SHARE), count) for turn in tail]
    said = UsersWords(stored, tail, limits, count, fixed=fixed)
    pinned, newest, dropped = _keep_newest(shown, fixed, limits, said)
    tokens = fixed + said.tokens + _tokens(pinned) + _tokens(newest)
    if tokens <= limits.hard:
        receipt = _receipt(dropped) if dropped else _shortening(tail, _tokens(shown))
        note = [receipt_message(receipt, recall=stored.recall)] if dropped else []
        head = [*render_head(said.stored), *said.messages, *note]
        messages = [*prompt, *head, *_messages([*pinned, *newest])]
        return Projected(messages=messages, tokens=tokens, receipt=receipt)
    squeeze = _Squeeze(prompt, said, limits, count, fixed, head_tokens)
    return squeeze.fit(pinned, newest, dropped)


def _thoughtless(turn: TailTurn) -> TailTurn:
    """The turn without thoughts: what stands before them changes with each jump of the cut."""
    messages = without_thoughts(turn.messages)
    return turn if messages is turn.messages else turn._replace(messages=messages)


def _clamp(turn: TailTurn, most: int, count: CountMessages) -> TailTurn:
    """The turn, shortened inside when it has more than ``most`` tokens and is not pinned.

    Once and for all reads alike: a large turn is not dropped for the next small one.
    """
    if turn.pinned or turn.tokens <= most:
        return turn
    messages = shorten(turn.messages, most, count)
    if messages is None:
        return turn
    pushed = turn.messages if turn.pushed is None else turn.pushed
    return turn._replace(messages=tuple(messages), tokens=count(messages), pushed=pushed)


def _keep_newest(
    tail: Sequence[TailTurn], fixed: int, limits: Limits, said: UsersWords
) -> tuple[list[TailTurn], list[TailTurn], list[TailTurn]]:
    """Pinned turns, the newest ones, and those that must go; the newest group always stays."""
    pinned: list[TailTurn] = []
    newest: list[list[TailTurn]] = []
    dropped: list[TailTurn] = []
    total = fixed + said.tokens
    tracker = CallTracker()
    for turn in tail:
        if not tracker.open:
            newest.append([])
        newest[-1].append(turn)
        tracker.follow(turn.messages)
        total += turn.tokens
        if total <= limits.hard:
            continue
        while len(newest) > 1 and total > limits.target:
            # What the user said in them is kept together: one by one would cost the square.
            gone: list[TailTurn] = []
            while len(newest) > 1 and total > limits.target:
                old = newest.pop(0)
                if any(turn.pinned for turn in old):
                    pinned += old
                else:
                    gone += old
                    total -= _tokens(old)
            total -= said.tokens
            said.leave_out(gone)
            total += said.tokens
            dropped += gone
    return pinned, [turn for group in newest for turn in group], dropped


class _Squeeze:
    """Fits turns that are too large even alone, giving up the least first."""

    def __init__(
        self,
        system: list[JsonMessage],
        said: UsersWords,
        limits: Limits,
        count: CountMessages,
        fixed: int,
        head: int,
    ) -> None:
        self._system = system
        stored = said.stored
        self._all_rules = [rules_message(stored.rules)] if stored.rules else []
        self._head = [*render_head(stored), *said.messages]
        self._others = stored.model_copy(update={"rules": ()})
        self._said = said.messages
        self._recall = stored.recall
        self._limits = limits
        self._count = count
        self._fixed = fixed + said.tokens
        self._beside_head = fixed - head
        self._is_short = False
        if limits.hard - self._fixed < limits.room * _LEAST_SHARE:
            self._shorten_head()

    def _shorten_head(self) -> None:
        """Make the summary and words give way: the policy was tightened, or pins take much."""
        self._is_short = True
        room = self._limits.room // 2
        rules = shorten(self._all_rules, room, self._count, whole_lines=True) or []
        others = [*render_head(self._others), *self._said]
        room -= self._count(rules)
        self._head = [*rules, *(shorten(others, room, self._count, whole_lines=True) or [])]
        self._fixed = self._beside_head + self._count(self._head)

    def fit(
        self, pinned: list[TailTurn], newest: list[TailTurn], dropped: list[TailTurn]
    ) -> Projected:
        """The first of: pins whole; or shortened; answered calls gone; pins gone; head; receipt."""
        body, gone = self._fitted(pinned, newest)
        if pinned and not body:  # too many even without their texts: what is newest counts
            return self.fit([], newest, [*dropped, *pinned])
        if newest and not body and not self._is_short:
            whole = self._head, self._fixed
            self._shorten_head()
            body, gone = self._fitted([], newest)
            if not body:
                self._head, self._fixed = whole
        dropped = [*dropped, *gone]
        tokens = self._fixed + (self._count(body) if body else 0)
        receipt = _receipt(dropped) if dropped else None
        note = [receipt_message(receipt, recall=self._recall)] if receipt else []
        turns = newest or pinned
        if receipt is None and (turns or self._head):
            receipt = _shortening(turns, self._limits.hard - self._fixed)
        messages = [*self._system, *self._head, *note, *body]
        return Projected(messages=messages, tokens=tokens, receipt=receipt)

    def _fitted(
        self, pinned: list[TailTurn], newest: list[TailTurn]
    ) -> tuple[list[JsonMessage], list[TailTurn]]:
        """What the head leaves room for of the turns, and which of them lost a message."""
        budget, turns = self._limits.hard - self._fixed, [*pinned, *newest]
        body = self._beside_pins(pinned, newest, budget) or self._step(_messages(turns), budget)
        return self._thin(turns, budget) if body is None else (body, [])

    def _beside_pins(
        self, pinned: list[TailTurn], newest: list[TailTurn], budget: int
    ) -> list[JsonMessage] | None:
        pins = _messages(pinned)
        body = self._step(_messages(newest), budget - self._count(pins)) if pins else None
        return None if body is None else [*pins, *body]

    def _step(self, messages: Sequence[JsonMessage], budget: int) -> list[JsonMessage] | None:
        """The messages in ``budget`` tokens; each time they cross it they are cut to half of it.

        Replayed from the first message, so that what is shown changes only at a crossing. Where
        half is too little for them, every message is a crossing, and all of ``budget`` is taken.
        """
        crossed = total = 0
        for at, message in enumerate(messages, 1):
            total += self._count([message])
            if total > budget:
                crossed, total = at, budget // 2
        cut = shorten(messages[:crossed], budget // 2, self._count) if crossed else []
        if cut is None:
            return shorten(messages, budget, self._count)
        return [*cut, *messages[crossed:]]

    def _thin(
        self, turns: Sequence[TailTurn], budget: int
    ) -> tuple[list[JsonMessage], list[TailTurn]]:
        """The messages without their oldest answered calls, and the turns that lost something."""
        placed = [(turn, message) for turn in turns for message in turn.messages]

        def fitted(calls: int) -> list[JsonMessage] | None:
            left = [message for _, message in without_oldest_calls(placed, calls)]
            return shorten(left, budget, self._count)

        answered = sum(message["role"] == "tool" for _, message in placed)
        # The fewest that must go: without one more, even empty texts would not fit.
        fewest = bisect_left(
            range(answered + 1), x=True, lo=1, key=lambda calls: fitted(calls) is not None
        )
        left = without_oldest_calls(placed, fewest)
        whole = {id(message) for _, message in left}
        gone = [turn for turn in turns if not all(id(m) in whole for m in turn.messages)]
        return fitted(fewest) or [], gone


def _messages(turns: Sequence[TailTurn]) -> list[JsonMessage]:
    return [message for turn in turns for message in turn.messages]


def _tokens(turns: Sequence[TailTurn]) -> int:
    return sum(turn.tokens for turn in turns)


def _receipt(turns: Sequence[TailTurn]) -> Receipt:
    return Receipt(
        by="projection",
        first_seq=min(turn.seq for turn in turns),
        last_seq=max(turn.seq for turn in turns),
        turns=len(turns),
        tokens=_tokens(turns),
    )


def _shortening(turns: Sequence[TailTurn], budget: int) -> Receipt:
    """The receipt for turns that are all there, but shortened inside."""
    return Receipt(
        by="projection",
        # Where no turn is left, it is what stands for covered ones.
        first_seq=turns[0].seq if turns else 0,
        last_seq=turns[-1].seq if turns else 0,
        turns=0,
        tokens=max(_tokens(turns) - budget, 1),
    )
