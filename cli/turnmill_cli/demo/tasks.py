"""The demo's tasks: what a user asks for, and how an agent goes about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from turnmill_cli.demo.tools import packages
from turnmill_cli.demo.workbench import Call, Script, Workbench
from turnmill_cli.output import count

__all__ = ["TASKS", "Task"]

Task = Callable[[Workbench, Random], Script]

_MODULES = ("re", "os", "sys", "io", "functools", "collections", "warnings", "types", "itertools")
_MARKS = ("TODO", "XXX", "deprecated", "DeprecationWarning", "pragma: no cover")


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
    yield from bench.say("assistant", _report(largest, bench.seen(outlines)))
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
    yield from bench.say("assistant", _report(files, bench.seen(ids)))


def find_uses(bench: Workbench, random: Random) -> Script:
    """Where something a module defines is used in its package."""
    package = random.choice(packages())
    yield from bench.say(
        "user", f"Pick a public function or class of `{package}` and show me who uses it."
    )
    search = ("search_text", {"pattern": r"^(def|class) [A-Za-z]\w+", "path": package})
    (found,) = yield from bench.call("Looking for definitions.", search)
    text = yield from bench.recall(found, search)
    defined = re.findall(r"^(\S+\.py):(\d+): (?:async def|def|class) (\w+)", text, re.MULTILINE)
    if not defined:
        yield from bench.say("assistant", f"`{package}` defines nothing at the top level.")
        return
    file, line, name = random.choice(defined)
    uses = ("search_text", {"pattern": rf"\b{name}\b", "path": package})
    around = ("read_file", {"path": file, "start": max(int(line) - 5, 1)})
    ids = yield from bench.call(f"Looking at `{name}` and its uses.", around, uses)
    users = yield from bench.recall(ids[1], uses)
    others = sorted(set(re.findall(r"^(\S+\.py):", users, re.MULTILINE)) - {file})[:3]
    for other in others:
        yield from bench.call(f"{other} uses it:", _call("read_file", other))
    names = ", ".join(others) or "no other module"
    yield from bench.say("assistant", f"`{name}` is defined in {file}:{line} and used by {names}.")


def audit(bench: Workbench, random: Random) -> Script:
    """What a package's authors left marked, with the code around the marks."""
    package, mark = random.choice(packages()), random.choice(_MARKS)
    yield from bench.say("user", f"Which places in `{package}` are marked `{mark}`, and why?")
    search = ("search_text", {"pattern": re.escape(mark), "path": package})
    (found,) = yield from bench.call("", search)
    text = yield from bench.recall(found, search)
    places = re.findall(r"^(\S+\.py):(\d+): (.*)$", text, re.MULTILINE)
    for file, line, _ in random.sample(places, min(3, len(places))):
        page = ("read_file", {"path": file, "start": max(int(line) - 20, 1)})
        yield from bench.call(f"What stands around {file}:{line}?", page)
    lines = [f"- {file}:{line}: {what[:80]}" for file, line, what in places[:12]]
    yield from bench.say("assistant", "\n".join(lines) or f"Nothing in `{package}` is.")


TASKS: tuple[Task, ...] = (who_imports, survey, find_uses, audit)


def _call(name: str, path: str) -> Call:
    return name, {"path": path}


def _largest(counts: list[str], files: list[str]) -> list[str]:
    """The three largest by the counts still in the context; the first three without any."""
    known = re.findall(r"^(\S+): (\d+) lines$", "\n".join(counts), re.MULTILINE)
    ordered = [file for file, lines in sorted(known, key=lambda entry: (-int(entry[1]), entry[0]))]
    return (ordered or files)[:3]


def _report(files: list[str], outlines: list[str]) -> str:
    """An answer made of the outlines the context still has."""
    names = re.findall(r"^\d+: (?:def|class) ([A-Za-z]\w*)", "\n".join(outlines), re.MULTILINE)
    listed = ", ".join(names[:40]) or "nothing public that I can still see"
    return f"I looked at {', '.join(files)}. They define {listed}."
