"""What every request passes first: its size, its host, its time; and names in paths stay whole."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Collection
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, NamedTuple, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from turnmill import telemetry
from turnmill.server.problems import problem, unforeseen

_log = logging.getLogger(__name__)

DEFAULT_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""A turn of the most bytes with images of the most bytes, in base64."""


BODY_S: Final = 30.0
"""Seconds in which more of a body must come."""

_HOST: Final = re.compile(r"(?:[a-z]+://)?(\[[^\]]*\]|[^:]*)(?::\d+)?")


class Served(NamedTuple):
    """One request that was answered.

    Attributes:
        method: of HTTP.
        route: with the names of its parts, such as ``/v1/sessions/{session}/step``, or ``""``.
        status: of the answer; 0 where none was sent.
        seconds: from the request's head to the end of the answer.
        namespace: that its key opened, or ``""``.
    """

    method: str
    route: str
    status: int
    seconds: float
    namespace: str


class OnServed(Protocol):
    """Whoever counts requests; called once for each, and must not wait."""

    def __call__(self, served: Served) -> None:
        """Take note of a request."""


def told(served: Served) -> None:
    """Tell OpenTelemetry of a request."""
    telemetry.request(served.method, served.route, served.status, served.seconds)


class Guard:
    """The outermost layer, around the app."""

    def __init__(
        self, inner: Any, max_body_bytes: int, hosts: Collection[str], on_served: OnServed
    ) -> None:
        self._inner = inner
        self._most = max_body_bytes
        self._hosts = frozenset(hosts)
        self._on_served = on_served

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        # A session's name may hold slashes: routes see it encoded, as it was sent.
        scope["path"] = scope["raw_path"].decode("latin-1")
        left, more = self._most, True

        async def receive_less() -> Any:
            nonlocal left, more
            try:
                async with asyncio.timeout(BODY_S if more else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"body: no more of it came in {BODY_S:.0f} s") from None
            more = message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, self._too_large())
            return message

        async def send_noted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            app = self._refused(dict(scope["headers"])) or self._inner
            await app(scope, receive_less, send_noted)
        except ClientDisconnect:
            pass  # nobody waits for an answer
        except Exception as error:  # noqa: BLE001 - any; not with its text, which may be content
            if not status:
                await unforeseen(error)(scope, receive, send_noted)
            _log.error("%s failed: %s", scope["method"], place_of(error))
        finally:
            self._on_served(_served(scope, status, time.perf_counter() - began))

    def _refused(self, headers: dict[bytes, bytes]) -> Any:
        """The answer to what the app need not see."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._most:
            return problem(413, "RequestEntityTooLarge", self._too_large())
        # A page in a browser may have had its own name lead here, or want no answer.
        here = _is_of(self._hosts, headers.get(b"host", b""))
        if self._hosts and not (here and _is_of(self._hosts, headers.get(b"origin", b"localhost"))):
            return problem(421, "MisdirectedRequest", "without keys, only names of loopback serve")
        return None

    def _too_large(self) -> str:
        return f"body: more than {self._most:,} bytes"


def _is_of(hosts: Collection[str], header: bytes) -> bool:
    found = _HOST.fullmatch(header.decode("latin-1"))
    return found is not None and found[1] in hosts


def _served(scope: Any, status: int, seconds: float) -> Served:
    route = getattr(scope.get("route"), "path", "")
    namespace = scope.get("state", {}).get("namespace", "")
    return Served(scope["method"], route, status, seconds, namespace)


def place_of(error: Exception) -> str:
    """Which kind it is and where it was raised; not its text, which may be content."""
    found = extract_tb(error.__traceback__)[-4:]
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in found]
    return f"{type(error).__name__} at {' < '.join(reversed(places))}"
