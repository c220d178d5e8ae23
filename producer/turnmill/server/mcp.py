"""The Model Context Protocol: a namespace's memories; rules, contexts and transcripts of sessions.

``turnmill mcp`` speaks it on stdin and stdout, ``turnmill serve`` at ``/mcp``, with the same keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, Final
from urllib.parse import unquote

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import MCPServerError, ResourceError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field

from turnmill.client._async.client import AsyncContextClient
from turnmill.contract.codec import encode_json
from turnmill.contract.errors import TurnmillError
from turnmill.contract.names import session_id
from turnmill.recall import answered, asked
from turnmill.server.guard import place_of
from turnmill.server.problems import detail_of
from turnmill.server.tenants import Tenants

TOLD: Final = (
    "What agents of this namespace said, found and were told, kept by turnmill. Use recall before "
    "you ask again or guess; remember what other conversations should know."
)

Session = Annotated[str, Field(description="The name of a session.")]
ClientOf = Callable[[Context], AsyncContextClient]
Answer = Callable[..., Coroutine[Any, Any, str]]

_MOST_CHARS: Final = 6_000
_log = logging.getLogger(__name__)


def _telling(kind: type[MCPServerError], answer: Answer) -> Answer:
    """What fails says why; the SDK would tell nothing, and log what may be content."""

    @wraps(answer)
    async def told(*args: Any, **kwargs: Any) -> str:
        try:
            return await answer(*args, **kwargs)
        except TurnmillError as error:
            raise kind(f"{type(error).__name__}: {detail_of(error)}") from None
        except Exception as error:  # noqa: BLE001 - any
            _log.error("%s failed: %s", answer.__name__, place_of(error))
            raise kind(f"the server failed ({type(error).__name__})") from None

    return told


class _Offered:
    """What models may do, by clients that depend on who asks."""

    def __init__(self, client_of: ClientOf) -> None:
        self._client_of = client_of

    async def recall(
        self,
        ctx: Context,
        query: Annotated[str, Field(description="Words likely to have been said.")] = "",
        limit: Annotated[int, Field(ge=1, le=10)] = 5,
        session: Annotated[str, Field(description="Look in this session first.")] = "",
        turn: Annotated[
            int | None, Field(description="Instead of a query: a turn of the session, whole.")
        ] = None,
        part: Annotated[int, Field(description="Of a long turn, the part to read.")] = 1,
    ) -> str:
        """Search what was said, decided, found or agreed: names, numbers, dates, preferences."""
        client = self._client_of(ctx)
        if session:
            tool = (await client.manager(session_id(session))).recall_tool
            return await tool.handle({"query": query, "limit": limit, "turn": turn, "part": part})
        wanted = asked({"query": query, "limit": 2 * limit, "turn": turn})
        if isinstance(wanted, str):
            return wanted
        if wanted.turn is not None:
            return f"recall: name the session of turn {wanted.turn}, too."
        found = await client.ground(query, limit)
        return answered(wanted, "", found.memories, _MOST_CHARS)

    async def remember(
        self,
        ctx: Context,
        text: Annotated[str, Field(description="A fact or a note that stands by itself.")],
    ) -> str:
        """Have every conversation of the namespace remember a text; tells its id."""
        return await self._client_of(ctx).remember(text)

    async def rules(self, ctx: Context, session: Session) -> str:
        """List the user's standing rules in a session, word for word, with their ids."""
        found = await self._client_of(ctx).rules(session)
        return "\n".join(f"{rule.id}: {rule.text}" for rule in found) or "No rule is in force."

    async def context(self, ctx: Context, session: Session) -> str:
        """Read a session as its model gets it now: messages in the shape of OpenAI's chat, JSON."""
        found = await self._client_of(ctx).read(session)
        return encode_json(found.messages_for("chat")).decode()

    async def transcript(self, session: str, ctx: Context) -> str:
        """The whole session from its first turn on, whatever was compacted."""
        return await (await self._client_of(ctx).manager(unquote(session))).transcript()


def mcp_server(client_of: ClientOf) -> MCPServer:
    """The server, of clients that depend on who asks."""
    own, offered = version("turnmill"), _Offered(client_of)
    server = MCPServer("turnmill", instructions=TOLD, version=own, log_level="ERROR")
    for tool in (offered.recall, offered.remember, offered.rules, offered.context):
        server.add_tool(_telling(ToolError, tool), structured_output=False)
    page = server.resource("turnmill://sessions/{session}/transcript", mime_type="text/markdown")
    page(_telling(ResourceError, offered.transcript))
    return server


class McpOverHttp:
    """The protocol's streamable HTTP for whoever has a key; each request stands by itself."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._server = mcp_server(self._client)
        # The guard has looked at the host.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._app = self._server.streamable_http_app(
            streamable_http_path="/mcp",
            stateless_http=True,
            json_response=True,
            transport_security=security,
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        """Answers requests as long as this is entered."""
        return self._server.session_manager.run()

    def _client(self, ctx: Context) -> AsyncContextClient:
        request: Any = ctx.request_context.request
        return self._tenants.client(request.scope["state"]["namespace"])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)
