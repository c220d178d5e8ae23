"""What the user said in turns that a projection leaves out: it stands beside the receipt.

While no worker runs, nobody reads what a conversation means. What a user laid down or asked for
must be there all the same, so their own words stay word for word while the results of tools and
the assistant's words leave. They take a share of the room: the first request, then what is marked
as a rule, then the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from turnmill.contract.authors import own_words
from turnmill.contract.context import JsonMessage, StoredContext
from turnmill.contract.policy import Limits
from turnmill.contract.render import said_entry, said_message
from turnmill.contract.rules import with_marked
from turnmill.contract.tail import TailTurn
from turnmill.contract.token_counters import CountMessages

__all__ = ["UsersWords"]

_MOST_SHARE: Final = 3
"""The words take a third of the room at most, and half of what the head leaves of the target."""

_LEAST_SHARE: Final = 8
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
    """What the user said in one turn; ``text`` as it is shown, of so many tokens, or about that."""

    seq: int
    said: str
    text: str
    tokens: int
    marked: bool


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
        said = ((turn.seq, _own(turn), turn.mark.instructs) for turn in turns)
        fresh = (_Entry(seq, text, "", 0, marked) for seq, text, marked in said if text)
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
        return entry._replace(text=said_entry(entry.seq, text), tokens=tokens + _LABEL)

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
    most = min(limits.room // _MOST_SHARE, (limits.target - fixed) // 2)
    least = min(_LEAST_ROOM, limits.room // _LEAST_ROOM_SHARE)
    return max(most, limits.room // _LEAST_SHARE, least)


def _own(turn: TailTurn) -> str:
    """What the user says in the turn."""
    messages = turn.messages if turn.pushed is None else turn.pushed
    texts = [own_words(message).strip() for message in messages if message["role"] == "user"]
    return "\n".join(filter(None, texts))


def _said_alone(text: str) -> JsonMessage:
    return {"role": "user", "content": text}


def _cut(text: str, size: int) -> str:
    """The first and last of a text, ``size`` characters of it, and how many are between."""
    head = int(size * _HEAD_SHARE)
    last = size - head
    note = f"[… {len(text) - size} characters removed …]"
    return text[:head] + note + text[len(text) - last :]
