"""``turnmill demo``: concurrent tool-using agents through the whole pipeline, without a key.

An agent chooses its next step by the context it read: it picks files from a listing that it finds
there, as the result of a tool. If a compaction has left the listing out, the agent asks the tool
again, as a model would.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sysconfig
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from turnmill import Context
from turnmill.contract.context import JsonMessage
from turnmill.contract.plural import count
from turnmill.contract.policy import Policy
from turnmill_cli.local.processes import LocalPipeline, local_pipeline
from turnmill_cli.options import JsonFlag, setting
from turnmill_cli.output import print_note
from turnmill_cli.progress import progress
from turnmill_cli.replay import ReplaySettings, report, run_agents
from turnmill_cli.running import UP_DATA_DIR, running_in

# --- tools: they really look at files, those of the installed standard library --------------------

ROOT = Path(sysconfig.get_path("stdlib"))
"""Paths given to tools are relative to it."""

MOST_LINES = 120
MOST_MATCHES = 40
_SKIPPED = {"__pycache__", "site-packages", "test", "tests", "idlelib", "lib-dynload"}


class ToolError(ValueError):
    """What a tool answers when it cannot do what it was asked."""


def list_dir(path: str) -> str:
    """Names and sizes of the Python files in a directory, folders with a slash."""
    folder = _existing(path)
    if not folder.is_dir():
        raise ToolError(f"{path} is not a directory")
    lines = []
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and entry.name not in _SKIPPED:
            lines.append(f"{entry.relative_to(ROOT)}/")
        elif entry.suffix == ".py":
            lines.append(f"{entry.relative_to(ROOT)}  {entry.stat().st_size} bytes")
    return "\n".join(lines)


def read_file(path: str, start: int = 1) -> str:
    """Up to 120 numbered lines of a file, from line ``start``."""
    lines = _text(_file(path)).splitlines()
    shown = lines[start - 1 : start - 1 + MOST_LINES]
    numbered = [f"{number:5} {line}" for number, line in enumerate(shown, start)]
    rest = len(lines) - (start - 1 + len(shown))
    return "\n".join([*numbered, f"[{count(rest, 'more line')}]"] if rest > 0 else numbered)


def search_text(pattern: str, path: str) -> str:
    """Lines that match a regular expression, in a file or in all Python files under a folder."""
    wanted = re.compile(pattern)
    found = []
    for file in _python_files(_existing(path)):
        text = _text(file)
        if wanted.search(text) is None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if wanted.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
                if len(found) == MOST_MATCHES:
                    return "\n".join([*found, f"[only the first {MOST_MATCHES} matches]"])
    return "\n".join(found)


def count_lines(path: str) -> str:
    """How many lines a file has."""
    return f"{path}: {count(len(_text(_file(path)).splitlines()), 'line')}"


def outline(path: str) -> str:
    """A file's classes and functions with their lines, from its syntax tree."""
    lines = []
    for node in _tree(_file(path)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.append(f"{node.lineno}: def {node.name}({_arguments(node)})")
        elif isinstance(node, ast.ClassDef):
            lines.append(f"{node.lineno}: class {node.name}")
            lines += [
                f"{method.lineno}:   def {method.name}({_arguments(method)})"
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
    return "\n".join(lines) or f"{path} defines nothing"


TOOLS: Mapping[str, Callable[..., str]] = {
    tool.__name__: tool for tool in (list_dir, read_file, search_text, count_lines, outline)
}


def run_tool(name: str, arguments: Mapping[str, Any]) -> str:
    """The tool's answer, or its error as text: a model gets to read both."""
    try:
        return TOOLS[name](**arguments)
    except ToolError as error:
        return f"error: {error}"


@lru_cache(maxsize=1)
def packages() -> tuple[str, ...]:
    """The standard library's packages that have at least four modules, sorted."""
    return tuple(
        folder.name
        for folder in sorted(ROOT.iterdir())
        if folder.is_dir()
        and folder.name.isidentifier()
        and folder.name not in _SKIPPED
        and len(_python_files(folder)) >= 4  # noqa: PLR2004 - fewer make no task
    )


def _existing(path: str) -> Path:
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT.resolve()) or not found.exists():
        raise ToolError(f"there is no {path}")
    return ROOT / path


def _file(path: str) -> Path:
    found = _existing(path)
    if not found.is_file():
        raise ToolError(f"{path} is not a file")
    return found


@lru_cache(maxsize=2048)
def _python_files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    return tuple(
        file
        for file in sorted(path.rglob("*.py"))
        if not _SKIPPED.intersection(file.relative_to(path).parts)
    )


@lru_cache(maxsize=2048)
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@lru_cache(maxsize=256)
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ", ".join(argument.arg for argument in node.args.args)


# --- what an agent works with ---------------------------------------------------------------------

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


# --- tasks: what a user asks for, and how an agent goes about it ----------------------------------

Task = Callable[[Workbench, Random], Script]

_MODULES = ("re", "os", "sys", "io", "functools", "collections", "warnings", "types", "itertools")


def who_imports(bench: Workbench, random: Random) -> Script:
    """Which modules of a package import another one; the three largest are read."""
    package, module = random.choice(packages()), random.choice(_MODULES)
    yield from bench.say(
        "user",
        f"Find every module in `{package}` that uses `{module}`, read the three largest of them "
        "and report their public functions.",
    )
    search = ("search_text", {"pattern": rf"^\s*(import|from) {module}\b", "path": package})
    (found,) = yield from bench.call(f"Searching {package} for imports of {module}.", search)
    matches = yield from bench.recall(found, search)
    files = sorted(set(re.findall(r"^(\S+\.py):\d+:", matches, re.MULTILINE)))[:6]
    if not files:
        yield from bench.say("assistant", f"No module in `{package}` imports `{module}`.")
        return
    counted = yield from bench.call("", *(_call("count_lines", file) for file in files))
    largest = _largest(bench.seen(counted), files)
    outlines = yield from bench.call("Their outlines:", *(_call("outline", f) for f in largest))
    for file in largest:
        yield from bench.call(f"Reading the beginning of {file}.", _call("read_file", file))
    yield from bench.say("assistant", _answer(largest, bench.seen(outlines)))
    yield from bench.say("user", "How many lines import it, and in how many modules?")
    matches = yield from bench.recall(found, search)  # from many steps ago, if it is still there
    lines = [line for line in matches.splitlines() if ".py:" in line]
    modules = {line.partition(":")[0] for line in lines}
    found = f"{count(len(lines), 'line')} in {count(len(modules), 'module')}."
    yield from bench.say("assistant", found)


def survey(bench: Workbench, random: Random) -> Script:
    """What a package consists of, and what its largest module does."""
    package = random.choice(packages())
    yield from bench.say("user", f"Give me an overview of the package `{package}`.")
    listing = _call("list_dir", package)
    (listed,) = yield from bench.call(f"Listing {package}.", listing)
    text = yield from bench.recall(listed, listing)
    sized = re.findall(r"^(\S+\.py)  (\d+) bytes", text, re.MULTILINE)
    sizes = {file: int(size) for file, size in sized}
    files = sorted(sizes, key=lambda file: (-sizes[file], file))[:4]
    ids = yield from bench.call("", *(_call("outline", file) for file in files))
    for start in (1, 121, 241):
        page = ("read_file", {"path": files[0], "start": start})
        yield from bench.call(f"Reading {files[0]} from line {start}.", page)
    yield from bench.say("user", "And its second largest module?")
    yield from bench.recall(listed, listing)
    yield from bench.call("", _call("read_file", files[min(1, len(files) - 1)]))
    yield from bench.say("assistant", _answer(files, bench.seen(ids)))


TASKS: tuple[Task, ...] = (who_imports, survey)


def _call(name: str, path: str) -> Call:
    return name, {"path": path}


def _largest(counts: list[str], files: list[str]) -> list[str]:
    """The three largest by the counts still in the context; the first three without any."""
    known = re.findall(r"^(\S+): (\d+) lines$", "\n".join(counts), re.MULTILINE)
    ordered = [file for file, lines in sorted(known, key=lambda entry: (-int(entry[1]), entry[0]))]
    return (ordered or files)[:3]


def _answer(files: list[str], outlines: list[str]) -> str:
    """An answer made of the outlines the context still has."""
    names = re.findall(r"^\d+: (?:def|class) ([A-Za-z]\w*)", "\n".join(outlines), re.MULTILINE)
    listed = ", ".join(names[:40]) or "nothing public that I can still see"
    return f"I looked at {', '.join(files)}. They define {listed}."


# --- agents ---------------------------------------------------------------------------------------

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


# --- the command ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline that the agents work with."""

    workers: Annotated[int, typer.Option(min=1, help="Worker processes to start.")] = 2
    flower: Annotated[bool, typer.Option(help="Run Flower, which shows the jobs.")] = True
    data_dir: Annotated[
        Path, setting("--data-dir", "DIR", "Of the `turnmill up` to join.", panel="", shown=True)
    ] = UP_DATA_DIR
    alone: Annotated[
        bool, typer.Option("--alone", help="Join no `turnmill up`: start everything anew.")
    ] = False

    @contextmanager
    def running(self) -> Iterator[LocalPipeline]:
        """That of a `turnmill up`, or one for as long as the block."""
        joined = None if self.alone else running_in(self.data_dir)
        if joined:
            print_note(f"Joining the `turnmill up` at {joined.redis_url} …")
            yield LocalPipeline(joined.redis_url, flower_url=joined.flower_url)
            return
        print_note(f"Starting Redis and {count(self.workers, 'worker')} …")
        with local_pipeline(workers=self.workers, flower=self.flower) as running:
            yield running


def demo(
    *,
    pipeline: PipelineOptions,
    agents: Annotated[int, typer.Option(min=1, help="Agents at a time.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each agent, at least.")] = 200,
    pace: Annotated[
        int,
        typer.Option(min=0, metavar="MS", help="Pause between an agent's steps, as if it thought."),
    ] = 200,
    max_tokens: Annotated[int, typer.Option(help="The policy's hard limit.")] = 8000,
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Keep the sessions, and what it started until Ctrl-C."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run scripted agents that really work with tools, and check every context they read.

    They explore the standard library of this Python. Exits with 1 if a promise was broken; the
    checks are those of `turnmill replay`. Where `turnmill up` runs in the same folder, its workers
    do the work and its Flower shows it; else the demo starts all it needs.
    """
    crowd = [ScriptedAgent(index, steps=steps) for index in range(1, agents + 1)]
    with pipeline.running() as running:
        print_note(f"Flower: {running.flower_url or 'not started'}")
        settings = ReplaySettings(
            redis_url=running.redis_url,
            namespace=_namespace(stays=hold and not running.supervisor),
            policy=Policy(max_tokens=max_tokens),
            at_once=agents,
            pace_s=pace / 1000,
            keep=hold,
        )
        with progress(count(agents, "agent"), agents * steps) as on_steps:
            found = run_agents(settings, crowd, on_steps=on_steps)
        report(found, title=f"demo: {count(agents, 'agent')}", as_json=as_json, dead=running.dead)
        _say_how_reads_were_used(crowd)
        if hold:
            _hold(running, f"--namespace {settings.namespace}")
    raise typer.Exit(0 if found.ok else 1)


def _namespace(*, stays: bool) -> str:
    """Sessions that stay at a `turnmill up` must not be in the way of its next demo."""
    return f"demo-{os.getpid()}" if stays else "demo"


def _say_how_reads_were_used(crowd: Sequence[ScriptedAgent]) -> None:
    found = sum(agent.workbench.found for agent in crowd)
    again = sum(agent.workbench.asked_again for agent in crowd)
    print_note(
        f"{found:,} times an agent chose its next step by a tool result that it read back. "
        f"{again:,} times the result was no longer whole, and the agent asked the tool again."
    )


def _hold(running: LocalPipeline, options: str) -> None:
    """Say how to look at the sessions; what the demo started stays until Ctrl-C."""
    if running.supervisor:
        options += f" --redis-url {running.redis_url}"
    print_note(f"The sessions stay. List them: turnmill sessions {options}")
    print_note(f"Make a page of one: turnmill visualize agent-01 {options}")
    if not running.supervisor:
        return
    print_note(f"Redis: {running.redis_url}   Flower: {running.flower_url or 'not started'}")
    print_note("Ctrl-C ends both.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print_note("Ending …")
