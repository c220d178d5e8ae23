"""Functions stay short: what is longer is in sizes.toml, and may only become shorter."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("sizes.toml")
ROOTS = ("producer", "worker", "cli", "benchmarks", "examples", "tests", "tools")
LONGEST = 40
GENERATED = "producer/turnmill/client/_sync/"  # as long as what it is generated from
AS_WRITTEN = ("benchmarks/boards/other_shapes.py", "benchmarks/boards/regular_work.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, inside: str) -> Iterator[tuple[str, int]]:
    """Every function in it: its path, and its lines."""
    for child in ast.iter_child_nodes(node):
        path = f"{inside}:{child.name}" if isinstance(child, Function | ast.ClassDef) else inside
        if isinstance(child, Function):
            yield path, (child.end_lineno or child.lineno) - child.lineno + 1
        yield from functions(child, path)


def too_long() -> dict[str, int]:
    """All functions that are longer than they should be, in lines."""
    found: dict[str, int] = {}
    for file in sorted(path for root in ROOTS for path in (REPOSITORY / root).rglob("*.py")):
        path = str(file.relative_to(REPOSITORY))
        if not path.startswith(GENERATED) and path not in AS_WRITTEN:
            found |= dict(sorted(functions(ast.parse(file.read_text()), path)))
    return {name: lines for name, lines in found.items() if lines > LONGEST}


def noted() -> Mapping[str, int]:
    """What is longer and may be, for now."""
    allowed: Mapping[str, int] = tomllib.loads(TABLE.read_text())["functions"]
    return allowed


def written(sizes: Mapping[str, int]) -> str:
    """The table as TOML."""
    rows = [f'"{name}" = {lines}' for name, lines in sizes.items()]
    head = ["# `make sizes` lowers these numbers; nothing raises them.", "", "[functions]"]
    return "\n".join([*head, *rows, ""])


def test_no_function_grows_and_what_shrank_is_noted() -> None:
    now, allowed = too_long(), noted()
    grown = {name: n for name, n in now.items() if n > allowed.get(name, LONGEST)}
    shrunk = {name: now.get(name, 0) for name, n in allowed.items() if now.get(name, 0) < n}

    assert not grown, f"longer than sizes.toml allows, which is {LONGEST} unless it says more"
    assert not shrunk, "shorter than sizes.toml says: `make sizes` lowers it"


if __name__ == "__main__":
    before = noted()
    TABLE.write_text(written({k: min(n, before[k]) for k, n in too_long().items() if k in before}))
