"""What can be read from a model's answer to a template: advisory, so it never fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from turnmill_worker.templates.markdown_outline import outline
from turnmill_worker.templates.parser import refuse_constant
from turnmill_worker.templates.template import Template

__all__ = ["parse_output", "sections_found"]

MAX_TRIES = 1000
"""Braces looked at, in the last ``MAX_CHARACTERS``: bounds the time a hostile answer takes."""

MAX_CHARACTERS = 256 * 1024

_OBJECT = re.compile(r'\{\s*+["}]')
_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def parse_output(template: Template, raw: str) -> dict[str, object] | None:
    """The JSON object in the answer that has most of the contract's keys, the last of equals.

    It may stand alone, in a fence, or amid prose. None when the template has no contract, or no
    object of the answer has any of its keys.
    """
    if template.contract is None:
        return None
    wanted = _keys(template.contract)
    best: dict[str, object] | None = None
    shared = 0 if not wanted else 1
    for found in _objects(raw[-MAX_CHARACTERS:]):
        if len(wanted & found.keys()) >= shared:
            best, shared = found, len(wanted & found.keys())
    return best


def sections_found(template: Template, raw: str) -> tuple[str, ...]:
    """The template's sections that the answer has a heading for, in the template's order."""
    titles = {heading.title.casefold() for heading in outline(raw).headings}
    return tuple(section for section in template.sections if section.casefold() in titles)


def _keys(contract: Mapping[str, object]) -> set[str]:
    """The keys an answer should have; a contract may be an example or a JSON Schema."""
    properties = contract.get("properties")
    return set(properties if isinstance(properties, dict) else contract)


def _objects(text: str) -> Iterator[dict[str, object]]:
    """The outermost JSON objects of a text, in order."""
    at = 0
    for _ in range(MAX_TRIES):
        opening = _OBJECT.search(text, at)
        if opening is None:
            return
        at = opening.start() + 1
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        yield value
