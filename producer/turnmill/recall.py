"""The ``recall`` tool: what a model is told of it, asks by it, and is answered; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from turnmill.contract.context import JsonMessage
from turnmill.contract.marks import author, quoted, quoted_entry
from turnmill.contract.names import MAX_SEQ
from turnmill.contract.render import RECALLED, memory_line
from turnmill.contract.results import GroundedMemory

if TYPE_CHECKING:
    from turnmill.contract.trajectory import TrajectoryTurn

NAME: Final = "recall"
DESCRIPTION: Final = (
    "Search the earlier turns of this conversation that are no longer in front of you, and what "
    "other conversations left to remember. Use it before you ask again or guess, for what was "
    "said, decided, found or agreed: names, numbers, dates, preferences, results. The answer "
    "quotes passages, each with its turn and its speaker, and its session if it is another. With "
    "turn instead of query, it quotes that turn whole."
)
PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What to look for, in words likely to have been said: names, numbers, "
            "the subject. It is matched by words, not by meaning.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 20,
            "description": "At most this many passages of this conversation; 5 if left out.",
        },
        "turn": {
            "type": "integer",
            "minimum": 1,
            "description": "Instead of a query: the number of a turn of this conversation, to read "
            "all of it word for word, with the calls and results that were shortened or left out.",
        },
        "part": {
            "type": "integer",
            "minimum": 1,
            "description": "Of a long turn, the part to read; the answer says how many there are.",
        },
    },
    "required": [],
    "additionalProperties": False,
}
"""The arguments as a JSON schema: the same in every API's shape of a tool."""

NOT_NOW: Final = (
    f"{NAME}: the memory cannot be searched just now. Go on without it and say what you could not "
    "look up, or try once more later."
)

_NOTHING: Final = (
    f"{NAME}: nothing is remembered about that. Try other words, as they may have been said, or "
    "go on without it."
)
_END: Final = "[End]"
_MOST_LINE: Final = 1_200
"""Characters of one line: a passage and where it is from; notes and summaries may be longer."""


def _or_null(schema: dict[str, Any]) -> None:
    for name, field in schema["properties"].items():
        if "type" in field:
            schema["properties"][name] = {"anyOf": [field, {"type": "null"}]}


class Recall(
    BaseModel, frozen=True, extra="ignore", hide_input_in_errors=True, json_schema_extra=_or_null
):
    """What a model asks for."""

    # Extra fields are ignored: models add some of their own invention, which harm nobody.

    query: str = Field(default="", max_length=1_000)
    limit: int = Field(default=5, ge=1, le=20)
    turn: int | None = Field(default=None, ge=1, le=MAX_SEQ)
    part: int = Field(default=1, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, fields: Any) -> Any:
        # Models that must name every argument give null for what they leave out.
        named = fields.items() if isinstance(fields, Mapping) else None
        return {key: value for key, value in named if value is not None} if named else fields

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.query or self.turn is not None:
            return self
        raise ValueError("give a query or a turn")

    @property
    def others(self) -> int:
        """How many memories from elsewhere come after those of the session."""
        return (self.limit + 1) // 2


def chat_schema() -> dict[str, Any]:
    """The tool as chat completions take it in ``tools``."""
    function = {"name": NAME, "description": DESCRIPTION, "parameters": dict(PARAMETERS)}
    return {"type": "function", "function": function}


def asked(arguments: str | bytes | Mapping[str, Any] | None) -> Recall | str:
    """What the model asks for; or, where it cannot be understood, what to answer."""
    try:
        if isinstance(arguments, str | bytes):
            return Recall.model_validate_json(arguments)
        return Recall.model_validate(arguments)
    except ValidationError as error:
        # Without the values: they may be long, and the model knows them.
        wrong = "; ".join(
            ": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"])))
            for item in error.errors(include_url=False, include_input=False)[:3]
        )
        likely = '{"query": "delivery address"} or {"turn": 12}'
        return f"{NAME}: bad arguments ({wrong}). Call it like {likely}."


