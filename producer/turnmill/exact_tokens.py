"""Exact token counts in an agent's process, where the workers' vocabulary happens to be installed.

Only asked when an upper bound puts a system prompt or tools in doubt: they would be more than half
of the hard limit. Loading a vocabulary takes a tenth of a second and 70 MB.
"""

from __future__ import annotations

from turnmill.contract.encodings import file_of
from turnmill.contract.policy import Policy
from turnmill.contract.render import system_message
from turnmill.contract.tools import Tools, count_tools, tools_body

__all__ = ["exact_tokens"]


def exact_tokens(
    system_prompt: str | None, tools: Tools | None, policy: Policy | None
) -> tuple[int, int] | None:
    """Tokens of both by the policy's encoding, 0 for what there is none of.

    None without a vocabulary; the folder of tokenizer files is known to workers alone.
    """
    encoding = (policy or Policy()).encoding
    if file_of(encoding):
        return None
    try:
        from turnmill_worker.tokens import count_message, counter_for  # noqa: PLC0415 - optional
    except ImportError:
        return None
    counter = counter_for(encoding)
    if counter.basis.startswith("heuristic"):
        return None
    system = count_message(counter, system_message(system_prompt)) if system_prompt else 0
    return system, count_tools(counter.count, tools_body(tools or ()))
