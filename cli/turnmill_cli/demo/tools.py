"""The demo's tools: they really look at files, those of the installed standard library."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from turnmill_cli.output import count

__all__ = ["ROOT", "TOOLS", "packages", "run_tool"]

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
    return "\n".join([*numbered, f"[{rest} more lines]"] if rest > 0 else numbered)


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
