"""Errors as answers: ``application/problem+json`` with the error's own name (RFC 9457)."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from turnmill.contract import errors
from turnmill.contract.codec import encode_json
from turnmill.contract.errors import QuotaExceeded, Transient, TurnmillError

MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[Mapping[type[TurnmillError], int]] = {
    errors.TurnTooLarge: 413,
    errors.TurnConflict: 409,
    errors.InvalidInput: 422,
    errors.UnknownSession: 404,
    errors.UnknownPolicy: 404,
    errors.NoCheckpoint: 404,
    errors.NotPermitted: 403,
    errors.QuotaExceeded: 429,
    errors.StoreFull: 507,
    errors.SessionBusy: 409,
    errors.NotAnswered: 504,
    errors.Transient: 503,
    errors.TurnmillError: 500,
}
"""By the error's type, else by the next one above it."""


_ADDRESS: Final = re.compile(r"Redis at \S+")


class Problem(BaseModel):
    """Why a call failed.

    Attributes:
        type: names the kind of problem, as a URN.
        title: the status in words.
        status: the HTTP status.
        detail: what was wrong and what is allowed; never content.
        error: the name of turnmill's error, or of HTTP's.
        transient: the same call may succeed later.
        retry_after_s: seconds to wait before.
    """

    type: str
    title: str
    status: int
    detail: str
    error: str
    transient: bool = False
    retry_after_s: float | None = None


def problem(
    status: int,
    error: str,
    detail: str,
    *,
    retry_after_s: float | None = None,
    transient: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer that tells of it."""
    told = Problem(
        type=f"urn:turnmill:error:{error}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        error=error,
        transient=transient,
        retry_after_s=retry_after_s,
    )
    wait = {} if retry_after_s is None else {"Retry-After": str(math.ceil(retry_after_s))}
    body = encode_json(told.model_dump(exclude_none=True))
    return Response(body, status, {**(headers or {}), **wait}, MEDIA_TYPE)


def problem_of(error: TurnmillError) -> Response:
    """The answer for an error of turnmill's."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    transient = isinstance(error, Transient)
    after = error.retry_after_s if isinstance(error, QuotaExceeded) else None
    after = 1.0 if transient and after is None else after
    name = type(error).__name__
    return problem(status, name, detail_of(error), retry_after_s=after, transient=transient)


def detail_of(error: TurnmillError) -> str:
    """What a tenant is told: the error's message, without where Redis is."""
    return _ADDRESS.sub("Redis", str(error))


def of_http(error: Any) -> Response:
    """The answer for an error of HTTP."""
    status, told = HTTPStatus(error.status_code), str(error.detail)
    if told == status.phrase:
        told = "there is no such call: /openapi.json describes all"
    name = status.name.title().replace("_", "")
    transient = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    return problem(status, name, told, transient=transient, headers=error.headers)


def invalid(error: Any) -> Response:
    """The answer to what is not as documented; without values, which are content."""
    found = error.errors()
    # Of a policy that may be a name, too, what is wrong with it says more than that it is no name.
    found = [item for item in found if item["loc"][-1:] != ("str",)] or found
    told = "; ".join(
        f"{_place(item['loc'])}: {item['msg'].removeprefix('Value error, ')}" for item in found[:5]
    )
    return problem(422, "InvalidInput", told)


def _place(loc: Sequence[str | int]) -> str:
    """Where it is, without the names of validators: ``body.policy``."""
    return ".".join(str(part) for part in loc if "[" not in str(part)) or "body"


def unforeseen(error: Exception) -> Response:
    """The answer to what nobody foresaw: by its kind alone, as its text may hold content."""
    return problem(500, "InternalError", f"the server failed ({type(error).__name__})")


def answer_with_problems(app: FastAPI) -> None:
    """Have every error of this app answered so."""
    answers = {
        TurnmillError: problem_of,
        RequestValidationError: invalid,
        HTTPException: of_http,
        Exception: unforeseen,
    }
    for kind, answer in answers.items():
        app.add_exception_handler(kind, _handler(answer))

    async def other_method(request: Request, error: Any) -> Response:
        if methods := _methods(app.openapi()["paths"], request.url.path):
            error.headers = {"Allow": ", ".join(methods)}
        return of_http(error)

    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, other_method)


def _methods(paths: Mapping[str, Any], path: str) -> list[str]:
    """What may be done at a path; the framework tells of its first route alone."""
    parts = path.split("/")
    for known, calls in paths.items():
        names = known.split("/")
        if len(names) == len(parts) and all(
            name in ("{session}", "{rule}", part) for name, part in zip(names, parts, strict=True)
        ):
            return [method.upper() for method in calls]
    return []


def _handler(answer: Callable[[Any], Response]) -> Callable[[Request, Any], Awaitable[Response]]:
    async def handle(_: Request, error: Any) -> Response:
        return answer(error)

    return handle
