"""What is allowed in a template but most likely not meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from turnmill_worker.templates.markdown_outline import outline
from turnmill_worker.templates.template import PLACEHOLDERS, Slot, Template

__all__ = ["Warned", "warnings"]

# Of Jinja and of Mustache: here they would reach the model as they stand.
_FOREIGN = re.compile(r"\{%|\{#")

Warned = tuple[int, str]
"""The line, and what is odd there."""


def warnings(template: Template) -> tuple[Warned, ...]:
    """What an author should look at, by line."""
    return tuple(sorted([*_unknown(template), *_foreign(template), *_repeated(template)]))


def _unknown(template: Template) -> Iterator[Warned]:
    for part in template.parts:
        if isinstance(part, Slot) and part.name not in PLACEHOLDERS:
            name = part.name.lower().replace("-", "_")
            near = difflib.get_close_matches(name, PLACEHOLDERS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(PLACEHOLDERS)}"
            yield part.line, f"{{{{{part.name}}}}} is not known and becomes empty; {advice}"


def _foreign(template: Template) -> Iterator[Warned]:
    fences = outline(template.text).fences
    for number, line in enumerate(template.text.split("\n"), start=1):
        if any(fence.holds(number) for fence in fences):
            continue
        if found := _FOREIGN.search(line):
            yield number, f"{found[0]} is plain text here: templates have placeholders only"


def _repeated(template: Template) -> Iterator[Warned]:
    seen: set[str] = set()
    for heading in outline(template.text).headings:
        if heading.title in template.sections and heading.level == 2:  # noqa: PLR2004
            if heading.title in seen:
                yield heading.line, f"a second section is called {heading.title!r}"
            seen.add(heading.title)
