"""Messages as units; an action and what came of it are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.authors import author
from turnmill.contract.names import Seq
from turnmill.open_requests.demonstrations import without_demonstrations
from turnmill.open_requests.speech import outputs_among
from turnmill.rules.standing import Said
from turnmill_worker.old_reading.actions import Action, Role
from turnmill_worker.old_reading.code_lines import coded
from turnmill_worker.old_reading.fenced import last_action
from turnmill_worker.old_reading.flat_json import parse_json
from turnmill_worker.old_reading.message_text import content_text, safe_name, speaker
from turnmill_worker.old_reading.outcomes import (
    blocks,
    is_short,
    only_marks,
    outcome,
    telling_lines,
    usual_openings,
)
from turnmill_worker.old_reading.recorded import answer_in, call_in, fields_in, without_echoes
from turnmill_worker.old_reading.screens import NO_SCREEN, References, read_screen, without_references
from turnmill_worker.old_reading.sentences import sentences
from turnmill_worker.old_reading.units import CAME_OF_IT, Line, Source, Units

__all__ = ["read_units"]


def read_units(records: Sequence[tuple[int, Mapping[str, Any]]]) -> Units:
    """The units of these messages; many share them, so never change them."""
    texts = [content_text(message.get("content")) for _, message in records]
    outputs = _outputs(records, texts)
    reading = _Reading(usual_openings(texts[at] for at in outputs))
    for at, (seq, message) in enumerate(records):
        role = str(message.get("role") or "")
        if role in {"tool", "function"}:
            reading.result(seq, message, texts[at])
        elif at in outputs:
            reading.output(seq, texts[at])
        else:
            source = _SOURCES.get(role, Source.ASSISTANT)
            if source is Source.USER and author(message) != role:
                source = Source.EARLIER
            line = Line(seq, source, speaker(message.get("name")))
            # The last one's output may be in a turn that stays.
            acts = bool(outputs) and (at + 1 in outputs or at + 1 == len(records))
            text = without_demonstrations(texts[at]) if role == "user" else texts[at]
            reading.said(line, text, acts=acts)
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                reading.call(seq, call)
    return reading.found


def _outputs(
    records: Sequence[tuple[int, Mapping[str, Any]]], texts: Sequence[str]
) -> frozenset[int]:
    """The positions of user messages that hold a program's output."""
    if any(message.get("tool_calls") for _, message in records):
        return frozenset()
    plain = [
        Said(Seq(seq), [{**message, "role": str(message.get("role") or ""), "content": text}])
        for (seq, message), text in zip(records, texts, strict=True)
    ]
    found = outputs_among(plain)
    # Somebody ordered them, as far as these messages tell.
    return frozenset(at for at in found if at == 0 < len(found) - 1 or last_action(texts[at - 1]))


