"""What a worker has of a session whose turns are one message each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmill import Policy
from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.tokens import counter_for

__all__ = ["snapshot_of"]

_COUNT = counter_for().count_messages


def snapshot_of(
    messages: Sequence[JsonMessage],
    policy: Policy,
    stored: StoredContext = EMPTY,
    **fields: Any,
) -> Snapshot:
    """All of them counted, behind those that ``stored`` covers."""
    first = stored.watermark + 1
    return Snapshot(
        namespace=Namespace("pure"),
        session=SessionId("s"),
        epoch="1",
        revision="1",
        policy=policy,
        system_tokens=0,
        stored=stored,
        turns=tuple(
            LoggedTurn(Seq(seq), (message,), (message,), _COUNT([message]))
            for seq, message in enumerate(messages, first)
        ),
        counted_seq=Seq(stored.watermark + len(messages)),
        **fields,
    )