def answered(wanted: Recall, session: str, found: Sequence[GroundedMemory], max_chars: int) -> str:
    """What was found as text of at most so many characters: first what the session said.

    A memory is one line, whatever it holds, and cannot end the list. One that does not fit is left
    out. The session's summary stands in its context already.
    """
    own = [each for each in found if each.session == session and each.kind != "summary"]
    others = [each for each in found if each.session != session]
    told = {each.id: each for each in (*own[: wanted.limit], *others[: wanted.others])}
    lines: list[str] = []
    left = max_chars - len(RECALLED) - len(_END) - 1
    for memory in told.values():
        line = memory_line(memory, own=session)
        if len(line) > _MOST_LINE:
            line = f"{line[: _MOST_LINE - 2]} …"
        if len(line) < left:
            lines.append(line)
            left -= len(line) + 1
    return "\n".join((RECALLED, *lines, _END)) if lines else _NOTHING


def quoted_turn(turn: TrajectoryTurn, part: int, max_chars: int) -> str:
    """A turn word for word, or the part of it that fits into so many characters.

    Each message has its speaker, each call its arguments. What reads as our own words is marked.
    """
    if turn.state != "kept":
        return f"{NAME}: turn {turn.seq} is no part of the conversation any more: {turn.state}."
    parts = list(_parts(_said(turn), max(max_chars - _FRAME, _LEAST)))
    if part > len(parts):
        return f"{NAME}: turn {turn.seq} has {len(parts)} parts: there is no part {part}."
    lines = [f"- (turn {turn.seq}, {who}) {quoted_entry(text)}" for who, text in parts[part - 1]]
    more = f": part {part + 1} goes on" if part < len(parts) else ""
    end = f"[End of part {part} of {len(parts)} of turn {turn.seq}{more}]"
    return "\n".join((RECALLED, *lines, end if len(parts) > 1 else _END))


_FRAME: Final = 200
"""Characters around the lines of a part, generously."""
_BESIDE: Final = 32
"""Characters of a line beside who speaks and what is said, generously."""
_LEAST: Final = 400
"""Characters of a part; a text is begun where half of it or of them fit."""
_MOST_NAME: Final = 64


def _said(turn: TrajectoryTurn) -> Iterator[tuple[str, str]]:
    """Who says what, in order; the names of tools that are called are part of who."""
    called: dict[object, str] = {}
    for message in turn.messages:
        who = author(message)
        if name := message.get("name") or called.get(message.get("tool_call_id")):
            who = f"{who} {_named(name)}"
        yield from ((who, text) for text in _texts(message))
        for call in message.get("tool_calls") or ():
            function = call.get("function") or call.get("custom") or {}
            called[call.get("id")] = name = _named(function.get("name", call.get("type")))
            yield f"{who} calls {name}", str(function.get("arguments", function.get("input", "")))


def _named(name: object) -> str:
    return quoted(" ".join(str(name).split()))[:_MOST_NAME]


def _texts(message: JsonMessage) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield content
    for each in content if isinstance(content, list) else ():
        kind = str(each.get("type")).removesuffix("_url")
        yield each["text"] if isinstance(each.get("text"), str) else f"[{kind}, not shown here]"


def _parts(said: Iterable[tuple[str, str]], room: int) -> Iterator[list[tuple[str, str]]]:
    """What is said in parts of at most so many characters; what is too long goes on in the next."""
    part: list[tuple[str, str]] = []
    left = room
    for who, text in said:
        start, end = 0, -1
        while end < len(text):
            most = left - len(who) - _BESIDE
            if part and most < min(len(text) - start, _LEAST // 2):
                yield part
                part, left = [], room
                continue
            end = min(start + most, len(text))
            part.append((who, text[start:end]))
            left, start = most - (end - start), end
    yield part
