"""The summary's sections: read strictly, written in one way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONSTRAINTS: Final = "Constraints"
GOAL: Final = "Goal"
WHERE: Final = "Where to look"
SECTIONS: Final = (
    GOAL,
    CONSTRAINTS,
    "Decisions and why",
    "Artifacts and identifiers",
    "State",
    "Errors and fixes",
    "Open questions",
    WHERE,
)

_NONE: Final = "None"
_NOTHING: Final = frozenset({"", "none", "n/a", "nothing", "(none)"})
_KNOWN = {title.lower(): title for title in SECTIONS}
_HEADING = re.compile(r"(?:#{1,6}[ \t]*\*{0,2}|\*\*)([^*\n:]{1,64}?)\*{0,2}:?\*{0,2}[ \t]*$")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"\A```[a-z]{0,12}\n(.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A text taken apart.

    Attributes:
        bodies: by title, what is below it; ``None`` where nothing is.
        missing: titles that are not there.
        extra: headings that should not be there, or are there twice, or text before the first.
    """

    bodies: Mapping[str, str]
    missing: tuple[str, ...] = ()
    extra: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no section says anything."""
        return all(body == _NONE for body in self.bodies.values())


def unwrapped(text: str) -> str:
    """The answer without a model's thoughts before it and a code fence around all of it."""
    thoughts = _THOUGHTS.match(text)
    bare = (text[thoughts.end() :] if thoughts else text).strip()
    fence = _FENCE.match(bare)
    return fence[1].strip() if fence else bare


def parse(text: str) -> Parsed:
    """The text's sections, whatever order and marks of a heading they have."""
    bodies: dict[str, list[str]] = {}
    extra = 0
    body: list[str] | None = None
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        title = _KNOWN.get(heading[1].strip().lower()) if heading else None
        if title is not None:
            extra += title in bodies
            body = bodies.setdefault(title, [])
        elif line.startswith("## ") or (body is None and line.strip()):
            extra += 1
        elif body is not None:
            body.append(line.rstrip())
    return Parsed(
        bodies={title: _body(bodies[title]) for title in SECTIONS if title in bodies},
        missing=tuple(title for title in SECTIONS if title not in bodies),
        extra=extra,
    )


def rendered(parsed: Parsed) -> str:
    """The sections in their order, written as they are committed."""
    return "\n\n".join(f"## {title}\n{body}" for title, body in parsed.bodies.items())


def lines_of(body: str) -> list[str]:
    """A section's lines without their bullets; none when it says ``None``."""
    lines = (_BULLET.sub("", line).strip() for line in body.split("\n"))
    return [line for line in lines if line.lower().rstrip(".") not in _NOTHING]


def _body(lines: list[str]) -> str:
    kept = [line for line in lines if line.strip()]
    return "\n".join(kept) if any(lines_of(line) for line in kept) else _NONE
