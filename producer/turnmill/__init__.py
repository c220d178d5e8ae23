"""turnmill: background context compaction for LLM agents.

::

    from turnmill import ContextClient, Policy

    client = ContextClient("redis://localhost:6379/0")
    client.open("agent-7", Policy(max_tokens=8192), system_prompt="You are …")
    client.push("agent-7", {"role": "user", "content": "…"})
    messages = client.read("agent-7").messages
"""

from importlib import import_module
from typing import TYPE_CHECKING

from turnmill.contract.errors import (
    ArchiveUnavailable,
    CannotDecrypt,
    CorruptContext,
    InvalidInput,
    InvalidName,
    InvalidPolicy,
    InvalidTemplate,
    InvalidTurn,
    NewerFormat,
    NoCheckpoint,
    NotAnswered,
    NotPermitted,
    QuotaExceeded,
    ScriptContract,
    SessionBusy,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    SystemPromptTooLarge,
    Transient,
    TurnConflict,
    TurnmillError,
    TurnTooLarge,
    UnknownEncoding,
    UnknownPolicy,
    UnknownSession,
    UnknownTemplate,
)

if TYPE_CHECKING:
    from turnmill.client._async.client import AsyncContextClient
    from turnmill.client._async.session import AsyncContextManager, AsyncRecallTool
    from turnmill.client._sync.client import ContextClient
    from turnmill.client._sync.session import ContextManager, RecallTool
    from turnmill.contract.context import (
        Limits,
        Pushed,
        Receipt,
        StoredContext,
        SummaryEvent,
        Usage,
    )
    from turnmill.contract.job_outcomes import Compaction
    from turnmill.contract.policy import Policy, QualityWeights
    from turnmill.contract.results import (
        Bill,
        Checkpoint,
        ContextInfo,
        Forgotten,
        Forked,
        GroundedContext,
        GroundedMemory,
        ParkedSession,
        RollbackResult,
        SessionPage,
        SummarizationResult,
        TurnResult,
        Wait,
    )
    from turnmill.contract.rules import Rule
    from turnmill.contract.sealing import Cipher
    from turnmill.contract.trajectory import CommittedContext, Trajectory, TrajectoryTurn
    from turnmill.contract.turns import Message, Turn
    from turnmill.hint.waker import CeleryWaker, HintCounts, SilentWaker, Waker
    from turnmill.read.context import Context

# fmt: off
__all__ = [  # noqa: RUF022 - grouped, as a reader looks for them
    # clients and their sessions' handles
    "AsyncContextClient", "AsyncContextManager", "ContextClient", "ContextManager",
    # a tool for an agent's own model
    "AsyncRecallTool", "RecallTool",
    # values
    "Context", "ContextInfo", "Limits", "Message", "Policy", "Pushed", "QualityWeights", "Receipt",
    "SummaryEvent", "Turn", "Usage", "Wait",
    # what methods of a handle return
    "Bill", "Checkpoint", "Forgotten", "Forked", "GroundedContext", "GroundedMemory",
    "ParkedSession", "RollbackResult", "Rule", "SessionPage",
    "SummarizationResult", "TurnResult",
    # a session from its first turn on
    "CommittedContext", "Compaction", "StoredContext", "Trajectory", "TrajectoryTurn",
    # content that is stored encrypted
    "Cipher",
    # hints
    "CeleryWaker", "HintCounts", "SilentWaker", "Waker",
    # errors
    "ArchiveUnavailable", "CannotDecrypt", "CorruptContext", "InvalidInput", "InvalidName",
    "InvalidPolicy", "InvalidTemplate", "InvalidTurn", "NewerFormat", "NoCheckpoint",
    "NotAnswered", "NotPermitted", "QuotaExceeded", "ScriptContract", "SessionBusy", "StoreFull",
    "StoreRefused", "StoreUnavailable", "SystemPromptTooLarge", "Transient", "TurnConflict",
    "TurnTooLarge", "TurnmillError", "UnknownEncoding", "UnknownPolicy", "UnknownSession",
    "UnknownTemplate",
]

_HOMES = {
    "client._async.client": ("AsyncContextClient",),
    "client._async.session": ("AsyncContextManager", "AsyncRecallTool"),
    "client._sync.client": ("ContextClient",),
    "client._sync.session": ("ContextManager", "RecallTool"),
    "contract.context": (
        "Limits", "Pushed", "Receipt", "StoredContext", "SummaryEvent", "Usage",
    ),
    "contract.job_outcomes": ("Compaction",),
    "contract.policy": ("Policy", "QualityWeights"),
    "contract.results": (
        "Bill", "Checkpoint", "ContextInfo", "Forgotten", "Forked", "GroundedContext",
        "GroundedMemory", "ParkedSession", "RollbackResult", "SessionPage",
        "SummarizationResult", "TurnResult", "Wait",
    ),
    "contract.rules": ("Rule",),
    "contract.sealing": ("Cipher",),
    "contract.trajectory": ("CommittedContext", "Trajectory", "TrajectoryTurn"),
    "contract.turns": ("Message", "Turn"),
    "hint.waker": ("CeleryWaker", "HintCounts", "SilentWaker", "Waker"),
    "read.context": ("Context",),
}
"""Where the names live: each module is imported when one of its names is asked for."""
# fmt: on

if not TYPE_CHECKING:  # type checkers see the imports above instead

    def __getattr__(name: str) -> object:
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{home}"), name)
        return found

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
