"""What a demo agent works with: it says things, calls tools, and looks into the context it read."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from turnmill import Context
from turnmill.contract.context import JsonMessage
from turnmill_cli.demo.tools import run_tool

__all__ = ["Call", "Script", "Workbench"]

Script = Generator[JsonMessage, Context, None]
"""Yields messages to push; is sent the context read after each."""

Call = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments."""


class Workbench:
    """One agent's messages and calls. All it knows is the context it read last.

    Attributes:
        found: how often a result that was looked for was found in the context.
        asked_again: how often it was not, and the tool was asked again.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._calls = 0
        self._context: Context | None = None
        self.found = 0
        self.asked_again = 0

    def say(self, role: str, text: str) -> Script:
        """One message of plain text."""
        self._context = yield {"role": role, "content": text}

    def call(self, thought: str, *calls: Call) -> Generator[JsonMessage, Context, list[str]]:
        """One assistant message that calls tools, in parallel, and each tool's result.

        Returns the calls' ids; the results are looked up in the context by them.
        """
        ids = [self._new_id() for _ in calls]
        self._context = yield {
            "role": "assistant",
            "content": thought or None,
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for call_id, (name, arguments) in zip(ids, calls, strict=True)
            ],
        }
        for call_id, (name, arguments) in zip(ids, calls, strict=True):
            answer = run_tool(name, arguments)
            self._context = yield {"role": "tool", "tool_call_id": call_id, "content": answer}
        return ids

    def recall(self, call_id: str, call: Call) -> Generator[JsonMessage, Context, str]:
        """A result as the context has it; from the tool again if the context lacks part of it."""
        text = self._result(call_id)
        if text is None or "characters removed" in text:
            self.asked_again += 1
            (call_id,) = yield from self.call("That result is no longer before me.", call)
            text = self._result(call_id)
        else:
            self.found += 1
        return text or ""

    def seen(self, call_ids: Sequence[str]) -> list[str]:
        """Those of the results that the context still has, whole or in part."""
        results = (self._result(call_id) for call_id in call_ids)
        return [text for text in results if text is not None]

    def _result(self, call_id: str) -> str | None:
        messages = self._context.messages if self._context else []
        for message in reversed(messages):
            if message.get("tool_call_id") == call_id:
                return str(message["content"])
        return None

    def _new_id(self) -> str:
        self._calls += 1
        return f"call_{self._prefix}_{self._calls}"
