"""Every call: a path, the client's method behind it, and what is answered."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException

from turnmill.contract.codec import encode_json
from turnmill.contract.context import Pushed
from turnmill.contract.errors import InvalidInput, TurnmillError
from turnmill.contract.names import session_id
from turnmill.contract.results import (
    Bill,
    ContextInfo,
    Forgotten,
    Forked,
    GroundedContext,
    RollbackResult,
    SessionPage,
    SummarizationResult,
)
from turnmill.recall import Recall
from turnmill.server.bodies import (
    Beside,
    DialectName,
    ForkBody,
    InstructBody,
    OpenBody,
    PushBody,
    Read,
    RememberBody,
    RewindBody,
    RuleId,
    RuleInForce,
    Session,
    SummarizeBody,
    read_of,
)
from turnmill.server.events import MOST_STREAMS, Events
from turnmill.server.tenants import Client

_PROBLEM: Final = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"description": "The request cannot be met as it is.", "content": _PROBLEM},
    "5XX": {"description": "It may be met later, or tells why not.", "content": _PROBLEM},
}


def _only_known(request: Request) -> None:
    """Refuse a misspelled parameter, which the framework would pass over."""
    known = {field.alias for field in request.scope["route"].dependant.query_params}
    if unknown := sorted(request.query_params.keys() - known):
        allowed = ", ".join(sorted(known)) or "none"
        raise InvalidInput(f"{unknown[0]}: no parameter of this call; allowed: {allowed}")


router: APIRouter = APIRouter(prefix="/v1", responses=PROBLEMS, dependencies=[Depends(_only_known)])
ONE: Final = "/sessions/{session}"


class _Json(Response):
    """JSON that is made of values the library vouches for."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode_json(content)


# --- a session and its turns ----------------------------------------------------------------------


@router.get("/sessions", operation_id="sessions")
async def sessions(
    client: Client,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    after: Annotated[str, Query(description="What the page before said; none: the first.")] = "",
) -> SessionPage:
    """Sessions of the namespace, the most recently pushed first, a page at a time."""
    return await client.sessions_page(after, limit=limit)


@router.get("/usage", operation_id="usage")
async def usage(
    client: Client,
    by: Annotated[str, Query(description="Any of session, day, model, with commas.")] = "day",
) -> list[Bill]:
    """What the namespace's compactions saved and cost, of the sessions that are there."""
    return await client.usage(by)


@router.put(ONE, operation_id="open", status_code=204)
async def open_session(client: Client, session: Session, body: OpenBody) -> None:
    """Open a session, or change its policy, system prompt or tools."""
    await client.open(session, body.policy, body.system_prompt, tools=body.tools)


@router.get(ONE, operation_id="info")
async def info(client: Client, session: Session) -> ContextInfo:
    """The session in numbers, without its content."""
    return await client.info(session)


@router.delete(ONE, operation_id="forget")
async def forget(client: Client, session: Session) -> Forgotten:
    """Remove the session from Redis at once, and from the archive soon."""
    return await client.forget(session)


@router.post(f"{ONE}/turns", operation_id="push", response_model=Pushed)
async def push(client: Client, session: Session, body: PushBody) -> Response:
    """Append a turn."""
    done = await client.push(session, body.turn, usage=body.usage, on_too_large=body.on_too_large)
    return _Json(done)


@router.get(f"{ONE}/context", operation_id="read", response_model=Read)
async def read(
    client: Client, session: Session, dialect: DialectName = "", beside: Beside = 0
) -> Response:
    """The context as of now: never waits for a worker, never over the hard limit."""
    return _Json(read_of(await client.read(session, beside=beside), dialect))


@router.post(f"{ONE}/step", operation_id="step", response_model=Read)
async def step(
    client: Client,
    session: Session,
    body: PushBody,
    dialect: DialectName = "",
    beside: Beside = 0,
) -> Response:
    """Append a turn and answer with the context: one round trip for both."""
    context = await client.step(
        session, body.turn, usage=body.usage, beside=beside, on_too_large=body.on_too_large
    )
    return _Json(read_of(context, dialect))


@router.post(f"{ONE}/summarize", operation_id="summarize")
async def summarize(
    client: Client,
    session: Session,
    body: SummarizeBody = SummarizeBody(),  # noqa: B008 - frozen
) -> SummarizationResult:
    """Summarize all but the newest turns now, whatever the limits say."""
    return await client.summarize(session, template=body.template, timeout_s=body.timeout_s)


