"""Messages as passages. Each message is read once; everything else works on what is made here."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.base64_text import without_base64
from turnmill_worker.reading import own_words, records, rules
from turnmill_worker.reading.records import CELL, Group
from turnmill_worker.reading.words import (
    IDENTIFIERS,
    KEY,
    KIND,
    PLAIN,
    WORD,
    Packed,
    Packing,
    concepts,
    field_concepts,
    in_context,
    number,
)

Count = Callable[[str], int]

USER, ASSISTANT, SYSTEM, CALL, RESULT = range(5)
ROLES: Final = {"user": USER, "assistant": ASSISTANT, "system": SYSTEM, "tool": RESULT}

ASKS, OWN, YOURS, OPENS, ANSWERS, HEADING, PROSE, LABELLED, NAMES = (1 << bit for bit in range(9))
"""What a passage is like: a question, of the speaker, of the other, the first of a longer message,
what answers a question, a heading, somebody's sentence, labelled by hand (``DECISION: …``), and
naming things by identifiers."""

_LONGEST: Final = 700
_SENTENCE = re.compile(
    r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’)\]*_]))(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\bMrs\.)(?<!^\d\.)(?<!\s\d\.)(?<!^\d\d\.)(?<!\n\d\d\.)"
    r"\s+(?=[\"'“‘(\[*_A-Z0-9¿¡À-ÞА-Я])|(?<=[。！？])|(?<=[a-z]{2}[.!?])\s+(?=[a-z])|\n+"
)
_WRAPPED = re.compile(r"(?<=[^\n]{50})\n[ \t]*(?=[a-z(\"“'])")
_OWN = re.compile(r"\b(?:I|[Mm]y|me|mine|[Ww]e|[Oo]ur|us)\b")
_YOURS = re.compile(r"\b[Yy]ours?\b|\b[Yy]ou\b")
_LABEL = re.compile(r"[^\W\d_a-z]{2,20}(?:[ _-][^\W\d_a-z]{1,20}){0,2}: ?\w")
_NUMBERED = re.compile(r"^\d+(?:[:|.)]| |$)")
_IDENTIFIER = re.compile(
    r"\b(?!\d+(?:st|nd|rd|th|am|pm)\b)(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b|\w_\d|\w@\w", re.IGNORECASE
)


_NO_RULE: Final = -9.0


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
    rule: float = _NO_RULE


class Cells(NamedTuple):
    """What a table may say of a call, or of one record that it returned.

    Attributes:
        call: the call's own number, by which its result is found.
        tool: its name; "" of a result.
        first, last: the groups of the message in which the fields stand.
        fields: the plain short values, by their whole names.
        whole: whether they say all that stands there.
        items: what a list of objects in it says, one text and one state for each.
        path: the list that the record is one of; "" if it stands alone.
        lines: of what was printed, those that may be what came out; the last of all is the last.
    """

    call: str
    tool: str
    first: int
    last: int
    fields: dict[str, str]
    whole: bool
    items: tuple[tuple[str, str], ...] = ()
    path: str = ""
    lines: tuple[str, ...] = ()


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

    def stored(self, ids: Packing) -> list[Any]:
        """As plain values, but for the numbers."""
        return [
            *self[:4],
            self.asks,
            [(label, tokens, ids.put(own)) for label, tokens, own in self.labels],
            [_stored(own, ids.put(own.ids)) for own in self.passages],
        ]

    @classmethod
    def restored(cls, values: Sequence[Any], ids: Packed) -> Reading:
        """The reading that was stored."""
        seq, who, role, opening, asks, labels, passages = values
        return cls(
            seq,
            who,
            role,
            opening,
            tuple([(label, tokens, ids.take(many)) for label, tokens, many in labels]),
            tuple(
                [
                    Passage(text, tokens, ids.take(many), *more)
                    for text, tokens, many, *more in passages
                ]
            ),
            asks,
        )


CAME_OF: Final = "→"
_NO_LABEL: Final = ("", 0, ())


def with_calls(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The readings, each text that a tool printed opened by the call it came of, if that is short.

    A record says what it is of; lines of a file do not: which file stands in the call alone.
    """
    calls: dict[str, Passage] = {}
    for each in readings:
        short = {own.group: own for own in each.passages if own.source == CALL}
        for cells in each.cells:
            own = short.get(cells.first)
            if own and cells.tool and own.text.startswith(f"{cells.tool}("):
                calls[cells.call] = own
        call = calls.get(each.cells[0].call) if each.role == RESULT and each.cells else None
        is_record = all(own.field for own in each.passages)
        if call is None or is_record or each.labels[0] != _NO_LABEL:
            yield each
        else:
            # It is paid for with the line, and says something with what stood first in the result.
            label = (f"{call.text} {CAME_OF}", 0, call.ids)
            opening = each.opening + call.tokens + 1
            yield each._replace(opening=opening, labels=(label, *each.labels[1:]))


