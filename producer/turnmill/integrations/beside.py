"""What a request holds beside its messages: it counts, so sessions are told of it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Beside", "function"]


class Beside(NamedTuple):
    """The system prompt and the schemas of the tools."""

    prompt: str = ""
    tools: tuple[dict[str, Any], ...] = ()

    def since(self, told: Beside) -> dict[str, Any]:
        """The arguments of ``open`` for a session that was told ``told``; None leaves what it has.

        Without a prompt the session's stays: a request may have its prompt elsewhere.
        """
        tools = None if self.tools == told.tools else self.tools
        return {"system_prompt": self.prompt or None, "tools": tools}


def function(name: str, description: str, parameters: object) -> dict[str, Any]:
    """The schema of a tool, as OpenAI's chat completions have it."""
    told = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": told}
