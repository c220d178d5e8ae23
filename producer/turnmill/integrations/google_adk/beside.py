"""What ADK's requests hold beside the session's turns: tools, and fences around others' words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.genai import types

from turnmill.integrations.beside import function

__all__ = ["fence_tokens", "is_told", "more_fences", "tools_of"]

_TOLD: Final = "For context: "
"""How ADK begins what it tells an agent of others."""

_OPENING: Final = 90
"""Tokens of what ADK says before it: 83 in o200k_base, measured."""

_FENCE: Final = 40
"""Tokens around each part: 25 to 34 with short names of agents and tools, measured."""

_STEP: Final = 256
"""Fences are reckoned in steps: what a projection shows changes with them."""


def fence_tokens(contents: Sequence[types.Content]) -> int:
    """The tokens that fences in the contents have at most, a little more; 0 without any."""
    told = [content.parts or [] for content in contents if is_told(content)]
    tokens = sum(_OPENING + _FENCE * (len(parts) - 1) for parts in told)
    return -(-tokens // _STEP) * _STEP


def more_fences(reckoned: int, found: int) -> int:
    """What to reckon with next: not all that were found, for a smaller context has fewer."""
    return reckoned + max((found - reckoned) // (4 * _STEP), 1) * _STEP


def is_told(content: types.Content) -> bool:
    """Whether it is what ADK tells an agent of another one."""
    parts = content.parts or []
    return bool(parts) and (parts[0].text or "").startswith(_TOLD)


def tools_of(config: types.GenerateContentConfig) -> list[dict[str, Any]]:
    """The schemas of a request's tools, as turnmill counts them."""
    found: list[dict[str, Any]] = []
    for tool in config.tools or ():
        if not isinstance(tool, types.Tool):
            continue
        for each in tool.function_declarations or ():
            schema = each.parameters_json_schema or (
                each.parameters.model_dump(mode="json", exclude_none=True)
                if each.parameters
                else {}
            )
            found.append(function(each.name or "", each.description or "", schema))
        others = tool.model_dump(exclude={"function_declarations"}, exclude_none=True)
        # What runs at the provider has no schema here.
        found += [{"type": name} for name in others]
    return found
