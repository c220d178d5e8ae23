"""Puts our conversation manager in the place of Strands' default one, in Strands' own tests."""

from __future__ import annotations

import sys
import tempfile
import types
import uuid
from pathlib import Path
from typing import Any

import pytest

from turnmill import ContextClient, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis

if "moto" not in sys.modules:
    sys.modules["moto"] = types.ModuleType("moto")  # their conftest imports it, for tests not here

from strands.agent import conversation_manager
from strands.agent.conversation_manager import sliding_window_conversation_manager as sliding

from turnmill.integrations.strands import TurnmillConversationManager

_folder = tempfile.TemporaryDirectory()
_server = EmbeddedRedis(Path(_folder.name), durable=False)


class Ours(TurnmillConversationManager):
    """Made as they make theirs, each over a session of its own."""

    def __init__(self, *_: Any, **__: Any) -> None:
        client = ContextClient(_server.url, broker=SilentWaker())
        super().__init__(client, f"s{uuid.uuid4().hex}")


def pytest_configure() -> None:
    """Before a test module is imported."""
    _server.__enter__()
    for module in (conversation_manager, sliding):
        module.SlidingWindowConversationManager = Ours  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The server ends with the run."""
    _server.__exit__(None, None, None)
    _folder.cleanup()
