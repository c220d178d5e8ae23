"""What an agent tells of its provider's usage, and what is learned from it.

A provider may count other tokens than ``Policy.encoding`` does. Each time an agent tells what its
provider counted, a worker divides that by what was counted here for the same context. The largest
of the last ``WINDOW`` ratios holds, so a count is never below what any of those calls would have
made of it; one large ratio leaves after as many calls.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from turnmill.contract.context import Usage
from turnmill.contract.errors import InvalidInput

WINDOW: Final = 16
"""How many ratios are remembered."""

SURE: Final = 4
"""So many may lower the ratio below the policy's; fewer only raise it."""

LEAST_TOKENS: Final = 500
"""A smaller context tells of its request's fixed parts, rather than of its text."""

LEAST, MOST = 0.5, 4.0

MOST_READS: Final = 10_000
"""Sessions whose last reads are remembered; those read longest ago are forgotten first."""

_INPUTS: Final = ("input_tokens", "prompt_tokens", "prompt_token_count")
_BESIDE: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts these apart from ``input_tokens``."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The provider's tokens for one of those counted.

    Attributes:
        start: the policy's ``token_ratio``.
        ratios: of the last calls that were told of, the newest last.
    """

    start: float = 1.0
    ratios: tuple[float, ...] = ()

    @classmethod
    def stored(cls, text: str, start: float) -> Self:
        """As stored; without what was learned beside another start: for another model."""
        before, _, found = text.partition("/")
        if not found or float(before) != start:
            return cls(start)
        return cls(start, tuple(map(float, found.split())))

    def encode(self) -> str:
        """What ``stored`` reads."""
        return f"{self.start!r}/{' '.join(f'{ratio:.4f}' for ratio in self.ratios)}"

    @property
    def ratio(self) -> float:
        """What counts are multiplied by."""
        if len(self.ratios) >= SURE:
            return max(self.ratios)
        return max(self.start, *self.ratios) if self.ratios else self.start

    @property
    def error(self) -> float | None:
        """The share by which corrected counts of those calls were too high at most."""
        return 1 - min(self.ratios) / self.ratio if self.ratios else None

    def after(self, reported: int, counted: int) -> Self:
        """With one more call."""
        if counted < LEAST_TOKENS:
            return self
        # Rounded up: what is stored may never be below what was seen.
        found = math.ceil(min(max(reported / counted, LEAST), MOST) * 10_000) / 10_000
        return replace(self, ratios=(*self.ratios, found)[-WINDOW:])

    def corrected(self, tokens: int) -> int:
        """The provider's tokens, for so many counted."""
        return tokens if self.ratio == 1 else math.ceil(tokens * self.ratio)

    def usage(self, counted: Usage) -> Usage:
        """The parts in the provider's tokens."""
        return Usage(
            system=self.corrected(counted.system),
            summary=self.corrected(counted.summary),
            tail=self.corrected(counted.tail),
            pending=self.corrected(counted.pending),
        )


_TOLD = re.compile(r"(\d{1,15}) (\d{1,15}) (\d{1,15})")


@dataclass(frozen=True, slots=True)
class Told:
    """What a provider counted for the context of one read.

    Attributes:
        tokens: as reported.
        version, seq: of the context.
    """

    tokens: int
    version: int
    seq: int

    @classmethod
    def stored(cls, text: str) -> Self | None:
        """As stored; None for nothing."""
        found = _TOLD.fullmatch(text)
        return None if found is None else cls(*map(int, found.groups()))

    def encode(self) -> str:
        """What ``stored`` reads."""
        return f"{self.tokens} {self.version} {self.seq}"

    def counted(
        self, version: int, before: int, usage: Usage, turns: Sequence[tuple[int, int]]
    ) -> int | None:
        """What was counted for the same context; None when that is no longer known.

        ``usage`` is with all of these turns (seq, tokens), which come after seq ``before``.
        """
        last = turns[-1][0] if turns else before
        if self.version != version or not before <= self.seq <= last:
            return None
        return usage.total - sum(tokens for seq, tokens in turns if seq > self.seq)


NOTHING_TOLD: Final = Correction()


def input_tokens(usage: object) -> int:
    """The input tokens in what a provider reported, or the number itself.

    Takes usage of OpenAI's APIs, Anthropic's and Google's, as an object or as JSON has it.

    Raises:
        InvalidInput: nothing of it is a number of input tokens.
    """
    found = usage
    if not isinstance(usage, int):
        whole = [_field(usage, name) for name in _INPUTS]
        found = next((number for number in whole if number is not None), None)
        beside = [_field(usage, name) or 0 for name in _BESIDE]
        if isinstance(found, int) and all(isinstance(each, int) for each in beside):
            found += sum(beside)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 10**12:
        raise InvalidInput(
            f"usage: must be a number of input tokens, or have {' or '.join(_INPUTS)}; "
            f"got {type(usage).__name__}"
        )
    return found


def _field(usage: object, name: str) -> Any:
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)


class LastReads:
    """Version, newest seq and prefix of the last context, by session."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._prefix: dict[str, str] = {}

    def note(self, session: str, version: int, seq: int, *, is_whole: bool, prefix: str) -> None:
        """Remember it; of a projected one nobody knows what it was counted as."""
        self._prefix.pop(session, None)
        self._prefix[session] = prefix
        if len(self._prefix) > MOST_READS:
            self._prefix.pop(next(iter(self._prefix)), None)
        self._last.pop(session, None)
        if is_whole:
            self._last[session] = (version, seq)
            if len(self._last) > MOST_READS:
                self._last.pop(next(iter(self._last)), None)

    def prefix(self, session: str) -> str:
        """What an answer that is pushed now was most likely written under."""
        return self._prefix.get(session, "")

    def told(self, session: str, usage: object) -> Told | None:
        """What ``usage`` tells of the session's last read here; None where there is none.

        Each read counts once.

        Raises:
            InvalidInput: it is no usage.
        """
        if usage is None:
            return None
        tokens = input_tokens(usage)
        last = self._last.pop(session, None)
        return None if last is None else Told(tokens, *last)
