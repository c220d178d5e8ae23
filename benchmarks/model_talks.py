"""What the benchmarks of model calls share: real agents' turns without end, and who wrote what."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from turnmill import ContextClient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId

__all__ = ["conversations", "endless", "load_average", "written"]

JsonMessage = dict[str, Any]


def conversations(folder: Path, name: str = "tau") -> list[list[JsonMessage]]:
    """The messages of each recorded session, system prompts left out."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line)["messages"] for line in lines]
    return [[m for m in messages if m["role"] not in ("system", "developer")] for messages in found]


def endless(found: list[list[JsonMessage]], first: int) -> Iterator[JsonMessage]:
    """Turns of one conversation after the other, from this one on, round and round."""
    for at in itertools.count(first):
        yield from found[at % len(found)]


def written(server: redis.Redis, client: ContextClient, session: str) -> list[dict[str, Any]]:
    """The records of a session's compactions, oldest first."""
    keys = session_keys(Namespace(client.namespace), SessionId(session))
    entries: Any = server.xrange(keys.compactions)
    return [json.loads(entry[1][b"record"]) for entry in entries]


def load_average() -> str:
    """Of the machine, over the last minute: times mean little when it is high."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
