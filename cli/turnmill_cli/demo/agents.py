"""The demo's agents: real tool work and real decisions, by a script where a model would be.

An agent chooses its next step by the context it read: it picks files from a listing that it finds
there, as the result of a tool. If a compaction has left the listing out, the agent asks the tool
again, as a model would.
"""

from __future__ import annotations

from random import Random

from turnmill import Context
from turnmill.contract.context import JsonMessage
from turnmill_cli.demo.tasks import TASKS
from turnmill_cli.demo.workbench import Script, Workbench

__all__ = ["ScriptedAgent"]

SYSTEM_PROMPT = """\
You are a careful reader of Python source code. You have the tools list_dir, read_file, search_text,
count_lines and outline; paths are relative to the standard library of this Python. Call several
tools at once when their results do not depend on each other. Answer briefly, and only from what the
tools returned."""


class ScriptedAgent:
    """Does one task after the other until it has taken ``steps`` steps; never stops in a task.

    Two agents of the same index do the same, as long as they read the same.
    """

    def __init__(self, index: int, *, steps: int) -> None:
        self.name = f"agent-{index:02}"
        self.system_prompt = SYSTEM_PROMPT
        self.workbench = Workbench(f"{index:02}")
        self.taken = 0
        self._steps = steps
        self._script = self._work(Random(index))  # noqa: S311 - a script, not a secret

    def next(self, seen: Context | None) -> JsonMessage | None:
        """The next message, decided from the context read last; None when the work is done."""
        try:
            message = next(self._script) if seen is None else self._script.send(seen)
        except StopIteration:
            return None
        self.taken += 1
        return message

    def _work(self, random: Random) -> Script:
        while self.taken < self._steps:
            yield from random.choice(TASKS)(self.workbench, random)
