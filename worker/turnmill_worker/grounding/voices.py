"""How much words weigh by who says them: what is said in passing counts less."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnmill.contract.names import SessionId
from turnmill_worker.grounding.adjacent_turns import conversation_of
from turnmill_worker.grounding.terms import terms
from turnmill_worker.ports.records import Memory

__all__ = ["Voices"]

LEAST: Final = 0.4
"""What an assistant's words weigh at least, however long its answers are."""

BRIEF: Final = 200
"""Characters: turns of this mean length are not long, however short the others are."""

OTHERS: Final = 0.6
"""What turns of others weigh when a question names somebody who speaks."""

_ASSISTANT: Final = "assistant"
_ROLES: Final = frozenset({_ASSISTANT, "user"})
_NOBODY: Final = 0


@dataclass(slots=True)
class _Talk:
    """Turns and characters of one conversation: in all, and the assistant's."""

    turns: int = 0
    length: int = 0
    own_turns: int = 0
    own_length: int = 0
    voices: dict[str, int] = field(default_factory=dict)

    def weight(self) -> float:
        """The root of how much longer the assistant's turns are than those of the others."""
        others = self.turns - self.own_turns
        if not (others and self.own_length):
            return 1.0
        mean = max((self.length - self.own_length) / others, BRIEF)
        return max(LEAST, min(1.0, math.sqrt(mean * self.own_turns / self.own_length)))


class Voices:
    """Who says each memory, and what that makes its words weigh: more than 0, at most 1.

    A user says in a line what an answer of two pages repeats. So the assistant's words weigh less
    the longer its turns are than those of whom it talks to. Between people, who are known by their
    names, and for notes and summaries, nothing weighs less.

    Attributes:
        of: the number of its voice, by passage.
        of_session: the voices of each session; what is said in none has a voice in common.
    """

    def __init__(self) -> None:
        self.of = array("I")
        self.of_session: dict[SessionId, set[int]] = {}
        self._weights = [1.0]
        self._turns = [0]
        self._speaks = [False]
        self._talks: dict[str, _Talk] = {}
        self._named: dict[str, set[int]] = {}

    def join(self, memory: Memory, *, passages: int = 1) -> None:
        """Gives the next memory its voice."""
        voice = self._voice(memory)
        self.of.extend([voice] * passages)
        self._count(voice, memory, 1)

    def part(self, number: int, memory: Memory) -> None:
        """Takes a memory out."""
        self._count(self.of[number], memory, -1)

    def weights(self, asked: Iterable[str]) -> Sequence[float]:
        """What each voice weighs for a question with these terms."""
        named = {
            voice for term in asked for voice in self._named.get(term, ()) if self._turns[voice]
        }
        if not named:
            return self._weights
        return [
            weight * OTHERS if speaks and voice not in named else weight
            for voice, (weight, speaks) in enumerate(zip(self._weights, self._speaks, strict=True))
        ]

    def _voice(self, memory: Memory) -> int:
        if memory.session is None:
            return _NOBODY
        talk = self._talks.setdefault(conversation_of(memory), _Talk())
        voice = talk.voices.setdefault(memory.speaker, len(self._weights))
        if voice == len(self._weights):
            self._weights.append(1.0)
            self._turns.append(0)
            self._speaks.append(memory.kind == "turn")
            self.of_session.setdefault(memory.session, set()).add(voice)
            for term in () if memory.speaker in _ROLES else terms(memory.speaker):
                self._named.setdefault(term, set()).add(voice)
        return voice

    def _count(self, voice: int, memory: Memory, turns: int) -> None:
        if voice == _NOBODY:
            return
        self._turns[voice] += turns
        talk = self._talks[conversation_of(memory)]
        length = turns * len(memory.text)
        talk.turns += turns
        talk.length += length
        if memory.speaker == _ASSISTANT:
            talk.own_turns += turns
            talk.own_length += length
        if (assistant := talk.voices.get(_ASSISTANT)) is not None:
            self._weights[assistant] = talk.weight()
