"""The server as an ASGI app, and what runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from turnmill.client._async.client import AsyncContextClient
from turnmill.client._async.connection import AsyncConnection
from turnmill.contract.names import namespace
from turnmill.contract.scripts import Call
from turnmill.contract.sealing import Cipher
from turnmill.hint.waker import CeleryWaker, Waker
from turnmill.server.events import Events
from turnmill.server.guard import DEFAULT_MAX_BODY_BYTES, Guard, OnServed, told
from turnmill.server.http import Http
from turnmill.server.problems import Problem, answer_with_problems
from turnmill.server.routes import health, router
from turnmill.server.swift import Swift
from turnmill.server.tenants import Keyed, Tenants

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
HANGUP_S: Final = 10
"""How long requests that are being answered may take when the server is told to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server serves.

    Attributes:
        redis, broker, timeout_s, cipher, counts_by: as ``AsyncContextClient`` takes them.
        no_auth: everybody is in this namespace and needs no key; ``""`` asks everybody for one.
        max_body_bytes: of a request.
        on_served: is told of each request; by default OpenTelemetry.
    """

    redis: str
    broker: str | Waker | None = None
    timeout_s: float = 5.0
    cipher: Cipher | None = None
    counts_by: str = ""
    no_auth: str = ""
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    on_served: OnServed = told


def create_api(settings: Settings) -> FastAPI:
    """The API by itself, with its document."""
    made = FastAPI(
        title="turnmill",
        summary="Context windows that fit, for agents in any language.",
        version="1",
        lifespan=_closing,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    waker = _waker(settings)

    def client(name: str) -> AsyncContextClient:
        return AsyncContextClient(
            settings.redis,
            namespace=name,
            broker=_Lent(waker),
            timeout_s=settings.timeout_s,
            cipher=settings.cipher,
            counts_by=settings.counts_by,
        )

    alone = namespace(settings.no_auth) if settings.no_auth else ""
    store = AsyncConnection(settings.redis, settings.timeout_s, None, _not_registered)
    made.state.tenants = Tenants(client, store, alone)
    made.state.events = Events(settings.redis, settings.timeout_s)
    made.state.waker = waker
    made.include_router(health)
    made.include_router(router)
    if find_spec("mcp"):  # an extra of its own
        from turnmill.server.mcp import McpOverHttp  # noqa: PLC0415 - as said

        made.state.mcp = McpOverHttp(made.state.tenants)
        # No stream: each request stands by itself, so that nothing would come on it.
        made.router.routes.append(Route("/mcp", made.state.mcp, methods=["POST"]))
    answer_with_problems(made)
    _document(made)
    return made


def guarded(api: FastAPI, settings: Settings) -> Guard:
    """The API behind what every request passes first."""
    hosts = [*LOOPBACK, "[::1]"] if settings.no_auth else []
    swift = Swift(api, api.state.tenants)
    keyed = Keyed(swift, api.state.tenants)
    return Guard(keyed, settings.max_body_bytes, hosts, settings.on_served)


def _waker(settings: Settings) -> Waker:
    if settings.broker is None:
        return CeleryWaker(settings.redis)
    return CeleryWaker(settings.broker) if isinstance(settings.broker, str) else settings.broker


class _Lent:
    """A waker that others use, too: it stays open when one of them is done with it."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker

    def wake(self, *args: Any, **kwargs: Any) -> None:
        """As the waker does."""
        self._waker.wake(*args, **kwargs)

    def close(self) -> None:
        """Do nothing."""

    @property
    def counts(self) -> Any:
        """What became of the hints of all."""
        return self._waker.counts


def _not_registered(pushes: int) -> Call:
    raise NotImplementedError(pushes)  # no session is pushed to over this connection


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.mcp.running() if hasattr(app.state, "mcp") else nullcontext():
        yield
    app.state.events.close()
    await app.state.tenants.close()
    app.state.waker.close()


def _document(app: FastAPI) -> None:
    """Add to the OpenAPI document what all calls answer with."""
    plain = app.openapi

    def documented() -> dict[str, Any]:
        made = plain()
        made["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        return made

    app.openapi = documented  # type: ignore[method-assign]


class _Server(uvicorn.Server):
    """Ends streams of events as soon as it is told to end: they would hold it up."""

    def __init__(self, config: uvicorn.Config, events: Events, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._events = events
        self._ready = ready

    async def startup(self, *args: Any, **kwargs: Any) -> None:
        """Begin to listen."""
        await super().startup(*args, **kwargs)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Take note of a signal."""
        self._events.close()
        super().handle_exit(sig, frame)


async def serve(settings: Settings, host: str, port: int, ready: Callable[[], None]) -> None:
    """Serve until a signal ends it; calls ``ready`` when it listens."""
    api = create_api(settings)
    config = uvicorn.Config(
        guarded(api, settings),
        host=host,
        port=port,
        http=Http,
        ws="none",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=HANGUP_S,
    )
    await _Server(config, api.state.events, ready).serve()


def run(settings: Settings, host: str, port: int, ready: Callable[[], None]) -> None:
    """As ``serve``, on the fastest event loop that is installed."""
    made: Any = None
    with suppress(ImportError):
        from uvloop import new_event_loop as made  # noqa: PLC0415 - not on every platform
    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(serve(settings, host, port, ready))
