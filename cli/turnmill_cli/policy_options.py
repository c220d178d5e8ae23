"""The options a policy is put together from, for every command that takes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill_cli.output import CommandFailed

if TYPE_CHECKING:
    from turnmill.contract.policy import Policy

__all__ = [
    "Fields",
    "MaxTokens",
    "PolicyNameOrFile",
    "PolicyOptions",
    "Preset",
    "PresetName",
    "no_names",
    "text_of",
]


class Preset(StrEnum):
    """The policies of the five specifications, as ``Policy`` has them."""

    IMAGE_HISTORY = "image_history"
    SLIDING_WINDOW = "sliding_window"
    MANAGED = "managed"
    LONG_RUNNING = "long_running"
    ITERATIONS = "iterations"


PolicyNameOrFile = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME|FILE",
        help="One of the namespace's by name, or a JSON file: a path with a / or ending in .json.",
        show_default=False,
    ),
]
PresetName = Annotated[
    Preset | None, typer.Option("--preset", help="A ready-made policy to begin with.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="The hard limit; the rest of the policy stays.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Any field of the policy, VALUE as JSON; repeatable."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What was given on the command line."""

    policy: str = ""
    preset: Preset | None = None
    max_tokens: int | None = None
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.policy and self.preset:
            raise typer.BadParameter("cannot be combined with --preset", param_hint="--policy")

    @property
    def given(self) -> bool:
        """Whether any was."""
        return bool(self.policy or self.preset or self.overrides)

    @property
    def name(self) -> str:
        """The namespace's policy to be followed; ``""`` when the options make one of their own."""
        return "" if self.overrides or _is_file(self.policy) else self.policy

    @property
    def overrides(self) -> dict[str, Any]:
        """Single fields, by name."""
        found = dict(map(_field, self.fields))
        return found if self.max_tokens is None else {**found, "max_tokens": self.max_tokens}

    def build(self, present: Callable[[], Policy], named: Callable[[str], Policy]) -> Policy:
        """The policy they make of what is there.

        Raises:
            InvalidPolicy: names the field.
            UnknownPolicy: the namespace has none of this name.
        """
        from turnmill.contract.policy import Policy  # noqa: PLC0415

        if self.preset:
            preset: Policy = getattr(Policy, self.preset.value)(**self.overrides)
            return preset
        if _is_file(self.policy):
            base = Policy.from_json(text_of(Path(self.policy), "--policy"))
        else:
            base = named(self.policy) if self.policy else present()
        return Policy(**{**base.model_dump(), **self.overrides}) if self.overrides else base


def _is_file(policy: str) -> bool:
    return "/" in policy or policy.endswith(".json")


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--set")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value  # a word needs no quotes


def text_of(path: Path, option: str) -> str:
    """The file's text.

    Raises:
        typer.BadParameter: names the option, the file and the reason.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise typer.BadParameter(f"{path}: {reason}", param_hint=option) from None


def no_names(name: str) -> Policy:
    """For commands without a namespace to look a name up in.

    Raises:
        CommandFailed: always.
    """
    raise CommandFailed(f"--policy {name}: not a file here: give a path with a / or one in .json")
