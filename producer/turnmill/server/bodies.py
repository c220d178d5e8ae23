"""What requests and answers hold beside the library's own values."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from turnmill.contract.context import JsonMessage, Receipt
from turnmill.contract.formats import Strict
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.policy import Policy
from turnmill.push.too_large import OnTooLarge
from turnmill.read.context import Context

NAME: Final = {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:@/#+=~-]{0,199}$"}

Session = Annotated[str, Path(), AfterValidator(unquote), WithJsonSchema(NAME)]
"""A session's name in a path, where its ``/`` and ``#`` are encoded."""

RuleId = Annotated[str, Path(pattern=r"^[0-9]{1,15}(\.[0-9]{1,5})?$")]
DialectName = Annotated[
    Literal["", "chat", "anthropic", "responses"],
    Query(description="Of the answer's `request`; the session's own if left out."),
]
Beside = Annotated[
    int, Query(ge=0, le=10_000_000, description="Tokens of the request that turnmill is not told.")
]
Within = Annotated[float, Field(ge=1, le=120, description="Longest wait for a worker, seconds.")]
Seqno = Annotated[int, Field(strict=True)]
"""Not true or false, which JSON has beside numbers."""


class PushBody(Strict):
    """A turn: messages that belong together. Pushed again with its `turn_id` it is stored once."""

    messages: Annotated[list[JsonMessage], Field(min_length=1, description="In any dialect.")]
    turn_id: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    iteration: Annotated[int | None, Field(ge=0)] = None
    metadata: dict[str, Any] | None = None
    pinned: bool = False
    usage: Annotated[
        dict[str, Any] | int | None, Field(description="As the provider reported it.")
    ] = None
    on_too_large: OnTooLarge = "raise"

    @property
    def turn(self) -> dict[str, Any]:
        """The turn itself."""
        return self.model_dump(exclude={"usage", "on_too_large"}, exclude_none=True)


class OpenBody(Strict):
    """What to open a session with, or change in it; what is left out stays as it is."""

    policy: Annotated[
        Policy | str | None, Field(description="Or the name of one of the namespace's.")
    ] = None
    system_prompt: str | None = None
    tools: Annotated[list[JsonMessage] | None, Field(description="Their schemas.")] = None


class SummarizeBody(Strict):
    """How to summarize; the policy decides what is left out."""

    template: str = ""
    timeout_s: Within = 60


class InstructBody(Strict):
    """A rule, in the user's words."""

    text: str


class RememberBody(Strict):
    """A fact or a note that stands by itself."""

    text: str
    timeout_s: Within = 5


class ForkBody(Strict):
    """Where another session begins, by default now."""

    new_session: Annotated[str, WithJsonSchema(NAME)]
    at: Annotated[
        str | Seqno | None,
        Field(description="A turn's seq or id, a checkpoint's id, or a version: v3."),
    ] = None
    timeout_s: Within = 10


class RewindBody(Strict):
    """Before which turn to go back."""

    at: Annotated[str | Seqno, Field(description="A turn's seq or id.")]
    timeout_s: Within = 10


class Read(BaseModel):
    """A context. `request` goes to the model as it is, beside the model's name and the tools.

    Attributes:
        request: `messages` and, in the dialect anthropic, `system`; in responses `input` and
            `instructions`.
        left_out: what the dialect asked for has no way to say.
    """

    session: SessionId
    version: Version
    watermark: Seq
    last_seq: Seq
    tokens: int
    exact: bool
    projection: Receipt | None
    dialect: str
    request: dict[str, Any]
    left_out: list[str]


def read_of(context: Context, dialect: str) -> dict[str, Any]:
    """The fields of a ``Read``; not checked again, as a context may hold megabytes."""
    shown = dialect or context.dialect
    is_own = shown == context.dialect
    plain = is_own and shown == "chat"
    return {
        "session": context.session,
        "version": context.version,
        "watermark": context.watermark,
        "last_seq": context.last_seq,
        "tokens": context.tokens,
        "exact": context.exact,
        "projection": context.projection and context.projection.model_dump(),
        "dialect": shown,
        "request": {"messages": context.messages} if plain else context.request_for(shown),
        "left_out": [] if is_own else context.left_out_for(shown),
    }


class RuleInForce(BaseModel):
    """A rule in force; `id` ends it."""

    id: str
    seq: Seq
    text: str
    revised: Seq | None
