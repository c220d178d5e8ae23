"""Turns and messages: what an agent pushes. Frozen, and valid at birth.

Messages have the shape of the OpenAI chat API and keep every field they came with, also those
that only providers read (``refusal``, ``reasoning_content``, ``cache_control``): what is read back
is what was pushed. Fields that no provider takes are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticSerializationError

from turnmill.contract.codec import MAX_DEPTH, encode_exactly, encode_json, is_deep, sendable
from turnmill.contract.errors import InvalidTurn, TurnTooLarge
from turnmill.contract.fields import (
    CALL,
    FUNCTION,
    MESSAGE,
    OWN,
    PART,
    TURN,
    no_field,
    wrong_in,
)
from turnmill.contract.formats import stamp
from turnmill.contract.image_tokens import is_base64

_KNOWN: Final = frozenset(
    {
        *("text", "image_url", "input_audio", "file", "refusal"),
        *("image", "document", "search_result", "container_upload", "input_image", "input_file"),
        "tool_reference",
    }
)
"""Those of the chat API, and what other dialects show by a reference only."""

_TYPE = re.compile(r"[a-z][a-z0-9_]{0,39}")


def unreadable(kind: object, known: Iterable[str]) -> str:
    """What is wrong with a part of this type; names it if it looks like a type, and not content."""
    named = isinstance(kind, str) and _TYPE.fullmatch(kind)
    said = f"type {kind}" if named else "another type"
    return f"a part of {said} cannot be read; known are {', '.join(sorted(known))}"


def known_type(kind: str) -> str:
    """The type, if a part may have it.

    Raises:
        ValueError: nobody here can read such a part.
    """
    if kind not in _KNOWN:
        raise ValueError(unreadable(kind, _KNOWN))
    return kind


DEFAULT_MAX_TURN_BYTES = 1024 * 1024
ROLES = ("system", "developer", "user", "assistant", "tool")
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(;[\w.+-]+=[\w.+-]+)*;base64,")
_CLOSED = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _Open(BaseModel):
    """A model that keeps the fields that providers know, as long as they are JSON."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", hide_input_in_errors=True
    )
    known: ClassVar[frozenset[str]]
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    @model_validator(mode="after")
    def _other_fields_are_known_and_json(self) -> Self:
        if self.__pydantic_extra__:
            if said := wrong_in(self.__pydantic_extra__, self.known):
                raise _wrong_field(said)
            check_json(self.__pydantic_extra__)
        return self


def _wrong_field(said: str) -> PydanticCustomError:
    return PydanticCustomError(_WRONG_FIELD, "{said}", {"said": said})


_WRONG_FIELD: Final = "wrong_field"


def check_json(value: Any) -> Any:
    """The value, if it is JSON and no deeper than any reader can take.

    Raises:
        ValueError: it is not.
    """
    if is_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("not JSON: NaN and infinities are not numbers there") from None
    return value


def _check_image(value: dict[str, Any]) -> dict[str, Any]:
    """As ``check_json``, but skips the URL: any string is JSON, and it may hold megabytes."""
    check_json({key: item for key, item in value.items() if not isinstance(item, str)})
    return value


class Function(_Open):
    """The function a tool call names, and its arguments as JSON text."""

    known = FUNCTION

    name: str = Field(min_length=1)
    arguments: str


class ToolCall(_Open):
    """One call an assistant message makes; its result is a later message of role ``tool``."""

    known = CALL

    id: str = Field(min_length=1)
    type: str = "function"
    function: Function | None = None

    @model_validator(mode="after")
    def _function_is_named(self) -> Self:
        if self.type == "function" and self.function is None:
            raise ValueError("a call of type function needs function.name and function.arguments")
        if self.function is None:
            custom = self.__pydantic_extra__.get("custom")
            said = map(custom.get, ("name", "input")) if isinstance(custom, dict) else (None,)
            if not all(isinstance(value, str) for value in said):
                raise ValueError("a call needs function or custom, with custom.name, custom.input")
        return self


