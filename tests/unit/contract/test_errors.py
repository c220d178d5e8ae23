"""One tree of errors, and its drawing."""

from __future__ import annotations

import inspect
import re

import turnmill
from turnmill.contract import errors

ALL = [name for name, each in vars(errors).items() if isinstance(each, type)]
DRAWN = re.compile(r"^[ │]*(?:├── |└── )?(\w+)(?: \((\w+)\))?(?:  .*)?$")


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Each error in the docstring's tree, with its parent in it and its builtin base."""
    tree = (errors.__doc__ or "").partition("::\n\n")[2].partition("\n\n")[0]
    found: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in tree.splitlines():
        matched = DRAWN.match(line)
        assert matched, line
        depth = (matched.start(1) - 4) // 4
        path[depth:] = [matched[1]]
        found[matched[1]] = (path[depth - 1] if depth else None, matched[2])
    return found


def test_the_drawing_shows_every_error_and_no_other() -> None:
    assert sorted(drawn()) == sorted(ALL)


def test_every_error_has_the_parents_it_is_drawn_with() -> None:
    for name, (parent, builtin) in drawn().items():
        bases = [base.__name__ for base in getattr(errors, name).__bases__]
        assert bases == [each for each in (parent or "Exception", builtin) if each]


def test_every_error_is_public() -> None:
    assert set(ALL) <= set(turnmill.__all__)


def test_every_error_says_what_it_means() -> None:
    assert all(inspect.getdoc(getattr(errors, name)) for name in ALL)
