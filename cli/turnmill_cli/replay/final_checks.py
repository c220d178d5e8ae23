"""After the last step: wait for the workers, then check what is stored of each session."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.store_client import store_client
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Namespace
from turnmill.contract.results import ContextInfo
from turnmill_cli.redis_view import RedisView
from turnmill_cli.replay.concurrent_agents import AgentSession
from turnmill_cli.replay.promises import TokenCache, check_store, check_trajectory, fingerprint

__all__ = ["Store", "check_session", "connect", "wait_for_workers"]

_LOOK_EVERY_S = 0.05
TIMEOUT_S = 5.0
EXPORT_WITHIN_S = 60.0
"""Longest wait for one session's trajectory: workers may still be busy with the others."""

ARCHIVED_WITHIN_S = 10.0
"""Longest wait for the archive, of which workers think every third sweep; there may be none."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where the sessions of a replay are stored.

    Attributes:
        has_workers: there are workers, who move turns to the archive and tell what is there.
    """

    view: RedisView
    client: ContextClient
    has_workers: bool


@contextmanager
def connect(url: str, namespace: str, *, broker_url: str, has_workers: bool) -> Iterator[Store]:
    """Connections for looking at a namespace, closed after the block."""
    broker = (broker_url or url) if has_workers else SilentWaker()
    with (
        closing(store_client(url, TIMEOUT_S)) as plain,
        ContextClient(url, namespace=namespace, broker=broker) as client,
    ):
        yield Store(RedisView(plain, Namespace(namespace)), client, has_workers)


def wait_for_workers(store: Store, names: Sequence[str], *, within_s: float) -> int:
    """Wait until no session waits for a worker; returns how many still do after ``within_s``.

    What is covered should be in the archive by then: it is what the last checks look at.
    """
    waiting = _wait(store, names, _is_due, within_s=within_s)
    if store.has_workers:
        _wait(store, names, _is_covered, within_s=min(within_s, ARCHIVED_WITHIN_S))
    return len(waiting)


def _wait(
    store: Store, names: Sequence[str], waits: Callable[[ContextInfo], bool], *, within_s: float
) -> list[str]:
    """The sessions that still wait after ``within_s``."""
    deadline = time.monotonic() + within_s
    waiting = [name for name in names if waits(store.client.info(name))]
    while waiting and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        waiting = [name for name in waiting if waits(store.client.info(name))]
    return waiting


def _is_due(info: ContextInfo) -> bool:
    return info.pending_for_s is not None or info.due_in_s is not None


def _is_covered(info: ContextInfo) -> bool:
    return info.turns_covered > 0


def check_session(
    store: Store, session: AgentSession, policy: Policy, count: TokenCache
) -> Counter[str]:
    """Read and check a session a last time, and its stored turns; returns commits by strategy."""
    name = session.agent.name
    stored = store.view.stored(name)
    pushed = {seq: fingerprint([message]) for seq, message in session.transcript.turns.items()}
    urls = _urls(session.transcript.turns.values())
    log = [(_seq(entry), _body(entry[1], urls)) for entry in stored.log]
    covered = [(int(fields[b"seq"]), _body(fields, urls)) for _, fields in stored.covered]
    if store.has_workers:
        # Asked after Redis was looked at: a turn that moves meanwhile is seen twice, never missed,
        # and the covered stream and the archive are one place to be in.
        whole = _trajectory(store, name)
        session.faults += check_trajectory(pushed, whole)
        there = {seq for seq, _ in (*log, *covered)}
        archived = [(seq, body) for seq, body in whole if seq not in there]
        session.archived = len(archived)
        covered += archived
    session.faults += check_store(pushed, log, covered, watermark=stored.watermark)
    session.take(store.client.read(name), hard_limit=policy.hard_limit, count=count)
    return Counter(record["strategy"] for record in stored.records)


def _trajectory(store: Store, name: str) -> list[tuple[int, bytes]]:
    """The session's turns as a worker tells them, from the log and the archive."""
    found = store.client.trajectory(name, timeout_s=EXPORT_WITHIN_S)
    return [
        (turn.seq, fingerprint(list(turn.messages))) for turn in found.turns if turn.state == "kept"
    ]


def _seq(entry: tuple[bytes, object]) -> int:
    return int(entry[0].partition(b"-")[0])


def _body(fields: Mapping[bytes, bytes], urls: Mapping[str, str]) -> bytes:
    messages = json.loads(fields[b"messages"])
    for part in _images(messages):
        stored = part["image_url"]["url"]
        # blob:<sha256>;<media type>;…
        sha256 = stored.removeprefix("blob:").partition(";")[0]
        part["image_url"]["url"] = urls.get(sha256, stored)
    return fingerprint(messages)


def _urls(messages: Iterable[JsonMessage]) -> dict[str, str]:
    """The data URLs of all images pushed, by the SHA-256 of their bytes."""
    found = {}
    for part in _images(messages):
        head, comma, data = part["image_url"]["url"].partition(";base64,")
        if head.startswith("data:") and comma:
            sha256 = hashlib.sha256(base64.b64decode(data)).hexdigest()
            found[sha256] = part["image_url"]["url"]
    return found


def _images(messages: Iterable[JsonMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                yield part