class Part(_Open):
    """One part of a message's content: text, an image, audio, a file."""

    known = PART

    type: Annotated[str, AfterValidator(known_type)]
    text: str | None = None
    image_url: Annotated[dict[str, JsonValue], AfterValidator(_check_image)] | None = None

    @model_validator(mode="after")
    def _has_what_its_type_says(self) -> Self:
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type text needs text")
        if self.type == "image_url":
            check_image_url((self.image_url or {}).get("url"))
            if said := wrong_in({"image_url": self.image_url}, PART):
                raise _wrong_field(said)
        elif self.type != "text":
            _check_part(self.type, self.__pydantic_extra__)
        return self


def _check_part(kind: str, fields: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a part that lacks what its type needs: every provider refuses it."""
    name, needed, said = _NEEDS[kind]
    holder = fields.get(name) if name else fields
    given = map(holder.get, needed) if isinstance(holder, Mapping) else ()
    if not any(isinstance(value, str | list) for value in given):
        raise ValueError(f"a part of type {kind} needs {said}")


_SOURCE: Final = (
    "source",
    ("file_id", "url", "content"),
    "source with data and media_type, url, file_id or content",
)
_NEEDS: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "refusal": ("", ("refusal",), "refusal"),
    "container_upload": ("", ("file_id",), "file_id"),
    "tool_reference": ("", ("tool_name",), "tool_name"),
    "search_result": ("", ("content",), "content"),
    "input_audio": ("input_audio", ("data",), "input_audio.data"),
    "file": ("file", ("file_data", "file_id"), "file.file_data or file.file_id"),
    "image": _SOURCE,
    "document": _SOURCE,
    "input_image": ("", ("image_url", "file_id"), "image_url or file_id"),
    "input_file": ("", ("file_data", "file_id", "file_url"), "file_data, file_id or file_url"),
}
"""By the type of a part: in which field, or in itself, there must be one of these; in words."""


def check_image_url(url: object) -> None:
    """Accept an http(s) or file URL, or a well-formed base64 data URL.

    Raises:
        ValueError: says what kind of value it got and what is allowed.
    """
    if not isinstance(url, str):
        raise ValueError(f"image_url.url must be a str, got {type(url).__name__}")  # noqa: TRY004
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://", "file:")):
            raise ValueError("image_url.url must be a data:, http(s): or file: URL")
        return
    head = _DATA_URL.match(url)
    if head is None:
        raise ValueError("malformed data URL: must be data:<type>/<subtype>;base64,<data>")
    if not is_base64(url[head.end() :]):
        raise ValueError(
            f"malformed data URL: its {len(url) - head.end()} characters of data are not base64"
        )


class Message(_Open):
    """One message in the shape of the OpenAI chat API."""

    known = MESSAGE

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[Part, ...] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _empty_content_is_text(cls, value: Any) -> Any:
        return with_content(value) if isinstance(value, Mapping) else value

    @field_validator("role", mode="before")
    @classmethod
    def _role_is_known(cls, value: object) -> object:
        if value not in ROLES:
            got = f"a str of {len(value)} characters" if isinstance(value, str) else _kind(value)
            raise ValueError(f"unknown role: got {got}; allowed are {', '.join(ROLES)}")
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("a message of role tool needs tool_call_id")
        given = self.model_fields_set | (self.__pydantic_extra__ or {}).keys()
        for name, role in _OF_ROLE.items():
            if name in given and self.role != role:
                raise ValueError(f"{name} is for role {role}, not {self.role}")
        spoken = (self.__pydantic_extra__ or {}).get("audio")
        if isinstance(spoken, dict) and not isinstance(spoken.get("id"), str):
            raise ValueError("audio needs id")  # noqa: TRY004 - pydantic takes no other
        if self.content is None and self.role != "assistant":
            raise ValueError(f"a message of role {self.role} needs content")
        parts = self.content if isinstance(self.content, tuple) else ()
        if self.role != "assistant" and any(part.type == "refusal" for part in parts):
            raise ValueError(f"a part of type refusal is for role assistant, not {self.role}")
        return self


_OF_ROLE: Final = {
    **dict.fromkeys(("tool_calls", "refusal", "audio", "function_call"), "assistant"),
    "tool_call_id": "tool",
}
"""Fields that a message of another role may not have."""


def with_content(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with ``""`` for no content, and without null fields, empty calls, ids, refusals.

    No provider takes those, though SDKs dump them; the same message if it has none. An assistant's
    content may be None beside what else it says.
    """
    if any(map(_says_nothing, message.items())):
        message = dict(item for item in message.items() if not _says_nothing(item))
    content = message.get("content")
    is_empty = isinstance(content, list | tuple) and not content
    is_silent = content is None and message.get("role") == "assistant"
    if is_empty or (is_silent and not any(map(message.get, _SAID_BESIDE))):
        return {**message, "content": ""}
    return message


def _says_nothing(item: tuple[str, Any]) -> bool:
    name, value = item
    if name in {"tool_calls", "tool_call_id", "refusal"}:
        return not value
    return value is None and name not in {"role", "content"} and not name.startswith(OWN)


_SAID_BESIDE: Final = ("tool_calls", "function_call", "refusal", "audio", "native")


class Turn(BaseModel):
    """One or more messages pushed together; gets one seq and is never split.

    Attributes:
        messages: at least one.
        turn_id: pushing the same id again is a no-op; the client makes one up when it is absent.
        iteration: the agent loop's own step number, when it counts them.
        metadata: JSON the agent wants back with its transcript; never sent to a model.
        pinned: keep this turn word for word in every context.
    """

    model_config = _CLOSED

    messages: tuple[Message, ...] = Field(min_length=1)
    turn_id: str | None = Field(default=None, min_length=1, max_length=200)
    iteration: int | None = Field(default=None, ge=0)
    metadata: Annotated[dict[str, JsonValue], AfterValidator(check_json)] | None = None
    pinned: bool = False

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, value: object) -> object:
        names = value if isinstance(value, Mapping) else ()
        name = next((name for name in names if name not in TURN), None)
        if isinstance(name, str):
            raise _wrong_field(no_field(name, TURN, own=False))
        return value


