"""After the last step: wait for the workers, then look at what is stored, and clean up."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from turnmill import ContextClient, Policy, SilentWaker
from turnmill.contract.context import JsonMessage
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.replay.agents import Run
from turnmill_cli.replay.promises import Fault, TokenCache, check_store, fingerprint

__all__ = ["Aftermath", "connect", "inspect", "settle"]

_LOOK_EVERY_S = 0.05
EXPORT_WITHIN_S = 60.0
"""Longest wait for one session's trajectory: workers may still be busy with the others."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Where the sessions of a replay are stored.

    Attributes:
        served: there are workers, who move turns to the archive and tell what is there.
    """

    redis: redis.Redis
    client: ContextClient
    namespace: Namespace
    served: bool

    def forget(self, names: Sequence[str]) -> None:
        """Remove the sessions, everywhere."""
        for name in names:
            self.client.forget(name)


@contextmanager
def connect(url: str, namespace: str, *, broker_url: str = "", served: bool) -> Iterator[Aftermath]:
    """Connections for looking at a namespace, closed after the block."""
    broker = (broker_url or url) if served else SilentWaker()
    with (
        redis.Redis.from_url(url) as client,
        ContextClient(url, namespace=namespace, broker=broker) as reader,
    ):
        yield Aftermath(client, reader, Namespace(namespace), served)


def settle(store: Aftermath, names: Sequence[str], *, within_s: float) -> int:
    """Wait until no session waits for a worker; returns how many still do after ``within_s``."""
    deadline = time.monotonic() + within_s
    waiting = _waiting(store, names)
    while waiting and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        waiting = _waiting(store, waiting)
    return len(waiting)


def _waiting(store: Aftermath, names: Sequence[str]) -> list[str]:
    # A session can go from one list to the other, so both are asked in one transaction.
    found = []
    for name in names:
        keys = session_keys(store.namespace, SessionId(name))
        with store.redis.pipeline(transaction=True) as pipe:
            pipe.zscore(keys.backlog, name)
            pipe.zscore(keys.due, name)
            if any(score is not None for score in pipe.execute()):
                found.append(name)
    return found


def inspect(store: Aftermath, run: Run, policy: Policy, count: TokenCache) -> Counter[str]:
    """Read and check a session a last time, and its stored turns; returns commits by strategy."""
    keys = session_keys(store.namespace, SessionId(run.agent.name))
    with store.redis.pipeline(transaction=True) as pipe:
        pipe.xrange(keys.log)
        pipe.xrange(keys.covered)
        pipe.hget(keys.meta, "watermark")
        pipe.xrange(keys.compactions)
        log, covered, watermark, compactions = pipe.execute()
    pushed = {seq: fingerprint([message]) for seq, message in run.transcript.turns.items()}
    urls = _urls(run.transcript.turns.values())
    kept = [(_seq(entry), _body(entry[1], urls)) for entry in log]
    left = [(int(fields[b"seq"]), _body(fields, urls)) for _, fields in covered]
    if store.served:
        # Asked after Redis was looked at: a turn that moves meanwhile is seen twice, never missed,
        # and the covered stream and the archive are one place to be in.
        whole = _trajectory(store, run.agent.name)
        run.faults += _untold(pushed, whole)
        there = {seq for seq, _ in (*kept, *left)}
        archived = [(seq, body) for seq, body in whole if seq not in there]
        run.archived = len(archived)
        left += archived
    run.faults += check_store(pushed, kept, left, watermark=int(watermark or 0))
    run.take(store.client.read(run.agent.name), hard_limit=policy.hard_limit, count=count)
    return Counter(json.loads(fields[b"record"])["strategy"] for _, fields in compactions)


def _trajectory(store: Aftermath, name: str) -> list[tuple[int, bytes]]:
    """The session's turns as a worker tells them, from the log and the archive."""
    found = store.client.trajectory(name, timeout_s=EXPORT_WITHIN_S)
    return [
        (turn.seq, fingerprint(list(turn.messages))) for turn in found.turns if turn.state == "kept"
    ]


def _untold(pushed: Mapping[int, bytes], whole: Sequence[tuple[int, bytes]]) -> list[Fault]:
    """Whether the trajectory has every turn once, in order, as it was pushed."""
    told = dict(whole)
    faults = [
        Fault("lost", f"seq {seq}: not in the trajectory") for seq in pushed if seq not in told
    ]
    faults += [
        Fault("altered", f"seq {seq}: in the trajectory, not as pushed")
        for seq, body in pushed.items()
        if told.get(seq, body) != body
    ]
    if [seq for seq, _ in whole] != sorted(told):
        faults.append(Fault("doubled", "the trajectory's turns are doubled, or out of order"))
    return faults


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
