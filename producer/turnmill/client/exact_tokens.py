"""Exact token counts in an agent's process, where the workers' vocabulary is installed.

They take the place of upper bounds, which are twice as much: of the turns that are pushed, if the
agent wants that; and of a system prompt or tools that are in doubt by their bound. Loading a
vocabulary takes 0.4 s of CPU and 90 MB, and the process stands still for half of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill.contract.errors import UnknownEncoding
from turnmill.contract.estimate import ENCODINGS, Counter, Exact, file_of
from turnmill.contract.policy import Policy
from turnmill.contract.render import system_message

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools


def exact_by(encoding: str) -> Exact:
    """What counts pushed turns by an encoding; loads its vocabulary.

    Raises:
        UnknownEncoding: there is none of this name, or its vocabulary is not installed here.
    """
    counter = _counter(encoding) if encoding in ENCODINGS else None
    if counter is None:
        known = ", ".join(name for name in ENCODINGS if name != "heuristic")
        raise UnknownEncoding(
            f"counts_by {encoding!r}: use one of {known}, and install the extra `counting`"
        )
    return Exact(encoding, counter.count_messages)


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
