"""What a user said in some turns, told from output that a program put into user messages.

Where tools have messages of their own, every user message is the user's. Where they have none,
results come back in user messages: those share a frame, are data, or hardly hold a sentence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from turnmill.contract.authors import own_words as said_text
from turnmill.contract.authors import text_in as written
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Seq
from turnmill.rules.quoted import own_words
from turnmill.rules.standing import Said

__all__ = ["Heard", "Hearing", "Speech", "opening_turns", "outputs_among"]

_STANDS_ALONE: Final = 6
"""A request of fewer words leans on the one before it, and adds to it."""

_MOST_OPENING: Final = 3
"""So many messages at most are what a session began with."""

_LOOKED_AT: Final = 4000
"""Characters of a message that tell whether it is output."""

_A_SENTENCE: Final = 6
_PROMPT: Final = 3
_LEAST_PROSE: Final = 0.3
_FRAME_CHARS: Final = 60

_OPENER = re.compile(r"\s{0,20}([^\w\s]?[A-Za-z][\w ]{0,40}?)(?: \[|[:>\]=(])")
_MARKED = re.compile(r"[<>\[\]{}$#=|\\]")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_ASKS = re.compile(r"[?？؟](?![\w/&=])")
_END_CHARS: Final = 1000
"""Of what an agent says, so many characters at its end tell whether it asks something."""


class Speech(NamedTuple):
    """What the user said in one turn.

    Attributes:
        opens: nobody had answered before.
        begins: the agent had ended its work, so this asks for something new.
    """

    seq: Seq
    text: str
    opens: bool
    begins: bool


class Heard(NamedTuple):
    """What was said, oldest first, and whether an agent works in a loop."""

    said: tuple[Speech, ...]
    loop: bool


class _Message(NamedTuple):
    """A user's message, the text before it, and whether the one before it ended its turn."""

    seq: Seq
    text: str
    opens: bool
    ended: bool


class Hearing:
    """Listens to turns as they come: with tools, each is read once however often it is asked."""

    def __init__(self, *, from_start: bool) -> None:
        """``from_start``: nothing was said before the first turn."""
        self._opens, self._spoke, self._ended = from_start, 0, False
        self._is_answered = self._has_tools = False
        self._messages: list[_Message] = []
        self._said: dict[Seq, Speech] = {}

    def listen(self, turns: Iterable[Said]) -> None:
        """Listen to more turns, behind all before."""
        for turn in turns:
            if own := list(self._messages_of(turn)):
                self._messages += own
                self._said[turn.seq] = _speech(turn.seq, own)

    @property
    def heard(self) -> Heard:
        """What was said so far."""
        if not self._is_answered:
            # Nobody was asked yet, or somebody only tells.
            return Heard((), loop=False)
        if self._has_tools:
            return Heard(tuple(self._said.values()), loop=True)
        answers = [message.text for message in self._messages if not message.opens]
        outputs = iter(_outputs(answers))
        spoken = [message for message in self._messages if message.opens or not next(outputs)]
        lost = len(self._messages) - len(spoken)
        said = _joined(spoken) if lost else tuple(self._said.values())
        return Heard(said, loop=lost > 0 and 2 * lost >= len(answers))

    def _messages_of(self, turn: Said) -> Iterator[_Message]:
        for message in turn.messages:
            role, text = message["role"], said_text(message)
            if text.strip() and not (turn.mark.instructs or turn.mark.revokes):
                opens = self._opens and self._spoke < _MOST_OPENING
                yield _Message(turn.seq, text, opens, self._ended)
                self._spoke += 1
            # An agent may greet before it is asked.
            self._opens = self._opens and not (self._spoke and role != "user")
            self._ended = role == "assistant" and _ends(message)
            self._is_answered = self._is_answered or role == "assistant"
            self._has_tools = self._has_tools or _uses_tools(message)


def opening_turns(turns: Iterable[Sequence[JsonMessage]]) -> int:
    """How many turns a session begins with in which only the user speaks; 0 if nobody answers.

    Together they say what is asked: an example often comes first, and the request after it.
    """
    for at, messages in enumerate(turns):
        if any(message["role"] == "assistant" for message in messages):
            return min(at, _MOST_OPENING)
        if any(message["role"] != "user" for message in messages):
            return 0
    return 0


