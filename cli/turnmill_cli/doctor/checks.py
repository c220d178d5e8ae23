"""The checks of `turnmill doctor`: what was found, and what to do about it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import redis

from turnmill.contract import jobs
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SHARDS, shard_keys
from turnmill.contract.names import Namespace
from turnmill.contract.scripts import load_script
from turnmill.transport import to_ms
from turnmill_cli.broker import BrokerView
from turnmill_cli.options import Target
from turnmill_cli.output import count

__all__ = ["Check", "examine"]

OLDEST_REDIS = (6, 2)
SCRIPT_PACKAGES = ("turnmill.lua", "turnmill_worker.store.lua")
MEMORY_WARNING, MEMORY_PROBLEM = 0.75, 0.9
UNLIMITED_WARNING = 0.5
"""Share of the host's memory: a rewrite of the append-only file forks, and may double it."""
BACKLOG_WARNING_S, BACKLOG_PROBLEM_S = 10.0, 60.0
BROKER_TIMEOUT_S = 2.0
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        found: what is so.
        advice: what to do; empty when there is nothing to do.
    """

    name: str
    status: Literal["ok", "warning", "problem"]
    found: str
    advice: str = ""


def examine(target: Target) -> list[Check]:
    """All checks, those that need Redis only when it is reachable; takes some seconds at most."""
    return [*_state_store(target), *_broker(target), _vocabulary()]


def _state_store(target: Target) -> Iterator[Check]:
    try:
        with target.redis() as client:
            info: dict[str, Any] = client.info()
            yield _version(info)
            yield _eviction(info)
            yield _persistence(info)
            yield _memory(info)
            yield _scripts(client)
            yield _backlog(client, target.checked_namespace())
    except TurnmillError as error:
        advice = "start it (`turnmill up`), or correct --redis-url / TURNMILL_REDIS_URL"
        yield Check("redis", "problem", str(error), advice)


def _version(info: dict[str, Any]) -> Check:
    version = str(info["redis_version"])
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < OLDEST_REDIS:
        return Check("redis", "problem", f"version {version}", "upgrade to Redis 6.2 or newer")
    return Check("redis", "ok", f"version {version}")


def _eviction(info: dict[str, Any]) -> Check:
    policy = info["maxmemory_policy"]
    if policy == "noeviction":
        return Check("eviction", "ok", policy)
    advice = "set maxmemory-policy noeviction: any other deletes turns when memory is full"
    # Without a limit nothing is evicted yet.
    return Check("eviction", "problem" if info["maxmemory"] else "warning", policy, advice)


def _persistence(info: dict[str, Any]) -> Check:
    if not info["aof_enabled"]:
        advice = "set appendonly yes: sessions since the last snapshot are lost at a restart"
        return Check("persistence", "warning", "no append-only file", advice)
    if info.get("aof_last_write_status", "ok") != "ok":
        advice = "Redis refuses writes until this passes: look at its disk and log"
        return Check("persistence", "problem", "the last append failed", advice)
    return Check("persistence", "ok", "append-only file")


def _memory(info: dict[str, Any]) -> Check:
    used, limit = int(info["used_memory"]), int(info["maxmemory"])
    host = int(info.get("total_system_memory", 0))
    if not limit:
        found = f"{used // _MIB:,} MiB used, no maxmemory, {host // _MIB:,} MiB in the host"
        if host and used > UNLIMITED_WARNING * host:
            return Check("memory", "warning", found, "set maxmemory, or add memory")
        return Check("memory", "ok", found)
    found = f"{used // _MIB:,} of {limit // _MIB:,} MiB used"
    if used > MEMORY_WARNING * limit:
        status: Literal["warning", "problem"] = (
            "problem" if used > MEMORY_PROBLEM * limit else "warning"
        )
        return Check("memory", status, found, "raise maxmemory, or shorten policies' ttl_s")
    return Check("memory", "ok", found)


def _scripts(client: Any) -> Check:
    loaded = 0
    for package in SCRIPT_PACKAGES:
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            continue
        for file in resources.files(package).iterdir():
            name, _, kind = file.name.rpartition(".")
            if kind != "lua":
                continue
            try:
                client.script_load(load_script(package, name).source)
            except redis.ResponseError:
                advice = "this Redis does not run it: is it a real Redis, and may this user SCRIPT?"
                return Check("scripts", "problem", f"{file.name} is refused", advice)
            loaded += 1
    return Check("scripts", "ok", f"{count(loaded, 'script')} load")


def _backlog(client: Any, namespace: Namespace) -> Check:
    with client.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            keys = shard_keys(namespace, shard)
            pipe.zcard(keys.backlog)
            pipe.zrange(keys.backlog, 0, 0, withscores=True)
        pipe.time()
        *replies, now = pipe.execute()
    waiting = sum(replies[::2])
    if not waiting:
        return Check("backlog", "ok", f"empty in namespace {namespace}")
    since_ms = min(entry[0][1] for entry in replies[1::2] if entry)
    age_s = max(to_ms(now) - since_ms, 0) / 1000
    found = f"{count(waiting, 'session')} waiting, the oldest for {age_s:.0f} s"
    if age_s < BACKLOG_WARNING_S:
        return Check("backlog", "ok", found)
    status: Literal["warning", "problem"] = "problem" if age_s > BACKLOG_PROBLEM_S else "warning"
    return Check("backlog", status, found, "start workers, or more of them; read their logs")


def _broker(target: Target) -> Iterator[Check]:
    try:
        with BrokerView(target.broker, timeout_s=BROKER_TIMEOUT_S) as broker:
            waiting = broker.waiting()
            yield Check("broker", "ok", f"{count(sum(waiting.values()), 'task')} waiting")
            consumers = broker.consumers()
    except ModuleNotFoundError as error:
        found = f"cannot be asked from here: Python has no module {error.name}"
        yield Check(
            "broker", "problem", found, "install it with pip, or use another kind of broker"
        )
        return
    except Exception as error:  # noqa: BLE001 - any broker's any failure
        advice = "start it, or correct --broker-url / TURNMILL_BROKER_URL"
        # Not its message: it may hold the URL with its password.
        yield Check("broker", "problem", f"does not answer ({type(error).__name__})", advice)
        return
    yield _workers(consumers)
    yield _queues(consumers)


def _workers(consumers: dict[str, list[str]]) -> Check:
    if not consumers:
        advice = "start them: `turnmill up`, or `celery -A turnmill_worker.app worker`"
        return Check("workers", "problem", "none answered", advice)
    return Check("workers", "ok", ", ".join(sorted(consumers)))


def _queues(consumers: dict[str, list[str]]) -> Check:
    served = {queue for queues in consumers.values() for queue in queues}
    if idle := [queue for queue in jobs.QUEUES if queue not in served]:
        advice = f"start a worker with --queues {','.join(idle)}"
        return Check("queues", "problem", f"nobody consumes {', '.join(idle)}", advice)
    return Check("queues", "ok", f"all consumed: {', '.join(jobs.QUEUES)}")


def _vocabulary() -> Check:
    counter_for: Callable[[str], Any]
    try:
        from turnmill_worker.tokens import counter_for  # noqa: PLC0415
    except ImportError:
        return Check("vocabulary", "warning", "no worker here", "run doctor where the workers run")
    basis = str(counter_for("o200k_base").basis)
    if basis.startswith("heuristic"):
        advice = "pip install 'turnmill[worker]' where the workers run: limits need exact counts"
        return Check("vocabulary", "warning", f"tokens are only estimated ({basis})", advice)
    return Check("vocabulary", "ok", f"tokens are counted exactly ({basis})")
