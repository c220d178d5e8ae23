"""The agents' process: ``python -m benchmarks.steps.agents NAME LOAD``.

Says ``ready`` once it is warm, begins at a line on its standard input, prints what it saw, and ends
at the next line: whoever started it can look at its CPU time before each.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
from dataclasses import asdict

from benchmarks.steps.load import Load, Memory, run, warm_up

PEERS = {
    "pydantic-ai-harness": "pydantic_ai_harness:foreground",
    "pydantic-ai-harness background": "pydantic_ai_harness:background",
    "langchain": "langchain_middleware:memory",
    "langmem": "langmem_summary:memory",
    "openai-agents": "openai_agents:memory",
}
HOMES = {
    "floor": "benchmarks.steps.floor:memory",
    "turnmill": "benchmarks.steps.turnmill_memory:memory",
    "turnmill counting": "benchmarks.steps.turnmill_memory:counting",
    **{name: f"benchmarks.steps.peers.{home}" for name, home in PEERS.items()},
}
"""What is compared, and the module and function that make it."""

WARM_TURNS = 40


def made(name: str, load: Load) -> Memory:
    """The memory of this name; its packages are imported only now."""
    module, _, function = HOMES[name].partition(":")
    memory: Memory = getattr(importlib.import_module(module), function)(load)
    return memory


async def main(name: str, load: Load) -> None:
    """Warm up, wait, run, tell."""
    memory = made(name, load)
    await warm_up(memory, WARM_TURNS)
    loop = asyncio.get_running_loop()
    go: asyncio.Future[None] = loop.create_future()
    running = asyncio.create_task(run(memory, load, go))
    await asyncio.sleep(1)  # all sessions are open and their turns made
    gc.collect()
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    go.set_result(None)
    outcome = await running
    print("done", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    outcome.notes |= await memory.finish(outcome.notes.pop("sessions"))
    outcome.blocked_ms = [round(each, 3) for each in outcome.blocked_ms]
    print(json.dumps(asdict(outcome)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Load.from_json(sys.argv[2])))
