"""Files and functions stay short: what is longer is in sizes.toml, and may only become shorter."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("sizes.toml")
ROOTS = ("producer", "worker", "cli", "benchmarks", "examples", "tests", "tools")
LONGEST = {"files": 250, "functions": 40}
GENERATED = "producer/turnmill/_sync/"  # as long as what it is generated from

Sizes = Mapping[str, Mapping[str, int]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, inside: str) -> Iterator[tuple[str, int]]:
    """Every function in it: its path, and its lines."""
    for child in ast.iter_child_nodes(node):
        path = f"{inside}:{child.name}" if isinstance(child, Function | ast.ClassDef) else inside
        if isinstance(child, Function):
            yield path, (child.end_lineno or child.lineno) - child.lineno + 1
        yield from functions(child, path)


@cache
def measured() -> Sizes:
    """All that is longer than it should be, in lines."""
    found: dict[str, dict[str, int]] = {"files": {}, "functions": {}}
    for file in sorted(path for root in ROOTS for path in (REPOSITORY / root).rglob("*.py")):
        path, text = str(file.relative_to(REPOSITORY)), file.read_text()
        if not path.startswith(GENERATED):
            found["files"][path] = len(text.splitlines())
            found["functions"] |= dict(sorted(functions(ast.parse(text), path)))
    return {
        kind: {name: lines for name, lines in sizes.items() if lines > LONGEST[kind]}
        for kind, sizes in found.items()
    }


def written(sizes: Sizes) -> str:
    """The table as TOML."""
    parts = [
        "\n".join([f"[{kind}]", *(f'"{name}" = {lines}' for name, lines in entries.items())])
        for kind, entries in sizes.items()
    ]
    return "\n\n".join(["# `make sizes` lowers these numbers; nothing raises them.", *parts, ""])


@pytest.mark.parametrize("kind", LONGEST)
def test_nothing_grows_and_what_shrank_is_noted(kind: str) -> None:
    now, allowed = measured()[kind], tomllib.loads(TABLE.read_text())[kind]
    grown = {name: n for name, n in now.items() if n > allowed.get(name, LONGEST[kind])}
    shrunk = {name: now.get(name, 0) for name, n in allowed.items() if now.get(name, 0) < n}

    assert not grown, f"longer than sizes.toml allows, which is {LONGEST[kind]} unless it says more"
    assert not shrunk, "shorter than sizes.toml says: `make sizes` lowers it"


if __name__ == "__main__":
    noted = tomllib.loads(TABLE.read_text())
    lowered = {
        kind: {name: min(n, noted[kind][name]) for name, n in now.items() if name in noted[kind]}
        for kind, now in measured().items()
    }
    TABLE.write_text(written(lowered))
