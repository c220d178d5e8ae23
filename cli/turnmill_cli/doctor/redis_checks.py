"""The checks of `turnmill doctor` about Redis, and the sessions that wait in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from typing import Any

import redis

from turnmill.contract.errors import CannotDecrypt, StoreRefused, TurnmillError
from turnmill.contract.keys import session_keys
from turnmill.contract.scripts import load_script
from turnmill_cli.advice import NO_REDIS, REDIS_REFUSES
from turnmill_cli.doctor.check import Check, graded
from turnmill_cli.doctor.model_checks import check_models, check_summaries
from turnmill_cli.doctor.tenant_checks import check_namespaces, check_quarantine, check_quotas
from turnmill_cli.options import Connection
from turnmill_cli.output import count
from turnmill_cli.redis_view import RedisView

__all__ = ["check_redis"]

OLDEST_REDIS = (6, 2)
SCRIPT_PACKAGES = ("turnmill.lua", "turnmill_worker.store.lua")
_MIB = 1024 * 1024

LOOKED_AT = 16
"""Sessions whose content the doctor tries to read."""


def check_redis(connection: Connection, *, is_archive_off: bool) -> Iterator[Check]:
    """How Redis is configured, whether it runs the scripts, and what its keys say."""
    try:
        with connection.redis() as view:
            for where, info in view.servers():
                for check in (_version, _eviction, _persistence, _memory):
                    yield _of(where, check(info))
            yield _scripts(view)
            yield _backlog(view)
            yield _parked(view)
            yield _unarchived(view, is_off=is_archive_off)
            yield _content(view)
            yield check_namespaces(view)
            yield check_quotas(view)
            yield check_quarantine(view)
            yield check_summaries(view)
            yield from check_models(view)
    except StoreRefused as error:
        yield Check("redis", "problem", str(error), REDIS_REFUSES)
    except TurnmillError as error:
        yield Check("redis", "problem", str(error), NO_REDIS)


def _of(where: str, check: Check) -> Check:
    """The check, with the node of a Cluster it is about."""
    return replace(check, found=f"{where}: {check.found}") if where else check


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
    advice = "set maxmemory-policy noeviction: any other policy deletes turns when memory is full"
    # Without a limit nothing is evicted yet.
    return Check("eviction", "problem" if info["maxmemory"] else "warning", policy, advice)


def _persistence(info: dict[str, Any]) -> Check:
    if not info["aof_enabled"]:
        advice = "set appendonly yes: a restart loses everything since the last snapshot"
        return Check("persistence", "warning", "no append-only file", advice)
    if info.get("aof_last_write_status", "ok") != "ok":
        advice = (
            "Redis refuses writes until this is fixed: look at its disk and its log; when there is "
            "room, run BGREWRITEAOF, or it may not start again"
        )
        return Check("persistence", "problem", "the last append failed", advice)
    return Check("persistence", "ok", "append-only file")


def _memory(info: dict[str, Any]) -> Check:
    used, limit = int(info["used_memory"]), int(info["maxmemory"])
    if limit:
        found = f"{used // _MIB:,} of {limit // _MIB:,} MiB used"
        advice = "raise maxmemory, or shorten ttl_s in the policies"
        return graded("memory", found, advice, used / limit, warning=0.75, problem=0.9)
    host = int(info.get("total_system_memory", 0))
    found = f"{used // _MIB:,} MiB used, no maxmemory, the host has {host // _MIB:,} MiB"
    share = used / host if host else 0.0
    # A rewrite of the append-only file forks, and may need as much again.
    return graded("memory", found, "set maxmemory, or add memory", share, warning=0.5, problem=1)


def _scripts(view: RedisView) -> Check:
    files = [
        (package, file.name.removesuffix(".lua"))
        for package in SCRIPT_PACKAGES
        for file in resources.files(package).iterdir()
        if file.name.endswith(".lua")
    ]
    for package, name in files:
        try:
            view.client.script_load(load_script(package, name).source)
        except redis.ResponseError:
            advice = "is this a real Redis, and may this user run SCRIPT?"
            return Check("scripts", "problem", f"{name}.lua is refused", advice)
    return Check("scripts", "ok", f"Redis accepts all {count(len(files), 'script')}")


def _backlog(view: RedisView) -> Check:
    waiting, oldest_s = view.waiting("backlog")
    if not waiting:
        return Check("backlog", "ok", f"empty in namespace {view.namespace}")
    found = f"{count(waiting, 'session')} waiting, the oldest for {oldest_s:.0f} s"
    advice = "start workers, or more of them; read their logs"
    return graded("backlog", found, advice, oldest_s, warning=10, problem=60)


def _content(view: RedisView) -> Check:
    """Whether the cipher here can read what agents and workers stored last."""
    newest = [name for name, _ in view.newest_sessions(1)][:LOOKED_AT]
    unreadable, why = 0, ""
    for name in newest:
        keys = session_keys(view.namespace, name)
        try:
            view.client.xrevrange(keys.log, count=1)
            view.client.get(keys.context)
        except CannotDecrypt as error:
            unreadable, why = unreadable + 1, str(error)
    if not unreadable:
        looked_at = count(len(newest), "session")
        return Check("content", "ok", f"can be read here ({looked_at} of {view.namespace})")
    found = f"{unreadable:,} of {count(len(newest), 'session')} of {view.namespace}: {why}"
    advice = (
        "give this command, and every worker, all keys that agents encrypt with; workers that lack "
        "one leave such sessions to others, and log `cannot decrypt`"
    )
    return Check("content", "warning", found, advice)


def _parked(view: RedisView) -> Check:
    [parked] = view.sizes("parked")
    if not parked:
        return Check("parked", "ok", f"no session of namespace {view.namespace}")
    advice = "`turnmill parked` says why; fix the cause, then run `turnmill retry --all`"
    found = f"{count(parked, 'session')} of {view.namespace}"
    return Check("parked", "warning", found, advice)


def _unarchived(view: RedisView, *, is_off: bool) -> Check:
    waiting, oldest_s = view.waiting("unarchived")
    if not waiting:
        return Check("archiving", "ok", f"nothing waits in namespace {view.namespace}")
    found = f"{count(waiting, 'session')} with turns to archive, for {oldest_s:.0f} s"
    if is_off:
        return Check("archiving", "ok", found)
    advice = (
        "start a worker with --queues archive and read its log. If the workers have "
        "TURNMILL_ARCHIVE_URL=none, this is normal: set it for this command too"
    )
    return graded("archiving", found, advice, oldest_s, warning=60, problem=600)