def _stored(own: Passage, many: int) -> list[Any]:
    """A passage with the number of its numbers; without what most passages have."""
    values = [own.text, own.tokens, many, own.source, own.group, own.form, own.field, own.rule]
    return values if own.rule != _NO_RULE else values[:-1] if own.field else values[:-2]


def read(seq: int, message: Mapping[str, Any], count: Count, *, answers: bool = False) -> Reading:
    """What a message says. ``answers``: the one before it ends on a question."""
    role = ROLES.get(message["role"], RESULT)
    reader = _Reader(role, count)
    content = message.get("content")
    call = str(message.get("tool_call_id") or "")
    for part in content if isinstance(content, list) else [content]:
        text = without_base64(part if isinstance(part, str) else _of_part(part))
        if role == RESULT:
            reader.add_result(text, call)
        else:
            reader.add_text(text, answers=answers)
    talk = reader.passages
    asks = bool(talk) and talk[-1].form & ASKS > 0
    for called in message.get("tool_calls") or ():
        reader.add_call(_function(called), str(called.get("id") or ""))
    who = message.get("name") or message["role"]
    opening = count(f"\n{seq} {who}:")
    labels, passages = tuple(reader.labels), tuple(reader.passages)
    return Reading(seq, who, role, opening, labels, passages, asks, tuple(reader.cells))


