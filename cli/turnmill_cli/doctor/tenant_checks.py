"""The checks of `turnmill doctor` about what somebody else wrote: in namespaces, to the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnmill.connection.transport import redis_now_ms
from turnmill_cli.doctor.check import Check
from turnmill_cli.output import count
from turnmill_cli.redis_view import RedisView

__all__ = ["check_namespaces", "check_quarantine", "check_quotas"]

MOST_NAMED = 5
RECENT_S = 24 * 3600


def check_namespaces(view: RedisView) -> Check:
    """Whether sweeps of the last minutes found a namespace damaged, and how."""
    found = view.troubled()
    if not found["count"]:
        return Check("namespaces", "ok", "sweeps found none damaged")
    named: Mapping[str, Mapping[str, Any]] = found["named"]
    told = "; ".join(f"{name}: {_damage(named[name])}" for name in sorted(named)[:MOST_NAMED])
    more = found["count"] - min(len(named), MOST_NAMED)
    told += f"; and {more:,} more" if more else ""
    advice = (
        "turnmill writes no such thing: find out who else writes there, delete a key of a wrong "
        "type, and change the password of that namespace's agents. Other namespaces do not wait"
    )
    told = f"{count(found['count'], 'namespace')} damaged: {told}"
    return Check("namespaces", "warning", told, advice)


def _damage(trouble: Mapping[str, Any]) -> str:
    parts = []
    if trouble["errors"]:
        parts.append(f"{trouble['why']} ({count(trouble['errors'], 'time')})")
    if trouble["dropped"]:
        parts.append(f"{count(trouble['dropped'], 'member')} that named no session dropped")
    return ", ".join(parts)


def check_quotas(view: RedisView) -> Check:
    """Which quotas of the namespace are used up, so that its clients are refused."""
    over = view.over_quota()
    if not over:
        return Check("quotas", "ok", f"none used up in namespace {view.namespace}")
    told = ", ".join(f"{used:,} of {most:,} {kind}" for kind, (used, most) in over.items())
    advice = (
        "forget sessions that are over, or raise the quota in the workers' TURNMILL_QUOTAS_FILE; "
        "see Operations, Quotas"
    )
    return Check("quotas", "warning", f"used up in namespace {view.namespace}: {told}", advice)


def check_quarantine(view: RedisView) -> Check:
    """How many messages of the broker workers put aside, and what the newest of them was."""
    total, newest = view.quarantined()
    if newest is None:
        return Check("messages", "ok", "workers put none aside")
    ago_s = max(redis_now_ms(view.client) - int(newest["at_ms"]), 0) / 1000
    found = (
        f"workers put {count(total, 'message')} aside, the newest {ago_s:,.0f} s ago: "
        f"{newest['why']}, {count(newest['size'], 'byte')} in queue {newest['queue']}"
    )
    if ago_s > RECENT_S:
        return Check("messages", "ok", found)
    advice = "who else writes to the broker? Agents may only add to its queues: deploy/acl"
    return Check("messages", "warning", found, advice)
