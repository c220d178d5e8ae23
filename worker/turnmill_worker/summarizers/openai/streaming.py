"""An answer while it is written: put together from its events, and ended when it goes wrong.

A model that does not find its end would be listened to, and paid, up to its limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

_CHARS_PER_TOKEN: Final = 6
"""More than texts have: who writes more than so many was not told of the limit, or ignores it."""

_LOOK_CHARS: Final = 500
"""What has been written is looked at again after so many characters."""

_TAIL_CHARS: Final = 4_000
_PIECE: Final = re.compile(r'[\n"]')
_LEAST_CHARS: Final = 16
_MOST_PIECES: Final = 6
"""A line, or a string in JSON, that the end of a text has so often is a loop: no list has that."""

_WORD: Final = re.compile(r"\w+")
_RUN_WORDS: Final = 24
_MOST_RUNS: Final = 4
"""As are so many words in a row; fewer stand in each line of many a list, beside what differs."""

_FILLED_CHARS: Final = 200
_FEWEST_CHARS: Final = 4


def is_loop(text: str) -> bool:
    """Whether the end of a text says the same again and again."""
    filled, tail = text[-_FILLED_CHARS:], text[-_TAIL_CHARS:]
    if len(filled) == _FILLED_CHARS and len(set(filled)) <= _FEWEST_CHARS:
        return True
    pieces = Counter(piece.strip() for piece in _PIECE.split(tail))
    if any(often >= _MOST_PIECES and len(piece) >= _LEAST_CHARS for piece, often in pieces.items()):
        return True
    words = _WORD.findall(tail)
    runs: Counter[tuple[str, ...]] = Counter()
    free_from: dict[tuple[str, ...], int] = {}
    for at in range(len(words) - _RUN_WORDS + 1):
        run = tuple(words[at : at + _RUN_WORDS])
        if at >= free_from.get(run, 0):
            runs[run] += 1
            free_from[run] = at + _RUN_WORDS
    return max(runs.values(), default=0) >= _MOST_RUNS


class Transcript:
    """What has come of one answer, by either API.

    Attributes:
        ended: why there is nothing to wait for: ``length`` or ``loop``; ``""`` while there is.
    """

    def __init__(self, *, limit: int, with_reasoning: int) -> None:
        """An answer of at most ``limit`` tokens, or ``with_reasoning`` in all."""
        self.ended = ""
        self._text: list[str] = []
        self._thought: list[str] = []
        self._most_text = limit * _CHARS_PER_TOKEN
        self._most = with_reasoning * _CHARS_PER_TOKEN
        self._chars = [0, 0]
        self._look_at = _LOOK_CHARS
        self._refusal = ""
        self._finish: str | None = None
        self._model = ""
        self._usage: Any = None
        self._whole: Mapping[str, Any] | None = None
        self._is_response = False

    @property
    def chars(self) -> int:
        """Characters of all that was written, reasoning included."""
        return sum(self._chars)

    @property
    def is_whole(self) -> bool:
        """Whether the model has ended it: usage may be all that is missing."""
        return self._finish is not None or self._whole is not None

    def add(self, event: Any) -> bool:
        """Whether an event of the stream says more.

        Raises:
            AttributeError, KeyError, TypeError: it is none of either API.
        """
        before, kind = self.chars, event.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            self._add_response(kind, event)
        else:
            self._add_chat(event)
        if self.chars >= self._look_at and not self.ended:
            self._look()
        return self.chars > before

    def shape(self) -> dict[str, Any]:
        """The answer as it would have come in one piece; its usage may be unknown."""
        if self._whole is not None:
            return dict(self._whole)
        text, reason = "".join(self._text), self.ended or self._finish
        if self._is_response:
            part = {"type": "output_text", "text": text}
            why = {"length": "max_output_tokens"}.get(reason or "", reason)
            return {
                "model": self._model,
                "status": "incomplete",
                "incomplete_details": {"reason": why} if why else None,
                "output": [{"type": "message", "content": [part]}],
                "usage": None,
            }
        message = {"content": text, "refusal": self._refusal or None}
        message["reasoning_content"] = "".join(self._thought)
        choice = {"message": message, "finish_reason": reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    def _add_chat(self, event: Mapping[str, Any]) -> None:
        self._model = event.get("model") or self._model
        self._usage = event.get("usage") or self._usage
        for choice in (event.get("choices") or ())[:1]:
            delta = choice.get("delta") or {}
            self._say(self._text, delta.get("content"))
            self._say(self._thought, delta.get("reasoning_content") or delta.get("reasoning"))
            self._refusal += delta.get("refusal") or ""
            self._finish = choice.get("finish_reason") or self._finish

    def _add_response(self, kind: str, event: Mapping[str, Any]) -> None:
        self._is_response = True
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._whole = event["response"]
        elif kind == "response.created":
            self._model = event["response"].get("model") or ""
        elif kind.endswith(".delta"):
            is_text = kind == "response.output_text.delta"
            self._say(self._text if is_text else self._thought, event.get("delta"))

    def _say(self, to: list[str], said: Any) -> None:
        if isinstance(said, str) and said:
            to.append(said)
            self._chars[to is self._thought] += len(said)

    def _look(self) -> None:
        self._look_at = self.chars + _LOOK_CHARS
        if self._chars[0] > self._most_text or self.chars > self._most:
            self.ended = "length"
        elif is_loop("".join(self._text)) or is_loop("".join(self._thought)):
            self.ended = "loop"
