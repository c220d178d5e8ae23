"""Writes docs/settings.md from the workers' ``Settings``; with ``--check`` it only compares."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from turnmill_worker.settings import Settings

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"
KINDS: Final[Mapping[Any, str]] = {
    bool: "`true` or `false`",
    float: "number",
    int: "whole number",
    Path: "path",
    Path | None: "path",
    SecretStr: "secret",
    str: "text",
}
BOUNDS: Final = {Gt: ("gt", "more than"), Ge: ("ge", "at least"), Le: ("le", "at most")}
HEAD: Final = """\
# Settings of the workers

<!-- Written by `make pages` from the docstring of turnmill_worker.settings.Settings: edit that. -->

A worker reads these variables from its environment once, when it starts. Give all workers of a
deployment the same values. A value that is not allowed stops the worker; its message names the
variable and never the value. In brackets stand what may be given, and the default. Empty and 0 mean
none or no limit, unless a line says more. A file with a secret is read when the secret is not given
itself.

"""


def meanings() -> dict[str, str]:
    """What the docstring says of each attribute."""
    _, _, attributes = inspect.cleandoc(Settings.__doc__ or "").partition("Attributes:\n")
    entry = r"(?ms)^ {4}(\w[\w, ]*): (.*?)(?=^ {4}\w|\Z)"
    return {
        name: " ".join(text.replace("``", "`").split())
        for names, text in re.findall(entry, attributes)
        for name in names.split(", ")
    }


def value(field: FieldInfo) -> str:
    """What may be given."""
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(field.annotation))
    bounds = [
        f"{words} {getattr(bound, attribute):g}"
        for bound in field.metadata
        for attribute, words in [BOUNDS[type(bound)]]
    ]
    return ", ".join([KINDS[field.annotation], *bounds])


def default(field: FieldInfo) -> str:
    """What holds when nothing is given."""
    given = field.get_default()
    plain = given.get_secret_value() if isinstance(given, SecretStr) else given
    shown = str(plain).lower() if isinstance(plain, bool) else str(plain or "")
    return f"`{shown or plain}`" if shown or plain == 0 else "empty"


def page() -> str:
    """The whole page; ends the program where docstring and fields differ."""
    told, fields = meanings(), Settings.model_fields
    if odd := told.keys() ^ fields.keys():
        sys.exit(f"the docstring of Settings has too much or too little: {', '.join(sorted(odd))}")
    prefix = Settings.model_config.get("env_prefix", "")
    return HEAD + "".join(
        f"- `{f'{prefix}{name}'.upper()}` ({value(field)}; {default(field)}): {told[name]}\n"
        for name, field in fields.items()
    )


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/settings.md is not what `make pages` writes")
