"""How far data walks through the code: files, functions and nested frames of single calls.

``python -m benchmarks.walk [--list]`` starts a redis-server of its own and runs the worker's stages
in this process. A walk is a call made the second time, on another session: imports and caches of
the first do not count, nor do frames of libraries. Columns are source files of turnmill and
turnmill_worker that a frame ran in; functions by name, so that all comprehensions of a file are
one; functions and methods by qualified name, comprehensions left out; most frames at once.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill_worker.ports.values import SessionRef

WALKS = ("push", "read", "estimate", "compact", "summarize")
MOST_ROUNDS = 200


class Walk:
    """Where one call went: (module, name, qualified name) of each function, and how deep."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()
        self.depth = 0

    def of(self, call: Callable[..., Any], *args: object) -> Any:
        """What the call returns."""
        sys.setprofile(self._note)
        try:
            return call(*args)
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and _is_ours(frame):
            code = frame.f_code
            self.seen.add((frame.f_globals["__name__"], code.co_name, code.co_qualname))
            self.depth = max(self.depth, sum(_is_ours(each) for each, _ in walk_stack(frame)))

    @property
    def row(self) -> tuple[int, int, int, int]:
        """Files, functions, defs and depth."""
        functions = {(module, name) for module, name, _ in self.seen}
        defs = {(module, full) for module, name, full in self.seen if not name.startswith("<")}
        return len({module for module, _ in functions}), len(functions), len(defs), self.depth


def _is_ours(frame: FrameType) -> bool:
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    # Code of a library's making, such as a dataclass' methods, has no file.
    return package in {"turnmill", "turnmill_worker"} and frame.f_code.co_filename[0] != "<"


def walks(url: str, folder: str) -> dict[str, Walk]:
    """The second walk of each kind; this process's worker is set up for the Redis at ``url``."""
    for name in [name for name in os.environ if name.startswith("TURNMILL_")]:
        del os.environ[name]
    os.environ |= {"TURNMILL_REDIS_URL": url, "TURNMILL_DATA_DIR": folder}
    app = import_module("turnmill_worker.app").app
    pipeline = import_module("turnmill_worker.wiring").parts(app).pipeline
    with ContextClient(url) as client:
        for time in ("first", "second"):
            found: defaultdict[str, Walk] = defaultdict(Walk)
            chat = SessionRef(client.namespace, f"chat-{time}")  # type: ignore[arg-type]
            found["push"].of(client.push, chat.session, _fill(client, pipeline, chat, 1))
            found["estimate"].of(pipeline.estimate, chat)
            logs = SessionRef(client.namespace, f"logs-{time}")  # type: ignore[arg-type]
            _fill(client, pipeline, logs, 30)
            done = found["compact"].of(pipeline.compact, logs)
            written = found["summarize"].of(pipeline.summarize, chat)
            if (done.strategy, written.strategy) != ("elide", "rolling") or not written.version:
                raise SystemExit(f"not what was to be measured: {done!r}, {written!r}")
            found["read"].of(client.read, chat.session)
    return found


def _fill(client: ContextClient, pipeline: Any, ref: SessionRef, lines: int) -> Any:
    """Push above the soft limit, all counted; returns a turn with a tool call for the next push."""
    client.open(ref.session, system_prompt="You are a careful engineer who keeps a shop running.")
    for at in range(MOST_ROUNDS):
        client.push_many((ref.session, turn) for turn in _turns(at, lines))
        pipeline.estimate(ref)
        info = client.info(ref.session)
        if info.usage.total > info.limits.soft:
            return _turns(at + 1, lines)[1]
    raise SystemExit(f"{ref.session} is within its soft limit after {MOST_ROUNDS} rounds")


def _turns(at: int, lines: int) -> list[list[dict[str, Any]]]:
    """A request with facts in it, a tool's result of so many lines, and an answer."""
    page = ("billing", "search", "login", "exports", "reports", "invoices", "webhooks")[at % 7]
    asked = f"Make {page} of customer C-{4100 + at} faster. Don't touch src/{page}/schema.sql."
    call = {"name": "run", "arguments": f'{{"command": "pytest -k {page}"}}'}
    calls = [{"id": f"call-{at}", "type": "function", "function": call}]
    told = [f"FAILED test_{page}.py::test_{n} - TimeoutError: {at + n} ms" for n in range(lines)]
    result = {"role": "tool", "content": "\n".join(told), "tool_call_id": f"call-{at}"}
    answer = (
        f"The test failed with a TimeoutError. I decided to cache the {page} query because the "
        f"database is slow; version 2.{at}.1 is planned for 2024-03-{at % 28 + 1:02d}."
    )
    return [
        [{"role": "user", "content": asked}],
        [{"role": "assistant", "content": f"I test {page}.", "tool_calls": calls}, result],
        [{"role": "assistant", "content": answer}],
    ]


def main() -> None:
    """Print the table, and with ``--list`` the modules of each walk."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis(Path(folder, "redis")) as server:
        found = walks(server.url, folder)
    print(f"{'walk':<10}{'files':>7}{'functions':>11}{'defs':>6}{'depth':>7}")
    for name in WALKS:
        print("{:<10}{:>7}{:>11}{:>6}{:>7}".format(name, *found[name].row))
    for name in WALKS if "--list" in sys.argv[1:] else ():
        print("", name, *sorted({f"  {module}" for module, _, _ in found[name].seen}), sep="\n")


if __name__ == "__main__":
    main()