class _Reading:
    """Reads messages one by one, and brings what came of an action to it."""

    def __init__(self, usual: frozenset[str]) -> None:
        self._usual = usual
        self.found = Units([], [])
        self._called: dict[str, _Called] = {}
        self._acted: int | None = None
        self._screen = NO_SCREEN
        self._references = References()

    def said(self, line: Line, content: str, *, acts: bool) -> None:
        """What somebody says; an assistant that ``acts`` ends with what it orders."""
        found = last_action(content) if acts and line.source is Source.ASSISTANT else None
        self._acted = None
        if found is None:
            _add_content(self.found, line, content)
            return
        said, action = found
        _add_content(self.found, line, self._screen.named(said))
        action = action._replace(text=self._screen.named(action.text))
        self._acted = self._act(line.seq or 0, action)

    def output(self, seq: int, content: str) -> None:
        """What a program answers in a user's message."""
        line = Line(seq, Source.RESULT)
        before, screen = self._screen, read_screen(content)
        self._screen = screen or NO_SCREEN
        if screen is not None:
            self._show(line, *screen.outcome(before))
        elif self._acted is None:
            self.found.add_text(line, blocks(telling_lines(content)), Role.QUOTATION)
        else:
            self._answer(line, self._acted, content)
        self._acted = None

    def call(self, seq: int, call: Any) -> None:
        """A call of a tool: fields of a record, or an action on one line."""
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            return
        name = safe_name(function.get("name"))
        arguments = function.get("arguments")
        refers: tuple[str, ...] = ()
        if isinstance(arguments, str):
            arguments, refers = self._references.named(arguments)
        asked = call_in(name, arguments)
        place, first = None, len(self.found.units)
        if isinstance(asked, Action):
            place = self._act(seq, asked)
        elif isinstance(asked, str):
            self.found.add_text(Line(seq, Source.CALL, name), sentences(asked))
        else:
            self.found.add_flat(Line(seq, Source.CALL, name), asked, even_if_empty=True)
        end = len(self.found.units)
        self._called[str(call.get("id"))] = _Called(name, place, first, end, refers)

    def result(self, seq: int, message: Mapping[str, Any], content: str) -> None:
        """A tool's result."""
        # The newest call with this id: agents reuse ids within one session.
        called = self._called.pop(str(message.get("tool_call_id")), _NOBODY)
        line = Line(seq, Source.RESULT, safe_name(message.get("name") or called.name))
        content = self._references.read(content)
        if called.refers:
            content = without_references(content, called.refers)
        if called.place is not None:
            self._answer(line, called.place, content)
        elif not self._told_with(called, content):
            own = self.found.units[called.first : called.end]
            asked = frozenset(unit.text[unit.body_at :] for unit in own if unit.body_at)
            _add_content(self.found, line, content, asked, " ".join(unit.text for unit in own))

    def _act(self, seq: int, action: Action) -> int:
        line = Line(seq, Source.CALL, action.name)
        return self.found.add_action(line, action.text, action.role, blocks(action.written))

    def _told_with(self, called: _Called, content: str) -> bool:
        """Whether the answer is so short that the call's last field tells it, and so it does."""
        if called.end == called.first or len(content) > _SHORT_ANSWER:
            return False
        unit = self.found.units[called.end - 1]
        answer = telling_lines(content) if unit.body_at else []
        if not answer or len(unit.text) > _SHORT_ANSWER or parse_json(content) is not None:
            return False
        told = f"{unit.text}{CAME_OF_IT}{' / '.join(answer)}"
        self.found.units[called.end - 1] = unit._replace(text=told)
        return True

    def _show(self, line: Line, came: str, quoted: list[str]) -> None:
        """Bring what was new on a screen to the order that led there."""
        if self._acted is not None:
            self._tell(self._acted, came)
        if quoted:
            self.found.add_text(line, quoted, Role.QUOTATION)

    def _tell(self, place: int, came: str) -> None:
        unit = self.found.units[place]
        self.found.units[place] = unit._replace(text=f"{unit.text}{CAME_OF_IT}{came}")

    def _answer(self, line: Line, place: int, content: str) -> None:
        """Bring the output to its action; what is long and not only confirms, is quoted too."""
        answer = answer_in(content)
        if not isinstance(answer, str):
            self.found.add_flat(line, answer)
            return
        lines = telling_lines(answer)
        if len(lines) > 1 and lines[0] in self._usual:
            lines = lines[1:]
        role = self.found.units[place].role
        marks = "" if lines else only_marks(answer)
        self._tell(place, marks or outcome(lines, role))
        if len(lines) > _SHORT and role is not Role.CHANGE and not is_short(lines, role):
            self.found.add_text(line, blocks(lines), Role.QUOTATION)


class _Called(NamedTuple):
    """A call that waits for its answer.

    Attributes:
        place: of the action it is; None if it is a record.
        first: of its units; those before ``end`` are its own.
        refers: the references to a page's parts that it was given.
    """

    name: str
    place: int | None
    first: int
    end: int
    refers: tuple[str, ...] = ()


_NOBODY: Final = _Called("", None, 0, 0)

_SHORT_ANSWER: Final = 240
"""A field and what came of it, each within so many characters, are told together."""

_SHORT: Final = 3
"""So few lines of output stand beside the action itself."""


_SOURCES: Final = {
    "user": Source.USER,
    "system": Source.SYSTEM,
    "developer": Source.SYSTEM,
}


def _add_content(
    into: Units, line: Line, content: str, asked: frozenset[str] = frozenset(), call: str = ""
) -> None:
    """What a text says, or states in JSON; ``asked`` is what a tool was given for it in a call."""
    flat = fields_in(content, asked)
    if flat and call:
        flat = without_echoes(flat, call)
        if not flat:
            return
    if flat:
        into.add_flat(line, flat)
    else:
        texts = list(sentences(content))
        # Code and logs in a message are quotations, whoever pasted them.
        roles = [Role.QUOTATION if quoted else Role.SAID for quoted in coded(texts)]
        into.add_texts(line, texts, roles)
