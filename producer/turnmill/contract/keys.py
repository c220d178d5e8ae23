"""Every Redis key turnmill uses, spelled once, with its type and its lifetime.

All keys of a session carry the hash tag ``{<namespace>/<shard>}`` and so lie in one cluster slot,
together with their shard's backlog, due list and index: one script can update them at once. An
ACL for one namespace is ``~turnmill:{<namespace>/*``.

========================  ======  =================================================  =========
key, after the tag        type    what                                               lifetime
========================  ======  =================================================  =========
``s:<id>:log``            stream  turns not yet covered, id ``<seq>-0``              session
``s:<id>:meta``           hash    positions, token totals, policy, system prompt     session
``s:<id>:counts``         hash    seq -> exact tokens of the turn as it is read      session
``s:<id>:context``        string  the committed context, JSON, never the tail        session
``s:<id>:ids``            zset    turn_id by seq: the dedupe window                  session
``s:<id>:covered``        stream  turns under the watermark, id ``<seq>-0``          session
``s:<id>:compactions``    stream  one record per commit, the newest thousand         session
``s:<id>:lease``          string  who is compacting                                  its PX
``backlog``               zset    sessions to estimate, by waiting-since ms          permanent
``due``                   zset    sessions to compact, by not-before ms              permanent
``index``                 zset    sessions, by last-push ms                          permanent
========================  ======  =================================================  =========

A session's lifetime is its policy's ``ttl_s`` after the last push; the permanent lists lose an
entry when its work is done, the session is forgotten, or the sweep finds it expired. Outside the
tags: ``turnmill:namespaces`` (set, permanent: which namespaces the sweep visits)
and ``turnmill:sweep`` (string, PX: who sweeps).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

from turnmill.contract.names import Namespace, SessionId

__all__ = [
    "NAMESPACES",
    "SHARDS",
    "SWEEP_LEASE",
    "SessionKeys",
    "ShardKeys",
    "commits_channel",
    "session_keys",
    "shard_keys",
    "shard_of",
]

SHARDS = 64
"""Hash tags per namespace. All clients and workers of a namespace must agree on it."""

NAMESPACES = "turnmill:namespaces"
SWEEP_LEASE = "turnmill:sweep"


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys a shard's sessions share."""

    backlog: str
    due: str
    index: str


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of one session and of its shard, named as in the script headers."""

    log: str
    meta: str
    counts: str
    context: str
    ids: str
    covered: str
    compactions: str
    lease: str
    backlog: str
    due: str
    index: str

    @property
    def owned(self) -> tuple[str, ...]:
        """The keys that are this session's alone."""
        return (
            self.log,
            self.meta,
            self.counts,
            self.context,
            self.ids,
            self.covered,
            self.compactions,
            self.lease,
        )


def shard_of(session: SessionId) -> int:
    """The shard a session's keys lie in."""
    return zlib.crc32(session.encode()) % SHARDS


@lru_cache(maxsize=4096)
def shard_keys(namespace: Namespace, shard: int) -> ShardKeys:
    """The keys of one shard of a namespace."""
    tag = f"turnmill:{{{namespace}/{shard}}}"
    return ShardKeys(backlog=f"{tag}:backlog", due=f"{tag}:due", index=f"{tag}:index")


@lru_cache(maxsize=4096)
def session_keys(namespace: Namespace, session: SessionId) -> SessionKeys:
    """The keys of one session."""
    shard = shard_of(session)
    shared = shard_keys(namespace, shard)
    own = f"turnmill:{{{namespace}/{shard}}}:s:{session}"
    return SessionKeys(
        log=f"{own}:log",
        meta=f"{own}:meta",
        counts=f"{own}:counts",
        context=f"{own}:context",
        ids=f"{own}:ids",
        covered=f"{own}:covered",
        compactions=f"{own}:compactions",
        lease=f"{own}:lease",
        backlog=shared.backlog,
        due=shared.due,
        index=shared.index,
    )


def commits_channel(namespace: Namespace) -> str:
    """The pub/sub channel every commit of a namespace is announced on, as JSON without content."""
    return f"turnmill:{namespace}:commits"
