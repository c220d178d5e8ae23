"""Puts our history provider in the place of agent-framework's own, in its own tests.

In the folder ``python/packages/core`` of its repository, with this folder in ``PYTHONPATH``:
``python -m pytest -p plugin -o addopts= tests/core/test_sessions.py``, or as the list says.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent_framework
import pytest
from agent_framework import Message, _agents, _sessions
from agent_framework._workflows import _agent, _agent_executor

from turnmill import AsyncContextClient, ContextClient, SilentWaker, UnknownSession
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.integrations.agent_framework import TurnmillHistoryProvider, from_chat, to_chat

_folder = tempfile.TemporaryDirectory()
_server = EmbeddedRedis(Path(_folder.name), durable=False)


class Ours(TurnmillHistoryProvider):
    """Made as they make theirs; its sessions are no other's."""

    DEFAULT_SOURCE_ID = "in_memory"

    def __init__(
        self,
        source_id: str | None = None,
        stored_messages: Sequence[Message] = (),
        *,
        skip_excluded: bool = False,
        **flags: Any,
    ) -> None:
        del skip_excluded
        self.prefix = uuid.uuid4().hex
        client = AsyncContextClient(_server.url, broker=SilentWaker())
        super().__init__(
            client, source_id or self.DEFAULT_SOURCE_ID, session=self._session_of, **flags
        )
        with ContextClient(_server.url, broker=SilentWaker()) as plain:
            for message in stored_messages:
                plain.push(self._session_of("s1"), to_chat(message))

    def _session_of(self, session_id: str) -> str:
        return f"{self.prefix}-{session_id}"

    @property
    def stored(self) -> list[Message]:
        """What they look at in theirs: the messages of their session."""
        with ContextClient(_server.url, broker=SilentWaker()) as plain:
            try:
                return from_chat(plain.read(self._session_of("s1")).messages)
            except UnknownSession:
                return []


def pytest_configure() -> None:
    """Before a test module is imported."""
    _server.__enter__()
    for module in (agent_framework, _agent, _agent_executor, _agents, _sessions):
        if hasattr(module, "InMemoryHistoryProvider"):
            module.InMemoryHistoryProvider = Ours  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The server ends with the run."""
    _server.__exit__(None, None, None)
    _folder.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Their stand-in for a provider is ours, too."""
    for item in items:
        module = getattr(item, "module", None)
        if hasattr(module, "ConcreteHistoryProvider"):
            module.ConcreteHistoryProvider = Ours  # type: ignore[union-attr]
