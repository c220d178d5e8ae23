"""The calls of every step without the framework's cost: the same functions, documented by it.

A step of the client takes 350 µs of a core. It took 890 through FastAPI's routes and dependencies
(Litestar's cost a quarter less than those), and takes 500 where three words of a path name it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from turnmill.client._async.client import AsyncContextClient
from turnmill.contract.codec import decode_json
from turnmill.contract.errors import TurnmillError
from turnmill.server import routes
from turnmill.server.bodies import Beside, DialectName, PushBody
from turnmill.server.problems import invalid, of_http, problem_of
from turnmill.server.tenants import Tenants


class _Asked(BaseModel, extra="forbid"):
    dialect: DialectName = ""
    beside: Beside = 0


class _Call(NamedTuple):
    path: str
    answer: Callable[[AsyncContextClient, str, bytes, _Asked], Awaitable[Response]]


def _turn(body: bytes) -> PushBody:
    try:
        return PushBody.model_validate_json(body)
    except ValidationError:
        with suppress(ValueError):  # half a surrogate pair, as a language without UTF-8 cuts one
            return PushBody.model_validate(decode_json(body))
        raise


_PREFIX: Final = "/v1/sessions/"
_CALLS: Final = {
    ("POST", "turns"): _Call(
        "/v1/sessions/{session}/turns",
        lambda client, session, body, _: routes.push(client, session, _turn(body)),
    ),
    ("GET", "context"): _Call(
        "/v1/sessions/{session}/context",
        lambda client, session, _, asked: routes.read(client, session, asked.dialect, asked.beside),
    ),
    ("POST", "step"): _Call(
        "/v1/sessions/{session}/step",
        lambda client, session, body, asked: routes.step(
            client, session, _turn(body), asked.dialect, asked.beside
        ),
    ),
}
_PLAIN: Final = _Asked()


class Swift:
    """Answers those calls, and leaves all others to the app."""

    def __init__(self, app: Any, tenants: Tenants) -> None:
        self._app = app
        self._tenants = tenants

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            session, _, what = scope["path"][len(_PREFIX) :].partition("/")
            call = _CALLS.get((scope["method"], what))
            request = Request(scope, receive)
            # A page in a browser may send a body of another type without being asked whether.
            if call and (scope["method"] == "GET" or _is_json(request)):
                scope["route"] = call
                answer = await self._answer(request, call, unquote(session))
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, request: Request, call: _Call, session: str) -> Response:
        try:
            asked = _PLAIN
            if query := request.scope["query_string"]:
                asked = _Asked.model_validate(dict(parse_qsl(query.decode("latin-1"))))
            body = await request.body()
            client = self._tenants.client(request.state.namespace)
            return await call.answer(client, session, body, asked)
        except TurnmillError as error:
            return problem_of(error)
        except HTTPException as error:
            return of_http(error)
        except ValidationError as error:
            return invalid(error)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"
