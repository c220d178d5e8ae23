"""Who asks: the client of the namespace that a key opens."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from turnmill.client._async.client import AsyncContextClient
from turnmill.client._async.connection import AsyncConnection
from turnmill.contract.errors import TurnmillError
from turnmill.contract.names import Namespace
from turnmill.server.api_keys import ApiKeys
from turnmill.server.problems import of_http, problem_of

MOST_CLIENTS: Final = 256
"""Namespaces whose clients are kept; the one longest unused makes room."""

CLOSED_AFTER_S: Final = 130.0
"""When the client that made room is closed: calls of it may take 120 s."""


class Tenants:
    """A client for each namespace, made when it is asked for, and kept.

    Attributes:
        keys: that open namespaces.
    """

    def __init__(
        self, make: Callable[[str], AsyncContextClient], store: AsyncConnection, alone: str = ""
    ) -> None:
        """``alone`` is a namespace that everybody is in, who then needs no key."""
        self._make = make
        self._store = store
        self._alone = alone
        self._clients: OrderedDict[str, AsyncContextClient] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()
        self.keys: ApiKeys = ApiKeys(store)

    async def named(self, authorization: str | None) -> Namespace:
        """The namespace that the value of a header opens.

        Raises:
            HTTPException: it opens none.
        """
        if self._alone:
            return Namespace(self._alone)
        scheme, _, key = (authorization or "").partition(" ")
        found = await self.keys.opened(key.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            told = "give a key that is valid: Authorization: Bearer …"
            raise HTTPException(401, told, {"WWW-Authenticate": "Bearer"})
        return found

    def client(self, namespace: str) -> AsyncContextClient:
        """The namespace's client."""
        found = self._clients.pop(namespace, None) or self._make(namespace)
        self._clients[namespace] = found
        if len(self._clients) > MOST_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            leaving = asyncio.create_task(_closed_later(oldest))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return found

    async def is_ready(self) -> None:
        """Return if the store answers; raises ``StoreUnavailable`` otherwise."""
        await self._store.plain(("PING",))

    async def close(self) -> None:
        """Close all clients."""
        for leaving in list(self._leaving):
            leaving.cancel()
        await asyncio.gather(*self._leaving, *(c.close() for c in self._clients.values()))
        await self._store.close()


async def _closed_later(client: AsyncContextClient) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(CLOSED_AFTER_S)
    await client.close()


class Keyed:
    """Asks for a key before anything of a body is read, and notes which namespace it opens."""

    def __init__(self, inner: Any, tenants: Tenants) -> None:
        self._inner = inner
        self._tenants = tenants

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"].startswith(("/v1/", "/mcp")):
            try:
                name = await self._tenants.named(Headers(scope=scope).get("authorization"))
            except HTTPException as error:
                await of_http(error)(scope, receive, send)
                return
            except TurnmillError as error:
                await problem_of(error)(scope, receive, send)
                return
            scope.setdefault("state", {})["namespace"] = name
        await self._inner(scope, receive, send)


class _Bearer(HTTPBearer):
    """A dependency that gives the client of whoever asks; documented as a key in a header."""

    def __init__(self) -> None:
        super().__init__(scheme_name="key", description="`turnmill keys create` makes one.")

    async def __call__(self, request: Request) -> AsyncContextClient:  # type: ignore[override]
        tenants: Tenants = request.app.state.tenants
        return tenants.client(request.state.namespace)


Client = Annotated[AsyncContextClient, Depends(_Bearer())]
