"""Exact token counts in an agent's process, where the workers' vocabulary is installed.

They take the place of upper bounds, which are twice as much: of turns that are pushed, once some
context is half full; and of a system prompt or tools that are in doubt by their bound. Loading a
vocabulary takes 0.4 s of CPU and 90 MB, and the process stands still for half of that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from turnmill.contract.encodings import file_of
from turnmill.contract.policy import Policy
from turnmill.contract.render import system_message
from turnmill.contract.token_counters import Counter, CountMessages, Exact

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools

__all__ = ["Counting", "exact_tokens", "load"]

_HALF: Final = 2

_loaded: Final[dict[str, CountMessages | None]] = {}
"""By encoding; None while it is being loaded, and where it cannot be."""


class Counting:
    """Whether and how one client counts the turns it pushes; safe to share between threads."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._begun = False

    def seen(self, tokens: int, policy: Policy) -> None:
        """Note a context of so many tokens: from half of its limit on, bounds cost something."""
        if self._wanted and _HALF * tokens > policy.max_tokens:
            self._begun = True

    def under(self, policy: Policy | None) -> Exact | None:
        """The count under a policy; None without one, or without its vocabulary, which may load."""
        if not self._begun or policy is None:
            return None
        encoding = policy.encoding
        if encoding not in _loaded:
            # Two threads that meet here load it twice, and both are right.
            _loaded[encoding] = None
            threading.Thread(
                target=load, args=(encoding,), name="turnmill-vocabulary", daemon=True
            ).start()
        count = _loaded[encoding]
        return Exact(encoding, count) if count else None


def load(encoding: str) -> None:
    """Load the vocabulary of an encoding for all clients of this process, if it is here."""
    counter = _counter(encoding)
    if counter is not None:
        _loaded[encoding] = counter.count_messages


def exact_tokens(
    system_prompt: str | None, tools: Tools | None, policy: Policy | None
) -> tuple[int, int] | None:
    """Tokens of both by the policy's encoding, 0 for what there is none of.

    None without a vocabulary.
    """
    counter = _counter((policy or Policy()).encoding)
    if counter is None:
        return None
    from turnmill.contract.tools import count_tools, tools_body  # noqa: PLC0415 - few agents need it

    system = counter.count_messages([system_message(system_prompt)]) if system_prompt else 0
    return system, count_tools(counter.count, tools_body(tools or ()))


def _counter(encoding: str) -> Counter | None:
    """What counts exactly by the encoding, if it is installed."""
    if file_of(encoding):  # the folder of tokenizer files is known to workers alone
        return None
    try:
        from turnmill_worker.tokens import counter_for  # noqa: PLC0415 - optional
    except ImportError:
        return None
    counter = counter_for(encoding)
    return None if counter.basis.startswith("heuristic") else counter
