"""turnmill: background context compaction for LLM agents.

::

    from turnmill import ContextClient, Policy

    client = ContextClient("redis://localhost:6379/0")
    client.open("agent-7", Policy(max_tokens=8192), system_prompt="You are …")
    client.push("agent-7", {"role": "user", "content": "…"})
    messages = client.read("agent-7").messages
"""

from turnmill.aio import AsyncContextClient
from turnmill.client import ContextClient
from turnmill.contract.context import Context, ContextInfo, Pushed, Receipt, Usage
from turnmill.contract.errors import (
    CorruptContext,
    InvalidInput,
    InvalidName,
    InvalidPolicy,
    InvalidTurn,
    ScriptContract,
    StoreFull,
    StoreUnavailable,
    SystemPromptTooLarge,
    Transient,
    TurnmillError,
    TurnTooLarge,
    UnknownEncoding,
    UnknownSession,
)
from turnmill.contract.policy import Limits, Policy
from turnmill.contract.turns import Message, Turn
from turnmill.wake import CeleryWaker, HintCounts, SilentWaker, Waker

# fmt: off
__all__ = [  # noqa: RUF022 - grouped, as a reader looks for them
    # clients
    "AsyncContextClient", "ContextClient",
    # values
    "Context", "ContextInfo", "Limits", "Message", "Policy", "Pushed", "Receipt", "Turn", "Usage",
    # hints
    "CeleryWaker", "HintCounts", "SilentWaker", "Waker",
    # errors
    "CorruptContext", "InvalidInput", "InvalidName", "InvalidPolicy", "InvalidTurn",
    "ScriptContract", "StoreFull", "StoreUnavailable", "SystemPromptTooLarge", "Transient",
    "TurnTooLarge", "TurnmillError", "UnknownEncoding", "UnknownSession",
]
# fmt: on
