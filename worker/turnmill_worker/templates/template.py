"""A template, and what becomes of it when its placeholders are filled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BUILT_IN", "PLACEHOLDERS", "Rendered", "Slot", "Template", "render"]

BUILT_IN = "built-in"
"""The source of a template that comes with turnmill."""

PLACEHOLDERS = (
    "recent_turns",
    "latest_input",
    "previous_summary",
    "system_prompt",
    "session",
    "reflections",
    "memories",
)
"""The names a template may use; any other renders empty."""

_CLOSING_TAG = re.compile(rf"</(?=\s*(?:{'|'.join(PLACEHOLDERS)})\s*>)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a placeholder stands."""

    name: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Instructions for the model that writes a managed context.

    Attributes:
        name: its file's name without ``.md``.
        source: its file's path, or ``built-in``.
        sha256: of the file's bytes, in hex.
        text: the whole file; lines end with LF only.
        contract: the JSON object the answer should contain, or None. Advisory: it is part of the
            text, and no answer is refused for not following it.
        placeholders: the names it uses, known or not, in order of first use.
        sections: titles of the answer's sections, in order.
        description: its first heading, or else its first paragraph, on one line.
        parts: the text, cut at its placeholders.
    """

    name: str
    source: str
    sha256: str
    text: str = field(repr=False)
    contract: Mapping[str, object] | None = field(hash=False)
    placeholders: tuple[str, ...]
    sections: tuple[str, ...]
    description: str
    parts: tuple[str | Slot, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A template with its placeholders filled.

    Attributes:
        text: the instructions.
        used: the placeholders that had a value, in order of first use. A value that is not among
            them is not in the text.
        sections: titles of the answer's sections, in order.
    """

    text: str = field(repr=False)
    used: tuple[str, ...]
    sections: tuple[str, ...]


def render(template: Template, values: Mapping[str, str]) -> Rendered:
    """The template's text with each placeholder replaced by its value.

    A name without a value, or not in ``PLACEHOLDERS``, becomes empty. Values are inserted once and
    never read as template. A closing tag named like a placeholder (``</recent_turns>``) is broken
    by a backslash in a value, so that a template can put values between such tags and be sure
    where they end. All else in a value stays as it is.
    """
    known = {name: values.get(name, "") for name in PLACEHOLDERS}
    safe = {name: _CLOSING_TAG.sub(r"<\\/", value) for name, value in known.items()}
    filled = (part if isinstance(part, str) else safe.get(part.name, "") for part in template.parts)
    return Rendered(
        text="".join(filled),
        used=tuple(name for name in template.placeholders if known.get(name)),
        sections=template.sections,
    )
