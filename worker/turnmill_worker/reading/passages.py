"""Messages as passages. Each message is read once; everything else works on what is made here."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from turnmill_worker.reading import rules
from turnmill_worker.reading.words import CODE, KIND, concepts, field_concepts, in_context, kind_of, number

Count = Callable[[str], int]

USER, ASSISTANT, SYSTEM, CALL, RESULT = range(5)
ROLES: Final = {"user": USER, "assistant": ASSISTANT, "system": SYSTEM, "tool": RESULT}

ASKS, OWN, YOURS, OPENS, ANSWERS, HEADING, PROSE, LABELLED, NAMES = (
    1 << bit for bit in range(9)
)
"""What a passage is like: a question, of the speaker, of the other, the first of a longer message,
what answers a question, a heading, somebody's sentence, labelled by hand (``DECISION: …``), and naming things by identifiers."""

_LONGEST: Final = 700
_CELL: Final = 160
_SENTENCE = re.compile(
    r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’)\]*_]))(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)(?<!^\d\.)(?<!\s\d\.)(?<!^\d\d\.)(?<!\n\d\d\.)"
    r"\s+(?=[\"'“‘(\[*_A-Z0-9¿¡À-ÞА-Я])|(?<=[。！？])|(?<=[a-z]{2}[.!?])\s+(?=[a-z])|\n+"
)
_WRAPPED = re.compile(r"(?<=[^\n]{50})\n[ \t]*(?=[a-z(\"“'])")
_OWN = re.compile(r"\b(?:I|[Mm]y|me|mine|[Ww]e|[Oo]ur|us)\b")
_YOURS = re.compile(r"\b[Yy]ours?\b|\b[Yy]ou\b")
_LABEL = re.compile(r"[^\W\d_a-z]{2,20}(?:[ _-][^\W\d_a-z]{1,20}){0,2}: ?\w")
_CODE = re.compile(r"[{}=<>|\\]|\w\(|::|--\w|^\W*(?:\d+[:|]|\$ )")
_NUMBERED = re.compile(r"^\d+(?:[:|.)]| |$)")
_IDENTIFIER = re.compile(r"\b(?!\d+(?:st|nd|rd|th|am|pm)\b)(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b|\w_\d|\w@\w", re.I)
_WORD = re.compile(r"(?<![^\s\"'“‘(\[*_¿¡])[^\W\d_]+(?:[-'’][^\W\d_]+)*(?![^\s\"'”’)\]*_.,;:!?…])")


class Passage(NamedTuple):
    """The least that is kept or lost: a sentence, a line, or one field of a record.

    Attributes:
        tokens: what it costs behind other words.
        ids: the numbers of `words`.
        source: whose it is.
        group: of the message: the record it is a field of.
        form: the flags above.
        rule: log-odds that it lays something down; of users only.
    """

    text: str
    tokens: int
    ids: tuple[int, ...]
    source: int
    group: int
    form: int
    field: int = 0
    rule: float = -9.0


class Cells(NamedTuple):
    """The plain short fields of a call, or of what it returned.

    Attributes:
        call: the call's own number, by which its result is found.
        tool: its name; "" of a result.
        first, last: the groups of the message in which the fields stand.
        whole: whether they say all that stands there.
        items: what a list of objects in it says, one text and one state for each.
    """

    call: str
    tool: str
    first: int
    last: int
    fields: dict[str, str]
    whole: bool
    items: tuple[tuple[str, str], ...] = ()


class Reading(NamedTuple):
    """A message as it was read: what opens its line, its records' labels, and its passages.

    ``cells``: of its calls or its result, until the session has them.
    """

    seq: int
    who: str
    role: int
    opening: int
    labels: tuple[tuple[str, int, tuple[int, ...]], ...]
    passages: tuple[Passage, ...]
    asks: bool = False
    cells: tuple[Cells, ...] = ()

    def stored(self) -> list[Any]:
        """What is stored beside the session."""
        return list(self[:-1])

    @classmethod
    def restored(cls, values: list[Any]) -> Reading:
        """The reading that was stored."""
        seq, who, role, opening, labels, passages, asks = values
        return cls(
            seq, who, role, opening,
            tuple((label, tokens, tuple(ids)) for label, tokens, ids in labels),
            tuple(Passage(p[0], p[1], tuple(p[2]), *p[3:]) for p in passages), asks,
        )  # fmt: skip


