"""What a model endpoint can do wrong, by name, and when it does."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

Fault = Literal[
    "ok",
    "400",
    "401",
    "403",
    "404",
    "429",
    "429-retry-after",
    "500",
    "503",
    "timeout",
    "drip",
    "huge",
    "reset",
    "malformed",
    "not-openai",
    "empty",
    "refusal",
    "refusal-text",
    "content-filter",
    "length",
    "echo",
    "oversize",
    "wrong-language",
    "injected",
]
"""How one request is answered.

``timeout`` hangs, ``drip`` sends a byte of the body now and then, the body of ``huge`` never ends,
``reset`` breaks off in the middle of it, ``malformed`` is no JSON, and ``not-openai`` is JSON of
another shape. The last nine are HTTP 200 with a text nobody should use;
``injected`` adds an instruction no user gave.
"""

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)

STATUS: Final[Mapping[str, int]] = {name: int(name[:3]) for name in FAULTS if name[:3].isdigit()}


class Faults:
    """Chooses a fault per request: those asked for next, then the script, then by chance.

    Args:
        script: the first requests' faults, in order of arrival.
        shares: probability of each fault for all others; together at most 1.
        seed: makes chance repeatable.

    Raises:
        ValueError: an unknown fault, or shares that add up to more than 1.
    """

    def __init__(
        self,
        script: Sequence[Fault] = (),
        shares: Mapping[Fault, float] | None = None,
        seed: int = 0,
    ) -> None:
        self._shares = dict(shares or {})
        unknown = {*script, *self._shares} - set(FAULTS)
        if unknown:
            raise ValueError(f"faults {sorted(unknown)}: allowed are {', '.join(FAULTS)}")
        if sum(self._shares.values()) > 1 + 1e-9 or min(self._shares.values(), default=0) < 0:
            raise ValueError(f"shares must be in 0..1 together, got {sum(self._shares.values()):g}")
        self._next = deque(script)
        # Repeatable chance is the point; nothing secret depends on it.
        self._random = random.Random(seed)  # noqa: S311
        self._lock = threading.Lock()

    def ask(self, *faults: Fault) -> None:
        """Let the next requests fail with these faults, after those already asked for."""
        with self._lock:
            self._next.extend(faults)

    def draw(self) -> Fault:
        """The next request's fault."""
        with self._lock:
            if self._next:
                return self._next.popleft()
            if not self._shares:
                return "ok"
            names = [*self._shares, "ok"]
            weights = [*self._shares.values(), max(1 - sum(self._shares.values()), 0)]
            chosen: Fault = self._random.choices(names, weights)[0]
            return chosen