@router.get(f"{ONE}/transcript", operation_id="transcript")
async def transcript(client: Client, session: Session) -> dict[Literal["text"], str]:
    """The whole session as markdown, whatever was compacted."""
    return {"text": await (await client.manager(session)).transcript()}


# --- rules and memories ---------------------------------------------------------------------------


@router.get(f"{ONE}/rules", operation_id="rules")
async def rules(client: Client, session: Session) -> list[RuleInForce]:
    """The user's rules in force, oldest first."""
    found = await client.rules(session)
    return [RuleInForce(id=r.id, seq=r.seq, text=r.text, revised=r.revised) for r in found]


@router.post(f"{ONE}/rules", operation_id="instruct")
async def instruct(client: Client, session: Session, body: InstructBody) -> Pushed:
    """Append a user's turn whose whole text is a rule."""
    return await (await client.manager(session)).instruct(body.text)


@router.delete(f"{ONE}/rules/{{rule}}", operation_id="revoke")
async def revoke(client: Client, session: Session, rule: RuleId) -> Pushed:
    """Append a user's turn that ends a rule."""
    if all(each.id != rule for each in await client.rules(session)):
        raise HTTPException(404, f"rule {rule}: none of this id is in force")
    return await (await client.manager(session)).revoke(rule)


@router.post(f"{ONE}/recall", operation_id="recall")
async def recall(
    client: Client,
    session: Session,
    wanted: Recall,
) -> dict[Literal["text"], str]:
    """What the session's earlier turns and other sessions say, or one turn, for its own model."""
    tool = (await client.manager(session_id(session))).recall_tool
    return {"text": await tool.handle(wanted.model_dump())}


@router.get("/memories", operation_id="ground")
async def ground(
    client: Client,
    query: Annotated[str, Query(min_length=1, max_length=1_000)],
    k: Annotated[int, Query(ge=1, le=100)] = 5,
    session: Annotated[str | None, Query()] = None,
) -> GroundedContext:
    """What the namespace remembers, or one session of it, the most relevant first."""
    return await client.ground(query, k, session=session)


@router.post("/memories", operation_id="remember")
async def remember(client: Client, body: RememberBody) -> dict[Literal["id"], str]:
    """Have the namespace remember a text."""
    return {"id": await client.remember(body.text, timeout_s=body.timeout_s)}


# --- going back -----------------------------------------------------------------------------------


@router.post(f"{ONE}/fork", operation_id="fork")
async def fork(client: Client, session: Session, body: ForkBody) -> Forked:
    """Begin another session as this one was after a turn."""
    return await client.fork(session, body.new_session, at=body.at, timeout_s=body.timeout_s)


@router.post(f"{ONE}/rewind", operation_id="rewind")
async def rewind(client: Client, session: Session, body: RewindBody) -> RollbackResult:
    """Go back to before a turn, and push it anew as it should have been."""
    return await client.rewind(session, at=body.at, timeout_s=body.timeout_s)


_STREAM: Final = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get(
    "/events",
    operation_id="events",
    response_class=StreamingResponse,
    responses={200: {"description": "Server-sent events: `commit`, a compaction.", **_STREAM}},
)
async def events(
    request: Request, client: Client, session: Annotated[str, Query()] = ""
) -> StreamingResponse:
    """Commits of the namespace, or of one session, as they happen, until somebody hangs up."""
    heard: Events = request.app.state.events
    if heard.open_of(client.namespace) >= MOST_STREAMS:
        told = f"events: {MOST_STREAMS} streams of the namespace are open already"
        raise HTTPException(429, told, {"Retry-After": "5"})

    async def may_hear() -> bool:
        with suppress(HTTPException, TurnmillError):
            await request.app.state.tenants.named(request.headers.get("authorization"))
            return True
        return False

    stream = heard.of(client.namespace, session, may_hear)
    return StreamingResponse(
        stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


health: APIRouter = APIRouter(responses={"5XX": PROBLEMS["5XX"]})


@health.get("/healthz", operation_id="healthz")
async def healthz() -> dict[Literal["status"], str]:
    """Whether the server runs."""
    return {"status": "ok"}


@health.get("/readyz", operation_id="readyz")
async def readyz(request: Request) -> dict[Literal["status"], str]:
    """Whether the store answers."""
    await request.app.state.tenants.is_ready()
    return {"status": "ok"}