def read(seq: int, message: Mapping[str, Any], count: Count, *, answers: bool = False) -> Reading:
    """What a message says. ``answers``: the one before it ends on a question."""
    role = ROLES.get(message["role"], RESULT)
    reader = _Reader(role, count)
    content = message.get("content")
    for part in content if isinstance(content, list) else [content]:
        text = part if isinstance(part, str) else _of_part(part)
        reader.add_json(text) if text[:1] in "{[" and role == RESULT else reader.add_text(text, answers)
    talk = reader.passages
    asks = bool(talk) and talk[-1].form & ASKS > 0
    if at := message.get("tool_call_id"):
        reader.cells = [reader.returned(str(at), content)]
    for call in message.get("tool_calls") or ():
        reader.add_call(call.get("function") or {}, str(call.get("id") or ""))
    who = message.get("name") or message["role"]
    return Reading(
        seq, who, role, count(f"\n{seq} {who}:"), tuple(reader.labels), tuple(reader.passages), asks,
        tuple(reader.cells),
    )


def _of_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("text") or ("[image]" if "image" in str(part.get("type")) else ""))


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, none of them endless, with single spaces."""
    for piece in _SENTENCE.split(_WRAPPED.sub(" ", text)):
        piece = " ".join(piece.split())
        while len(piece) > _LONGEST:
            cut = max(piece.rfind(mark, 200, _LONGEST) for mark in (", ", "; ", " - ", ". ", " "))
            cut = cut + 1 if cut > 0 else _LONGEST
            yield piece[:cut].strip()
            piece = piece[cut:].strip()
        if piece:
            yield piece


class _Reader:
    """Collects the passages of one message."""

    def __init__(self, role: int, count: Count) -> None:
        self.role, self.count = role, count
        self.passages: list[Passage] = []
        self.labels: list[tuple[str, int, tuple[int, ...]]] = []
        self.cells: list[Cells] = []
        self.value: Any = None

    def returned(self, call: str, content: Any) -> Cells:
        """What a result says if it is one flat record, or one short line."""
        fields, whole, last = {}, False, len(self.labels)
        if isinstance(self.value, dict):
            fields, whole = short_fields(self.value)
        elif isinstance(content, str) and len(content) <= _CELL and "\n" not in content.strip() and self.value is None:
            fields, whole = {"": content.strip()}, True
        return Cells(call, "", 0, last, fields, whole)

    def _group(self, label: str) -> int:
        tokens = self.count(f"; {label}") if label or self.labels else 0
        self.labels.append((label, tokens, concepts(label, prose=False) if label else ()))
        return len(self.labels) - 1

    def add_text(self, text: str, answers: bool) -> None:
        """Somebody's words, or what a tool printed."""
        pieces = list(sentences(text))
        if not pieces:
            return
        group = self._group("")
        fenced = False
        for at, piece in enumerate(pieces):
            fence = piece.startswith("```")
            talks = not (fenced or fence) and self.role != RESULT and is_talk(piece)
            fenced ^= fence
            if fence and len(piece) < 24:
                continue
            source = self.role if talks or self.role != USER else RESULT
            form = _form(piece, first=at == 0 and len(pieces) > 2, talks=talks)
            form |= ANSWERS if answers and at == 0 else 0
            told = piece if talks else _NUMBERED.sub("", piece)
            self._add(piece, in_context(concepts(told, prose=talks)), source, group, form)

    def _add(self, text: str, ids: tuple[int, ...], source: int, group: int, form: int, field: int = 0) -> None:
        score = rules.score(text) if source == USER else -9.0
        if source in {USER, CALL} and _IDENTIFIER.search(text):
            form |= NAMES
        self.passages.append(Passage(text, self.count(f" {text}"), ids, source, group, form, field, score))

    def add_json(self, text: str) -> None:
        """What a tool returned: its records, or lines if it is no JSON."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            self.add_text(text, False)
            return
        self.value = value
        for label, fields in records(value, ""):
            self._add_fields(label, fields, RESULT)

    def add_call(self, function: Mapping[str, Any], call: str = "") -> None:
        """A call, and what a table may say of it."""
        first = len(self.labels)
        name, arguments = self._add_arguments(function)
        fields, whole = short_fields(arguments)
        items = next((found for own in arguments.values() if (found := listed_items(own))), ())
        self.cells.append(Cells(call, name, first, len(self.labels), fields, whole, items))

    def _add_arguments(self, function: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """A call's passages: one if it is short, else its arguments."""
        name, written = str(function.get("name") or ""), function.get("arguments") or ""
        try:
            arguments = json.loads(written) if isinstance(written, str) else written
        except ValueError:
            arguments = {"": str(written)}
        if not isinstance(arguments, Mapping):
            arguments = {"": arguments}
        told = ", ".join(f"{key}={_plain(value)}" for key, value in arguments.items())
        if len(told) <= _CELL:
            text = f"{name}({' '.join(told.split())})"
            ids = dict.fromkeys([number(6, name), *concepts(told, prose=False)])
            self._add(text, tuple(ids), CALL, self._group(""), 0, number(6, name))
            return name, dict(arguments)
        for label, fields in records(dict(arguments), name):
            self._add_fields(label, fields, CALL)
        return name, dict(arguments)

    def _add_fields(self, label: str, fields: list[tuple[str, str]], source: int) -> None:
        group = self._group(label)
        for key, value in fields:
            shown = f"{key}={value}" if key else value
            if not shown:
                self.passages.append(Passage("", 0, (), source, group, 0, number(6, label.partition("=")[0])))
                continue
            if len(value) <= _CELL:
                self._add(shown, field_concepts(key, value), source, group, 0, number(6, key))
                continue
            for at, piece in enumerate(sentences(value)):
                text = f"{key}={piece}" if key and not at else piece
                self._add(text, concepts(piece, prose=False), source, group, 0, number(6, key))


