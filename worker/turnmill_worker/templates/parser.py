"""From a file's bytes to a template, or an error that says the line and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256

from turnmill.contract.errors import InvalidTemplate
from turnmill_worker.templates.markdown_outline import Fence, Outline, outline
from turnmill_worker.templates.template import Slot, Template

__all__ = ["MAX_BYTES", "MAX_PLACEHOLDERS", "parse_template", "refuse_constant"]

MAX_BYTES = 64 * 1024
MAX_PLACEHOLDERS = 32
"""Bounds what a small file can grow to when long values are inserted."""

MAX_DESCRIPTION = 200

_PLACEHOLDER = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*\}\}")
_CONTRACT = "contract"


def parse_template(name: str, source: str, data: bytes) -> Template:
    """The template in a file's bytes.

    Raises:
        InvalidTemplate: it is empty, over ``MAX_BYTES``, not UTF-8, a brace or fence is left open,
            it has over ``MAX_PLACEHOLDERS`` placeholders, or its contract is no JSON object.
    """
    text = _decoded(source, data)
    found = outline(text)
    for fence in found.fences:
        if fence.end is None:
            raise _invalid(source, fence.line, "a fence opens here and is never closed")
    contract = _contract_fence(source, found)
    parts = tuple(_parts(source, text, found, contract))
    slots = [part for part in parts if isinstance(part, Slot)]
    if len(slots) > MAX_PLACEHOLDERS:
        line = slots[MAX_PLACEHOLDERS].line
        raise _invalid(
            source, line, f"{len(slots)} placeholders; at most {MAX_PLACEHOLDERS} are allowed"
        )
    return Template(
        name=name,
        source=source,
        sha256=sha256(data).hexdigest(),
        text=text,
        contract=_contract(source, text, contract) if contract else None,
        placeholders=tuple(dict.fromkeys(slot.name for slot in slots)),
        sections=_sections(found, contract),
        description=_description(text, found),
        parts=parts,
    )


def refuse_constant(constant: str) -> object:
    """For ``parse_constant``: NaN and Infinity, which Python adds to JSON.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{constant} is not JSON")


def _invalid(source: str, line: int, what: str) -> InvalidTemplate:
    return InvalidTemplate(f"{source}:{line}: {what}")


def _decoded(source: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise InvalidTemplate(f"{source}: over {MAX_BYTES:,} bytes, the most that is allowed")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _invalid(source, line, "not UTF-8, the one encoding that is allowed") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise _invalid(source, text[: text.index("\0")].count("\n") + 1, "a NUL is not text")
    if not text.strip():
        raise InvalidTemplate(f"{source}: empty; instructions in markdown are expected")
    return text


def _contract_fence(source: str, found: Outline) -> Fence | None:
    """The fence that holds the contract: ```` ```json contract ````, or JSON under its heading."""
    fences = [fence for fence in found.fences if _is_contract(fence)]
    if len(fences) > 1:
        first, second = fences[0].line, fences[1].line
        raise _invalid(source, second, f"a second contract; one is allowed, in line {first}")
    return fences[0] if fences else None


def _is_contract(fence: Fence) -> bool:
    language, *labels = fence.info.lower().split() or [""]
    return language == "json" and (_CONTRACT in labels or fence.under.lower() == _CONTRACT)


def _contract(source: str, text: str, fence: Fence) -> dict[str, object]:
    body = "\n".join(text.split("\n")[fence.line : (fence.end or 0) - 1])
    try:
        value = json.loads(body, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        line = fence.line + error.lineno
        raise _invalid(source, line, f"the contract is not valid JSON: {error.msg}") from error
    except ValueError as error:
        raise _invalid(source, fence.line, f"the contract is not valid JSON: {error}") from error
    except RecursionError as error:
        raise _invalid(source, fence.line, "the contract is nested too deep") from error
    if not isinstance(value, dict):
        raise _invalid(source, fence.line, "the contract must be a JSON object: {…}")
    return value


def _parts(source: str, text: str, found: Outline, contract: Fence | None) -> Iterator[str | Slot]:
    """The text, cut at its placeholders; the contract is one piece, whatever braces it has."""
    fenced = {
        line for fence in found.fences for line in range(fence.line, (fence.end or fence.line) + 1)
    }
    literal: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if number > 1:
            literal.append("\n")
        if contract and contract.holds(number):
            literal.append(line)
            continue
        pieces = _PLACEHOLDER.split(line)
        if number not in fenced:
            _check_braces(source, number, pieces[::2])
        for at, piece in enumerate(pieces):
            if at % 2 == 0:
                literal.append(piece)
            else:
                yield "".join(literal)
                yield Slot(piece, number)
                literal = []
    yield "".join(literal)


def _check_braces(source: str, line: int, literals: list[str]) -> None:
    for brace in ("{{", "}}"):
        if any(brace in literal for literal in literals):
            raise _invalid(
                source,
                line,
                f"{brace} that is no part of a placeholder; allowed are {{{{name}}}} and, between "
                "the lines of a ``` fence, any braces",
            )


def _sections(found: Outline, contract: Fence | None) -> tuple[str, ...]:
    headings = [heading for heading in found.headings if heading.level == 2]  # noqa: PLR2004
    if contract and contract.under.lower() == _CONTRACT:
        headings = [each for each in headings if each.title.lower() != _CONTRACT]
    return tuple(heading.title for heading in headings)


def _description(text: str, found: Outline) -> str:
    lines = text.split("\n")
    start = next(at for at, line in enumerate(lines) if line.strip())
    if found.headings and found.headings[0].line == start + 1:
        words = found.headings[0].title
    else:
        end = next((at for at in range(start, len(lines)) if not lines[at].strip()), len(lines))
        words = " ".join(" ".join(lines[start:end]).split())
    return words if len(words) <= MAX_DESCRIPTION else words[: MAX_DESCRIPTION - 1] + "…"