_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])

TurnLike = Turn | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""What ``push`` accepts: a turn, a message, or a list of messages, as models or as mappings."""


def to_turn(value: object, *, turn_id: str | None = None) -> Turn:
    """A Turn from what ``push`` accepts: a turn, a message, or a list of messages.

    A mapping with ``messages`` is a turn, any other mapping is a message.

    Raises:
        InvalidTurn: names the field, the value's size or kind, and what is allowed.
    """
    try:
        turn = _coerced(value)
    except ValidationError as error:
        # Not chained: pydantic's error carries the input, which is the conversation.
        raise InvalidTurn(explain(error)) from None
    if turn_id is None:
        return turn
    if turn.turn_id not in (None, turn_id):
        raise InvalidTurn("turn_id: given both in the turn and in the call, and they differ")
    try:
        return Turn.model_validate({**dict(turn), "turn_id": turn_id})
    except ValidationError as error:
        raise InvalidTurn(explain(error)) from None


def _coerced(value: object) -> Turn:
    try:
        return _coerce(value)
    except ValidationError as error:
        # What is kept as it came is made sendable when it is written; what is checked cannot wait.
        if all(item["type"] != "string_unicode" for item in error.errors(include_url=False)):
            raise
    if isinstance(value, Mapping) and "messages" in value:
        return _coerce({**value, "messages": sendable(value["messages"])})
    return _coerce(sendable(value))


def _coerce(value: object) -> Turn:
    match value:
        case Turn():
            return value
        case Message():
            return Turn(messages=(value,))
        case Mapping() if "messages" in value:
            return Turn.model_validate(dict(value))
        case Mapping():
            return Turn.model_validate({"messages": (dict(value),)})
        case str() | bytes():
            raise InvalidTurn(
                f"turn: got a bare {type(value).__name__} of length {len(value)}; allowed are a "
                "Turn, a message with a role, or a list of messages"
            )
        case Sequence() if not value:
            raise InvalidTurn("messages: got an empty list; a turn has at least one message")
        case Sequence():
            return Turn.model_validate({"messages": tuple(value)})
        case _:
            raise InvalidTurn(
                f"turn: got {_kind(value)}; allowed are a Turn, a message, or a list of messages"
            )


def encode_turn(
    turn: Turn, *, max_bytes: int = DEFAULT_MAX_TURN_BYTES, under: str = ""
) -> tuple[bytes, bytes]:
    """The turn as stored: its messages as a JSON array, and its other fields as JSON or ``b""``.

    Thoughts carry along ``under`` which prefix they were thought.

    Raises:
        TurnTooLarge: the JSON is over ``max_bytes``.
    """
    messages, extras = _dump_messages(turn.messages), stamp()
    if turn.pinned or turn.metadata is not None or turn.iteration is not None:
        extras |= turn.model_dump(exclude={"messages", "turn_id"}, exclude_defaults=True)
    if under and may_think(messages):
        extras["under"] = under
    fields = encode_exactly(extras) if extras else b""  # metadata are the agent's own
    size = len(messages) + len(fields)
    if size > max_bytes:
        raise TurnTooLarge(f"turn: {size} bytes of JSON; at most {max_bytes} are allowed")
    return messages, fields


def may_think(body: bytes) -> bool:
    """Whether a stored turn may have thoughts; cheap."""
    return b'thinking"' in body


def _dump_messages(messages: tuple[Message, ...]) -> bytes:
    try:
        return _MESSAGES.dump_json(messages, exclude_unset=True)
    except PydanticSerializationError:  # half a surrogate pair
        return encode_json(_MESSAGES.dump_python(messages, exclude_unset=True))


def explain(error: ValidationError, *, names_are_content: bool = True) -> str:
    """What was wrong, field by field, without the values: for messages that reach logs.

    With ``names_are_content`` a field's name appears only when it is one of ours: in a turn, the
    names of unknown fields come from a conversation too.
    """
    found = error.errors(include_url=False, include_context=False)
    # A wrong item also empties its list, and a wrong part is no string either: say the cause only.
    causes = [item for item in found if not _is_consequence(item)] or found
    return "; ".join(
        _in_field(item, _path(item["loc"], names_are_content))
        if item["type"] == _WRONG_FIELD
        else f"{_path(item['loc'], names_are_content)}{_said(item)}{_got(item)}"
        for item in causes[:5]
    )


def _is_consequence(item: Any) -> bool:
    return item["type"] == "too_short" or (item["type"] == "string_type" and "str" in item["loc"])


def _in_field(item: Any, path: str) -> str:
    """What ``wrong_in`` said, behind the place of the message, the part or the turn it is in."""
    said: str = item["msg"]
    return f"{path.removesuffix(': ') or 'turn'}{said}".removeprefix("turn.")


def _path(loc: tuple[int | str, ...], names_are_content: bool) -> str:  # noqa: FBT001
    text = ""
    for part in loc[:_PATH_PARTS]:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part == "str" or part.startswith("tuple["):
            continue  # which branch of a union it was
        elif names_are_content and part not in _FIELD_NAMES:
            break
        else:
            text += f".{part}"
    return f"{text.lstrip('.') or 'value'}: " if loc else ""


_PATH_PARTS = 8
_FIELD_NAMES = frozenset(
    {name for model in (Turn, Message, Part, ToolCall, Function) for name in model.model_fields}
)


def _said(item: Any) -> str:
    if item["type"] == "tuple_type":  # as JSON and callers call it; of a union, what else it may be
        is_content = any(str(part).startswith("tuple[") for part in item["loc"])
        return "must be text or a list of parts" if is_content else "must be a list"
    if item["type"] == "string_unicode":
        return "must be text of whole characters, not half of one"
    return str(item["msg"].removeprefix("Value error, "))


def _got(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return " (an unknown field)"
    return "" if item["type"] == "value_error" else f" (got {_kind(item.get('input'))})"


def _kind(value: object) -> str:
    name = type(value).__name__
    return (
        f"{name} of length {len(value)}" if isinstance(value, str | bytes | list | dict) else name
    )