def is_talk(text: str) -> bool:
    """Whether a line is somebody's sentence, not code or output."""
    if text[-1] in "?!？！。":
        return True
    plain = len(_WORD.findall(text))
    return plain >= 0.6 * (text.count(" ") + 1) and len(_CODE.findall(text)) * 40 <= len(text)


def _form(text: str, *, first: bool, talks: bool) -> int:
    if not talks:
        return HEADING if text[-1] == ":" or text[:1] in "#=" else 0
    form = PROSE | (OPENS if first else 0)
    form |= ASKS if text[-1] in "?？؟" else 0
    form |= OWN if _OWN.search(text) else YOURS if _YOURS.search(text) else 0
    form |= LABELLED if _LABEL.match(text) else 0
    return form | (HEADING if text[-1] == ":" or text[0] == "#" else 0)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def records(value: Any, label: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The records in a JSON value: what opens each, and its plain fields.

    What all records of a list say alike is said once.
    """
    if isinstance(value, list):
        yield from _listed(value, label)
    elif not isinstance(value, dict):
        yield label, [("", _plain(value))]
    else:
        fields, inner = _fields(value)
        named = next((at for at, (key, own) in enumerate(fields) if _names(key, own)), None)
        if named is not None:
            key, own = fields.pop(named)
            label = f"{key}={own}" if own not in label else label
            fields.insert(0, ("", ""))
        if fields:
            yield label, fields
        for key, own in inner:
            yield from records(own, key)


def _listed(value: list[Any], label: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    found = [dict(each) if isinstance(each, dict) else each for each in value]
    if len(found) > 1 and all(isinstance(each, dict) for each in found):
        alike = {
            key: own for key, own in found[0].items()
            if own not in _EMPTY and all(each.get(key) == own for each in found[1:])
        }  # fmt: skip
        if alike:
            yield from records(alike, "all")
            found = [{key: own for key, own in each.items() if key not in alike} for each in found]
    for each in found:
        yield from records(each, label)


def short_fields(value: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
    """The fields of an object that fit into a cell, and whether these are all of it."""
    fields, inner = _fields(value)
    fit = {key: " ".join(own.split()) for key, own in fields if len(own) <= _CELL}
    return fit, len(fit) == len(fields) and not inner


def listed_items(value: Any) -> tuple[tuple[str, str], ...]:
    """What a list of objects says, each one text and one word: the entries of a plan, and their states."""
    if not (isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) and each for each in value)):
        return ()
    rows = [{key: str(own) for key, own in each.items() if own not in _EMPTY} for each in value]
    lengths = Counter()
    for row in rows:
        lengths.update({key: len(own) for key, own in row.items()})
    text = max(lengths, key=lengths.__getitem__, default="")
    few = [
        key for key in rows[0]
        if key != text and all(key in row and " " not in row[key] for row in rows) and len({row[key] for row in rows}) <= _STATES
    ]  # fmt: skip
    if not few or sum(" " in row.get(text, "") for row in rows) * 2 <= len(rows):
        return ()
    state = max(few, key=lambda key: sum(len(row[key]) for row in rows))
    return tuple((row.get(text, ""), row[state]) for row in rows)


_STATES: Final = 6
_EMPTY: Final = (None, "", [], {})
_FEW: Final = 4


def _fields(value: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, Any]]]:
    """The plain fields of an object, and what is in it that has its own."""
    fields: list[tuple[str, str]] = []
    inner: list[tuple[str, Any]] = []
    for key, own in value.items():
        deep = list(own.values() if isinstance(own, dict) else own) if isinstance(own, dict | list) else []
        plain = not any(isinstance(each, dict | list) for each in deep)
        if own in _EMPTY:
            continue
        if isinstance(own, dict) and len(own) <= _FEW and plain and kind_of(key) != CODE:
            fields += [(f"{key}.{name}", _plain(x)) for name, x in own.items() if x not in _EMPTY]
        elif isinstance(own, list) and plain:
            fields.append((str(key), "|".join(map(str, own))))
        elif deep:
            inner.append((str(key), own))
        else:
            fields.append((str(key), _plain(own)))
    return fields, inner


def _names(key: str, value: str) -> bool:
    """Whether a field says which thing its record is of."""
    low = key.lower()
    return " " not in value and (low.endswith(("id", "number", "key")) or low == "name") and kind_of(value) == CODE
