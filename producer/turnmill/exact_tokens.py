"""Exact token counts in an agent's process, where the workers' vocabulary happens to be installed.

Only asked when an upper bound puts a system prompt in doubt: it would be more than half of the hard
limit. Loading a vocabulary takes a tenth of a second and 70 MB.
"""

from __future__ import annotations

from turnmill.contract.policy import Policy
from turnmill.contract.render import system_message

__all__ = ["exact_tokens"]


def exact_tokens(system_prompt: str, policy: Policy | None) -> int | None:
    """Tokens of the system message by the policy's encoding, or None without a vocabulary."""
    try:
        from turnmill_worker.tokens import count_message, counter_for  # noqa: PLC0415 - optional
    except ImportError:
        return None
    counter = counter_for((policy or Policy()).encoding)
    if counter.basis.startswith("heuristic"):
        return None
    return count_message(counter, system_message(system_prompt))