def _function(called: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a call calls, and with what: a function's arguments, or a custom tool's input."""
    custom = called.get("custom")
    if isinstance(custom, Mapping):
        return {"name": custom.get("name"), "arguments": custom.get("input")}
    return called.get("function") or {}


def _of_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("text") or ("[image]" if "image" in str(part.get("type")) else ""))


def sentences(text: str) -> Iterator[str]:
    """The sentences and lines of a text, none of them endless, with single spaces."""
    for piece in _SENTENCE.split(_WRAPPED.sub(" ", text)):
        rest = " ".join(piece.split())
        while len(rest) > _LONGEST:
            cut = max(rest.rfind(mark, 200, _LONGEST) for mark in (", ", "; ", " - ", ". ", " "))
            cut = cut + 1 if cut > 0 else _LONGEST
            yield rest[:cut].strip()
            rest = rest[cut:].strip()
        if rest:
            yield rest


class _Reader:
    """Collects the passages of one message."""

    def __init__(self, role: int, count: Count) -> None:
        self.role, self.count = role, count
        self.passages: list[Passage] = []
        self.labels: list[tuple[str, int, tuple[int, ...]]] = []
        self.cells: list[Cells] = []

    def _group(self, label: str) -> int:
        tokens = self.count(f"; {label}") if label or self.labels else 0
        self.labels.append((label, tokens, concepts(label, prose=False) if label else ()))
        return len(self.labels) - 1

    def add_text(self, text: str, *, answers: bool, named: Mapping[str, str] = {}) -> None:
        """Somebody's words, or what a tool printed; ``named``: lines that are values, and names."""
        whole = list(sentences(text))
        few = records.ends(whole)
        pieces = list(
            zip(few, self._talks(few, text if len(few) == len(whole) else ""), strict=True)
        )
        if not pieces:
            return
        group = self._group("")
        for at, (piece, talks) in enumerate(pieces):
            if piece.startswith("```") and len(piece) < _FENCE:
                continue
            source = self.role if talks or self.role != USER else RESULT
            form = _form(piece, first=at == 0 and len(pieces) > 2, talks=talks)  # noqa: PLR2004
            form |= ANSWERS if answers and at == 0 else 0
            told = piece if talks else _NUMBERED.sub("", piece)
            field = number(KEY, named[piece]) if piece in named else 0
            self._add(piece, in_context(concepts(told, prose=talks)), source, group, form, field)

    def _talks(self, pieces: list[str], text: str) -> list[bool]:
        """Which pieces are somebody's own words: no code or output, and nothing a user quotes.

        ``text``: of all pieces; "" where there are too many to look for what is quoted.
        """
        if self.role == USER and text:
            return own_words.own(pieces, text)
        fenced, found = False, []
        for piece in pieces:
            fence = piece.startswith("```")
            found.append(not (fenced or fence) and self.role != RESULT and own_words.is_talk(piece))
            fenced ^= fence
        return found

    def _add(
        self, text: str, ids: tuple[int, ...], source: int, group: int, form: int, field: int = 0
    ) -> None:
        score = rules.score(text) if source == USER else _NO_RULE
        if source in {USER, CALL} and _IDENTIFIER.search(text):
            form |= NAMES
        self.passages.append(
            Passage(text, self.count(f" {text}"), ids, source, group, form, field, score)
        )

    def add_result(self, text: str, call: str) -> None:
        """What a tool returned, whatever it is written in."""
        text, value = records.within(text)
        if text:
            self._add_printed(text, call)
        if value is None:
            return
        items = next((found for own in _values(value) if (found := records.listed_items(own))), ())
        for at, record in enumerate(records.of_value(value)):
            if len(self.passages) > records.MOST:
                break
            first, before = len(self.labels), len(self.passages)
            for group in record.groups:
                self._add_fields(group, RESULT)
            fields = records.flat(record.groups)
            plain = sum(len(group.fields) for group in record.groups)
            whole = record.whole and len(fields) == plain
            lines = () if record.path else self._outcome(before)
            self.cells.append(
                Cells(
                    call,
                    "",
                    first,
                    len(self.labels),
                    fields,
                    whole,
                    () if at else items,
                    record.path,
                    lines,
                )
            )

    def _add_printed(self, text: str, call: str) -> None:
        """A text that a tool returned: its rows, or its named values and its lines."""
        printed = records.of_text(text)
        for row in printed.records[: records.MOST]:
            if len(self.passages) > records.MOST:
                break
            first = len(self.labels)
            self._add_fields(Group("", "", row), RESULT)
            fields = {key: own for key, own in row if len(own) <= CELL}
            whole = len(fields) == len(row)
            self.cells.append(
                Cells(call, "", first, len(self.labels), fields, whole, (), records.ROWS)
            )
        first, before = len(self.labels), len(self.passages)
        if printed.records:
            self.add_text("\n".join(printed.lines), answers=False)
            return
        items = records.listed_items(text)
        named = {f"{key}{mark}{own}": key for key, own in printed.fields for mark in _MARKS}
        self.add_text(text, answers=False, named=named)
        fields = {key: own for key, own in printed.fields if len(own) <= CELL}
        whole = not printed.lines or len(self.passages) == before + 1
        lines = self._outcome(before)
        self.cells.append(Cells(call, "", first, len(self.labels), fields, whole, items, "", lines))

    def _outcome(self, start: int) -> tuple[str, ...]:
        """Of what was printed, what may have come out: lines with values, and the last."""
        told = [own for own in self.passages[start:] if own.text]
        lines = [own for own in told if not own.field]
        if not lines:
            return ()
        lines += [told[-1]] if told[-1].field and "\n" not in told[-1].text else []
        makes = Counter(map(make_of, lines))
        ranked = [
            (
                sum(each & KIND in IDENTIFIERS for each in own.ids)
                or 0.5 * bool(_DIGIT.search(own.text)),
                -at,
                own,
            )
            for at, own in enumerate(lines)
            if len(own.text) <= CELL and makes[make_of(own)] < _OFTEN
        ]
        best = {own.text for _, _, own in sorted(ranked, reverse=True)[:_CANDIDATES]}
        found = dict.fromkeys(own.text for own in lines if own.text in best)
        found.pop(lines[-1].text, None)
        return (*found, lines[-1].text if len(lines[-1].text) <= CELL else "")

    def add_call(self, function: Mapping[str, Any], call: str = "") -> None:
        """A call: one passage if it is short, else its arguments; and what a table may say."""
        first = len(self.labels)
        name, written = str(function.get("name") or ""), function.get("arguments") or ""
        try:
            arguments = json.loads(without_base64(written)) if isinstance(written, str) else written
        except (ValueError, RecursionError):
            arguments = {"": without_base64(str(written))}
        if not isinstance(arguments, Mapping):
            arguments = {"": arguments}
        groups = [group for own in records.of_value(dict(arguments)) for group in own.groups]
        told = ", ".join(f"{key}={records.plain(value)}" for key, value in arguments.items())
        if len(told) <= CELL:
            text = f"{name}({' '.join(told.split())})"
            ids = dict.fromkeys([number(KEY, name), *concepts(told, prose=False)])
            self._add(text, tuple(ids), CALL, self._group(""), 0, number(KEY, name))
        else:
            for group in groups:
                self._add_fields(group if group.label else group._replace(label=name), CALL)
        fields = records.flat(groups)
        whole = len(fields) == sum(len(group.fields) for group in groups)
        items = next(
            (found for own in arguments.values() if (found := records.listed_items(own))), ()
        )
        self.cells.append(Cells(call, name, first, len(self.labels), fields, whole, items))

    def _add_fields(self, found: Group, source: int) -> None:
        """The values of a record: each a passage, or the sentences of a long one."""
        group = self._group(found.label)
        for key, value in found.fields:
            field = number(KEY, f"{found.prefix}{key}")
            if found.label and found.label == f"{key}={value}":
                self.passages.append(Passage("", 0, (), source, group, 0, field))
                continue
            if len(value) <= CELL:
                shown = f"{key}={value}" if key else value
                self._add(shown, field_concepts(key, value), source, group, 0, field)
                continue
            for at, piece in enumerate(records.ends(list(sentences(value)))):
                text = f"{key}={piece}" if key and not at else piece
                self._add(text, concepts(piece, prose=False), source, group, 0, field)


_MARKS: Final = (": ", "=", ":", " = ", "： ", "：")
_FENCE: Final = 24
_DIGIT = re.compile(r"\d")
_OFTEN: Final = 3
_CANDIDATES: Final = 5


def _values(value: Any) -> list[Any]:
    return [value] if isinstance(value, list) else list(value.values())


def make_of(passage: Passage) -> tuple[int, ...]:
    """What a line is without its values: its words."""
    return tuple([each for each in passage.ids if each & KIND in {WORD, PLAIN}])


def _form(text: str, *, first: bool, talks: bool) -> int:
    if not talks:
        return HEADING if text[-1] == ":" or text[:1] in "#=" else 0
    form = PROSE | (OPENS if first else 0)
    form |= ASKS if text[-1] in "?？؟" else 0
    form |= OWN if _OWN.search(text) else YOURS if _YOURS.search(text) else 0
    form |= LABELLED if _LABEL.match(text) else 0
    return form | (HEADING if text[-1] == ":" or text[0] == "#" else 0)
