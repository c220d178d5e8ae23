"""``turnmill serve`` and ``turnmill keys``: the client's calls over HTTP, and who may make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmill_cli.local.children import check_port
from turnmill_cli.options import (
    TIMEOUT_S,
    Connection,
    GroupApp,
    JsonFlag,
    MetricsHost,
    MetricsPort,
)
from turnmill_cli.output import (
    CommandFailed,
    WrongUsage,
    dumped,
    needing,
    print_json,
    print_line,
    print_note,
    print_rows,
    when,
)

if TYPE_CHECKING:
    from turnmill.server.api_keys import ApiKeys
    from turnmill.server.app import Settings

PORT = 8377


def serve(
    connection: Connection,
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = PORT,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no keys: all is in --namespace. Loopback.")
    ] = False,
    counts_by: Annotated[
        str, typer.Option(metavar="ENCODING", help="Count turns exactly, such as o200k_base.")
    ] = "",
    max_body_bytes: Annotated[
        int, typer.Option(min=1_000, help="The largest body of a request.")
    ] = 32 * 1024 * 1024,
    metrics_port: MetricsPort = 0,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Serve sessions over HTTP, for agents in any language, until Ctrl-C.

    Each request has a key, which opens one namespace: see `turnmill keys`. It listens on this
    machine alone unless --host says more. /openapi.json describes every call.
    """
    with needing("server"):
        from turnmill.server.app import Settings, run  # noqa: PLC0415 - slow to import
    from turnmill.connection.credentials import load_cipher  # noqa: PLC0415 - as above

    name = connection.check()
    _check_keys(connection, host, no_auth=no_auth)
    check_port(port, host)
    settings = Settings(
        redis=connection.store,
        broker=connection.broker,
        timeout_s=TIMEOUT_S,
        cipher=load_cipher(connection.cipher),
        counts_by=counts_by,
        no_auth=name if no_auth else "",
        max_body_bytes=max_body_bytes,
    )
    at = f"[{host}]" if ":" in host else host
    with _scraped(settings, metrics_host, metrics_port):
        run(settings, host, port, lambda: print_line(f"http://{at}:{port}"))


def _check_keys(connection: Connection, host: str, *, no_auth: bool) -> None:
    from turnmill.server.app import LOOPBACK  # noqa: PLC0415 - slow to import

    name = connection.namespace
    if no_auth and host not in LOOPBACK:
        raise WrongUsage(f"--host {host} opens {name} to others: make keys, and drop --no-auth")
    if not no_auth and not _with_keys(connection, lambda keys: keys.listed()):
        raise CommandFailed("there are no keys: `turnmill keys create` makes one, or --no-auth")


def _scraped(settings: Settings, host: str, port: int) -> AbstractContextManager[None]:
    if not port:
        return nullcontext()
    with needing("telemetry"):
        from turnmill.server.metrics import scraped  # noqa: PLC0415 - an extra
    check_port(port, host, "--metrics-port")
    return scraped((host, port), settings.redis, settings.timeout_s)


def mcp(connection: Connection) -> None:
    """Offer memories, rules, contexts and transcripts over MCP, on stdin and stdout.

    For an agent on this machine that starts the command itself; `turnmill serve` has the same at
    /mcp, for whoever has a key.
    """
    with needing("mcp"):
        from turnmill.server.mcp import mcp_server  # noqa: PLC0415 - slow to import
    from turnmill.client._async.client import AsyncContextClient  # noqa: PLC0415 - as above
    from turnmill.connection.credentials import load_cipher  # noqa: PLC0415 - as above

    connection.check()

    async def serve_it() -> None:
        async with AsyncContextClient(
            connection.store,
            namespace=connection.namespace,
            broker=connection.broker,
            timeout_s=TIMEOUT_S,
            cipher=load_cipher(connection.cipher),
        ) as client:
            await mcp_server(lambda _: client).run_stdio_async()

    asyncio.run(serve_it())


keys_app = GroupApp(help="List, create or revoke the keys of `turnmill serve`.")


@keys_app.command("list")
def list_keys(connection: Connection, as_json: JsonFlag = False) -> None:
    """List all keys, of every namespace; never the keys themselves, which nobody has kept."""
    print_rows(
        _with_keys(connection, lambda keys: keys.listed()),
        {
            "id": lambda key: key.id,
            "namespace": lambda key: key.namespace,
            "label": lambda key: key.label,
            "when": lambda key: when(key.made_ms),
        },
        none="no keys",
        as_json=dumped if as_json else None,
        noun="key",
    )


@keys_app.command("create")
def create_key(
    connection: Connection,
    label: Annotated[str, typer.Option(help="Whose it is, for people.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Make a key that opens the namespace, and print it: it is shown this once."""
    key, made = _with_keys(connection, lambda keys: keys.create(connection.namespace, label))
    if as_json:
        print_json({"key": key, **dumped(made)})
        return
    print_line(key)
    print_note(f"it opens namespace {made.namespace}; `turnmill keys revoke {made.id}` ends it")


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")],
    connection: Connection,
    as_json: JsonFlag = False,
) -> None:
    """End a key; servers that run know it within seconds."""
    if not _with_keys(connection, lambda keys: keys.revoke(key_id)):
        raise CommandFailed(f"no key has the id {key_id}")
    if as_json:
        print_json({"revoked": key_id})
    else:
        print_line(f"{key_id} opens nothing more")


def _with_keys(connection: Connection, use: Callable[[ApiKeys], Awaitable[Any]]) -> Any:
    from turnmill.client._async.connection import AsyncConnection  # noqa: PLC0415 - slow to import
    from turnmill.server.api_keys import ApiKeys  # noqa: PLC0415 - as above

    async def used() -> Any:
        store = AsyncConnection(connection.store, TIMEOUT_S, None, _unused)
        try:
            return await use(ApiKeys(store))
        finally:
            await store.close()

    connection.check()
    return asyncio.run(used())


def _unused(pushes: int) -> Any:
    raise NotImplementedError(pushes)  # nobody pushes here
