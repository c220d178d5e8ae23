"""The options a policy is made from, for every command that takes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.policy import Policy

__all__ = ["PolicyOptions", "Preset", "text_of"]


class Preset(StrEnum):
    """The policies of the five specifications, as ``Policy`` has them."""

    IMAGE_HISTORY = "image_history"
    SLIDING_WINDOW = "sliding_window"
    MANAGED = "managed"
    LONG_RUNNING = "long_running"
    ITERATIONS = "iterations"


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What was given on the command line, and the options themselves."""

    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME|FILE",
            help="A policy of the namespace by name, or a JSON file: a path that contains a / or "
            "ends in .json.",
            show_default=False,
        ),
    ] = ""
    preset: Annotated[
        Preset | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help=f"Start from a ready-made policy: {', '.join(Preset)}.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="The hard limit. The rest of the policy stays."),
    ] = None
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Set one field of the policy; VALUE is JSON. Can be given several times.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.policy and self.preset:
            raise typer.BadParameter("cannot be combined with --preset", param_hint="--policy")

    @property
    def given(self) -> bool:
        """Whether any option was."""
        return bool(self.policy or self.preset or self.overrides)

    @property
    def name(self) -> str:
        """The policy of the namespace to follow; ``""`` if the options make one of their own."""
        return "" if self.overrides or _is_file(self.policy) else self.policy

    @property
    def overrides(self) -> dict[str, Any]:
        """Single fields, by name."""
        found = dict(map(_field, self.fields or ()))
        return found if self.max_tokens is None else {**found, "max_tokens": self.max_tokens}

    def build(self, present: Callable[[], Policy], named: Callable[[str], Policy]) -> Policy:
        """The policy that the options make of the present one, or of one by name.

        Raises:
            InvalidPolicy: names the field.
            UnknownPolicy: the namespace has no policy of this name.
        """
        if self.preset:
            preset: Policy = getattr(Policy, self.preset.value)(**self.overrides)
            return preset
        if _is_file(self.policy):
            base = _read(Path(self.policy))
        else:
            base = named(self.policy) if self.policy else present()
        return Policy(**{**base.model_dump(), **self.overrides}) if self.overrides else base


def _is_file(policy: str) -> bool:
    return "/" in policy or policy.endswith(".json")


def _read(file: Path) -> Policy:
    try:
        return Policy.from_json(text_of(file, "--policy"))
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{file}: {error}") from None


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
