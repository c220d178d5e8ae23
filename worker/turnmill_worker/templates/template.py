"""A template: read from a file, filled, and what a model's answer to it says."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from turnmill.contract.errors import InvalidTemplate

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?$")


@dataclass(frozen=True, slots=True)
class Heading:
    """A line that starts with ``#``; lines count from 1."""

    line: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Fence:
    """A block between two lines of backticks or tildes.

    Attributes:
        line: of its opening.
        end: of its closing; None when it has none and runs to the end of the text.
        info: what follows the opening, as ``json``.
        under: title of the nearest heading of level 1 or 2 above it, or ``""``.
    """

    line: int
    end: int | None
    info: str
    under: str

    def holds(self, line: int) -> bool:
        """Whether the line is its opening, its closing, or between them."""
        return self.line <= line and (self.end is None or line <= self.end)


@dataclass(frozen=True, slots=True)
class Outline:
    """The headings outside fences, and the fences, in order."""

    headings: tuple[Heading, ...]
    fences: tuple[Fence, ...]


def outline(text: str) -> Outline:
    """The text's headings and fences, as CommonMark finds them; linear in its length."""
    headings: list[Heading] = []
    fences: list[Fence] = []
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        fence = _FENCE.match(line)
        if opened is not None:
            if fence and _closes(fence, opened[1]):
                fences.append(Fence(opened[0], number, opened[2], _chapter(headings)))
                opened = None
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            opened = (number, fence[1], fence[2].strip())
        elif heading := _HEADING.match(line):
            headings.append(Heading(number, len(heading[1]), _title(heading[2] or "")))
    if opened is not None:
        fences.append(Fence(opened[0], None, opened[2], _chapter(headings)))
    return Outline(tuple(headings), tuple(fences))


def _closes(fence: re.Match[str], opening: str) -> bool:
    return fence[1].startswith(opening) and not fence[2].strip()


def _chapter(headings: list[Heading]) -> str:
    return next((each.title for each in reversed(headings) if each.level <= 2), "")  # noqa: PLR2004


def _title(text: str) -> str:
    """The heading's words; a closing run of ``#`` is decoration when a space parts it."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


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