def outputs_among(turns: Sequence[Said]) -> frozenset[int]:
    """The positions of messages, over all turns, that hold a program's output as a user's."""
    messages = [(turn.seq, message) for turn in turns for message in turn.messages]
    if any(_uses_tools(message) for _, message in messages):
        return frozenset()
    first = next((at for at, (_, m) in enumerate(messages) if m["role"] == "assistant"), 0)
    opens = first if messages and messages[0][0] == 1 else 0
    places = [
        at for at, (_, message) in enumerate(messages) if at >= opens and said_text(message).strip()
    ]
    outputs = _outputs([said_text(messages[at][1]) for at in places])
    return frozenset(at for at, output in zip(places, outputs, strict=True) if output)


def _ends(message: JsonMessage) -> bool:
    """Whether an assistant's message calls nothing, orders nothing and asks nothing."""
    text = written(message)
    if message.get("tool_calls") or not text.strip():
        return False
    return "```" not in text and not _ASKS.search(text[-_END_CHARS:])


def _uses_tools(message: JsonMessage) -> bool:
    return bool(message.get("tool_calls")) or message["role"] in {"tool", "function"}


def _joined(messages: Sequence[_Message]) -> tuple[Speech, ...]:
    """One speech for each turn."""
    by_seq: dict[Seq, list[_Message]] = {}
    for message in messages:
        by_seq.setdefault(message.seq, []).append(message)
    return tuple(_speech(seq, own) for seq, own in by_seq.items())


def _speech(seq: Seq, own: Sequence[_Message]) -> Speech:
    text = "\n\n".join(m.text.replace("\r\n", "\n").replace("\r", "\n").strip() for m in own)
    long = len(text[:_LOOKED_AT].split()) >= _STANDS_ALONE
    return Speech(seq, text, own[0].opens, begins=own[0].ended and long)


# --- output of programs ---------------------------------------------------------------------------


def _frames(answers: Sequence[str]) -> frozenset[str]:
    """Openings and last lines that at least half of the messages share, and that are no prose."""
    found = Counter(frame for text in answers for frame in _frame(text))
    return frozenset(
        frame for frame, times in found.items() if times > 1 and 2 * times >= len(answers)
    )


def _frame(text: str) -> set[str]:
    found = set()
    if opener := _OPENER.match(text[:_FRAME_CHARS]):
        found.add("^" + opener[1])
    # Of a message of one line the end is no frame.
    _, broken, last = text.rstrip()[-_FRAME_CHARS:].rpartition("\n")
    if broken and _MARKED.search(last) and (_WORD.search(last) or len(last.strip()) <= _PROMPT):
        found.add("$" + _DIGITS.sub("0", last.strip()))
    return found


def _outputs(answers: Sequence[str]) -> list[bool]:
    """For each text that followed an assistant's, whether a program wrote it."""
    frames = _frames(answers)
    return [_is_output(text, frames) for text in answers]


def _is_output(text: str, frames: frozenset[str]) -> bool:
    if _frame(text) & frames or _is_data(text):
        return True
    return _reads_as_output(text[:_LOOKED_AT], text.lstrip()[:_LOOKED_AT])


@lru_cache(maxsize=1 << 10)
def _reads_as_output(text: str, stripped: str) -> bool:
    return _prose(text) < _LEAST_PROSE and not _opens_speaking(stripped)


def _opens_speaking(text: str) -> bool:
    """Whether a text begins with a sentence, as of somebody who shows code or a log."""
    first = text.partition("\n")[0]
    return len(_WORD.findall(first)) >= _A_SENTENCE and not _MARKED.search(first[:_FRAME_CHARS])


def _is_data(text: str) -> bool:
    if text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _prose(text: str) -> float:
    """The share of a text's words that are its writer's own."""
    whole = len(_WORD.findall(text))
    return len(_WORD.findall(own_words(text))) / whole if whole else float(not _MARKED.search(text))
