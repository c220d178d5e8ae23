"""The ``recall`` tool: what a model is told of it, asks by it, and is answered; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from turnmill.contract.render import RECALLED, memory_line
from turnmill.contract.results import GroundedMemory

NAME: Final = "recall"
DESCRIPTION: Final = (
    "Search the earlier turns of this conversation that are no longer in front of you, and what "
    "other conversations left to remember. Use it before you ask again or guess, for what was "
    "said, decided, found or agreed: names, numbers, dates, preferences, results. The answer "
    "quotes passages, each with its turn and its speaker."
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
    },
    "required": ["query"],
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


class Recall(BaseModel, frozen=True, extra="ignore", hide_input_in_errors=True):
    """What a model asks for."""

    # Extra fields are ignored: models add some of their own invention, which harm nobody.

    query: str = Field(min_length=1, max_length=1_000)
    limit: int = Field(default=5, ge=1, le=20)

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
        return f'{NAME}: bad arguments ({wrong}). Call it like {{"query": "delivery address"}}.'


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
