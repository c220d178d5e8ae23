"""Calls of a client that is synchronous or asynchronous, written once for both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from inspect import isawaitable
from typing import Any, TypeVar

from turnmill import AsyncContextClient, ContextClient

__all__ = ["Client", "answer", "arun", "run"]

T = TypeVar("T")

Client = ContextClient | AsyncContextClient


async def answer(called: Awaitable[T] | T) -> T:
    """What a client's method returned, awaited where the client is asynchronous."""
    return await called if isawaitable(called) else called


def run(client: Client, steps: Coroutine[Any, Any, T]) -> T:
    """The result of steps that call a synchronous client, and so never wait.

    Raises:
        TypeError: the client is asynchronous.
    """
    try:
        if isinstance(client, AsyncContextClient):
            raise TypeError(
                "client: an AsyncContextClient serves asynchronous calls only; "
                "a ContextClient serves both"
            )
        steps.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()
    raise RuntimeError("a synchronous client was awaited")


async def arun(client: Client, steps: Coroutine[Any, Any, T]) -> T:
    """The result of the steps; those of a synchronous client run in a thread."""
    if isinstance(client, AsyncContextClient):
        return await steps
    return await asyncio.to_thread(run, client, steps)
