"""Every Redis key turnmill uses, spelled once, with its type and its lifetime.

All keys of a session carry the hash tag ``{<namespace>/<shard>}`` and so lie in one cluster slot,
together with their shard's backlog, due list and index: one script can update them at once. An
ACL for the agents of one namespace is ``~turnmill:{<namespace>/*``: they write no other key.

========================  ======  =================================================  =========
key, after the tag        type    what                                               lifetime
========================  ======  =================================================  =========
``s:<id>:log``            stream  turns not yet covered, id ``<seq>-0``              session
``s:<id>:meta``           hash    positions, totals, policy, prompt, images held     session
``s:<id>:counts``         hash    seq -> exact tokens of the turn as it is read      session
``s:<id>:context``        string  the committed context, JSON, never the tail        session
``s:<id>:facts``          string  the ledger's facts, JSON; read by workers only       session
``s:<id>:ids``            zset    turn_id by seq, and 28 bits of its digest as the    session
                                  fraction: the dedupe window
``s:<id>:covered``        stream  turns out of the log, and not in the archive yet   session
``s:<id>:commits``        stream  contexts committed, and not in the archive yet     session
``s:<id>:compactions``    stream  one record per commit, the newest thousand         session
``s:<id>:checkpoints``    stream  automatic checkpoints, the newest few              session
``s:<id>:named``          stream  checkpoints an agent made, the newest few          session
``s:<id>:lease``          string  who is compacting                                  its PX
``s:<id>:batch``          string  the batch its next summary is awaited from: ids    two days
``s:<id>:events``         hash    what a framework keeps whole beside the turns      session
``s:<id>:state``          hash    the values that a framework keeps for a session    session
``abandoned``             list    such batches of forgotten sessions, to be ended    two days
``backlog``               zset    sessions to estimate, by not-before ms             permanent
``due``                   zset    sessions to compact, by not-before ms              permanent
``index``                 zset    sessions, by last-push ms                          permanent
``unarchived``            zset    sessions with turns to archive, by since ms        permanent
``parked``                zset    sessions whose compactions fail, by since ms       permanent
``forgotten``             zset    ``<µs>:<session>`` to remove from the archive,     permanent
                                  by not-before ms
``hinted``                string  a job that counts the shard's turns is on its way    1 to 10 s
``blob:<sha256>``         hash    an image: ``data``, ``type``, and ``s:<id>`` for  its last
                                  each session that holds it                         session
``ask:<id>``              string  what an agent asks a worker for                    its PX
``answer:<id>``           list    what the worker answered                           a minute
``policies``              hash    the namespace's policies by name (own tag)         permanent
========================  ======  =================================================  =========

An endpoint that writes summaries has a hash, ``turnmill:{endpoint/<hash>}:gate``: its circuit
breaker and budgets, shared by all workers (a day after the last call). The hash is of the URL,
without user and password, and the model. ``turnmill:endpoints`` (zset by last-seen ms, its entries
a day) lists the endpoints. ``turnmill:summarizers`` (zset by last-seen ms, its entries a minute)
holds the workers of the queue ``summarize``: JSON of ``node``, ``summarizers`` (by name, why each
cannot be asked, or ``""``), ``strategies``, ``templates`` and ``tokenizers`` (their names) and,
where there is such a reason, ``problem``.

Sessions that wait for a summary are in keys of one tag, ``turnmill:{summarize}:``, for a day after
the last was added: ``waiting:<namespace>``, a zset by the ms when a session began to wait, moved by
the share of its room that is left; ``since:<namespace>``, a hash of those ms; ``order``, a zset of
namespaces by virtual time, and ``served``, of those that have had more than their share.

A session lives for its policy's ``ttl_s`` after the last push; the permanent lists lose an entry
when its work is done, the session is forgotten, or the sweep finds it expired. Outside the tags:
``turnmill:namespaces`` and ``turnmill:resting`` (sets, permanent), and ``turnmill:sweep`` (string,
PX: who sweeps). ``turnmill:server:keys`` (hash, permanent) has what `turnmill serve` knows of each
key, JSON, by the key's SHA-256.

Workers learn which namespaces there are, though no client may write what all share: a client sets a
key of its own namespace and publishes on a channel of its own namespace: an ACL lets it do both for
no other. Workers hear the channel, and look for the keys once in a while; they alone write the sets
``turnmill:namespaces`` and ``turnmill:resting``, and ``turnmill:uncompared``.

===================================  ======  =======================================  =========
key                                  type    what                                     lifetime
===================================  ======  =======================================  =========
``turnmill:{<namespace>/registered}  string  that the namespace is used; clients      permanent
:registered``                                write it, again where it is lost
``turnmill:{<namespace>/registered}  hash    ``over``: JSON, each quota that is used  a minute
:quota``                                     up with its use and its limit; ``rate``:
                                             pushes a second; written by workers
``turnmill:{<namespace>/registered}  hash    ``tokens`` that pushes may still take,   a minute
:bucket``                                    as of ``at`` (ms)
``turnmill:troubled``                string  JSON: which namespaces failed in sweeps  five
                                             within the last minute, and why          minutes
``turnmill:quarantined``             list    the newest messages of the broker that   permanent
                                             were put aside, JSON, without content
``turnmill:uncompared``              hash    by namespace, the run of Redis that its  permanent
                                             archive is still to be compared with;
                                             under ``""`` the run that was noticed
``turnmill:quarantined:count``       string  how many there were, ever                permanent
``turnmill:fleet``                   string  JSON: the numbers that metrics have of   its PX
                                             all workers together
``turnmill:fleet:idle``              string  JSON: by namespace in whose lists        an hour
                                             nothing stands, sessions over a limit;
                                             those read longest ago first
===================================  ======  =======================================  =========

What the sessions of a framework share lies under the namespace's tag ``kept``:

====================================  ====  ==========================================  =========
key, after the tag                    type  what                                        lifetime
====================================  ====  ==========================================  =========
``shared:sessions:<hash of names>``   set   names of the sessions of an app or a user   permanent
``shared:values:<hash of names>``     hash  values of an app or a user                  permanent
====================================  ====  ==========================================  =========
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from turnmill.contract.errors import InvalidName
from turnmill.contract.names import Namespace, SessionId, namespace

SHARDS = 64
"""Hash tags per namespace. All clients and workers of a namespace must agree on it."""

NAMESPACES = "turnmill:namespaces"
RESTING = "turnmill:resting"
REGISTER_EVERY_S = 10.0
"""A client that pushes announces its namespace at most this often, so that it rests not unseen."""
SWEEP_LEASE = "turnmill:sweep"
SERVER_KEYS = "turnmill:server:keys"
ENDPOINTS = "turnmill:endpoints"
SUMMARIZERS = "turnmill:summarizers"
SUMMARIZERS_MS = 60_000
"""A worker that has not announced itself there for this long is gone."""


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys a shard's sessions share."""

    backlog: str
    due: str
    index: str
    unarchived: str
    parked: str
    forgotten: str
    abandoned: str
    hinted: str


@dataclass(frozen=True, slots=True)
class AskKeys:
    """The keys of one question to the workers."""

    ask: str
    answer: str


@dataclass(frozen=True, slots=True)
class EndpointKeys:
    """The keys of one model at one endpoint; ``places`` of all models there have no name."""

    gate: str
    places: str


@dataclass(frozen=True, slots=True)
class WaitingKeys:
    """Keys of sessions that wait for a summary; ``waiting`` and ``since`` are prefixes."""

    order: str
    served: str
    waiting: str
    since: str


WAITING = WaitingKeys(
    order="turnmill:{summarize}:order",
    served="turnmill:{summarize}:served",
    waiting="turnmill:{summarize}:waiting:",
    since="turnmill:{summarize}:since:",
)


@dataclass(frozen=True, slots=True)
class SessionKeys(ShardKeys):
    """The keys of one session and of its shard, named as in the script headers.

    The keys up to ``lease`` expire with the session; those up to ``blob`` are its own.
    ``blob`` is a prefix; the sha256 of an image follows.
    """

    meta: str
    log: str
    counts: str
    context: str
    facts: str
    ids: str
    covered: str
    commits: str
    compactions: str
    checkpoints: str
    named: str
    lease: str
    batch: str
    events: str
    state: str
    blob: str

    @property
    def owned(self) -> tuple[str, ...]:
        """The keys that are this session's alone."""
        return tuple(getattr(self, name) for name in KEY_GROUPS["owned"])


_NAMES: tuple[str, ...] = SessionKeys.__slots__

KEY_GROUPS: dict[str, tuple[str, ...]] = {
    "expiring": _NAMES[: _NAMES.index("lease")],
    "owned": _NAMES[: _NAMES.index("blob")],
}
"""Keys by name that a script's header asks for together: ``expiring...``."""


def shard_of(session: SessionId) -> int:
    """The shard a session's keys lie in."""
    return zlib.crc32(session.encode()) % SHARDS


@lru_cache(maxsize=4096)
def shard_keys(namespace: Namespace, shard: int) -> ShardKeys:
    """The keys of one shard of a namespace."""
    tag = _tag(namespace, shard)
    return ShardKeys(**{name: f"{tag}:{name}" for name in ShardKeys.__slots__})


def in_all_shards(namespace: Namespace, *names: str) -> list[str]:
    """These keys of each shard of a namespace."""
    begin = _tag(namespace, "")[:-1]
    return [f"{begin}{shard}}}:{name}" for shard in range(SHARDS) for name in names]


@lru_cache(maxsize=4096)
def session_keys(namespace: Namespace, session: SessionId) -> SessionKeys:
    """The keys of one session."""
    tag = _tag(namespace, shard_of(session))
    shared = {name: f"{tag}:{name}" for name in ShardKeys.__slots__}
    own = {name: f"{tag}:s:{session}:{name}" for name in KEY_GROUPS["owned"]}
    return SessionKeys(**shared, **own, blob=f"{tag}:blob:")


def ask_keys(namespace: Namespace, ask: str) -> AskKeys:
    """The keys of a question, by its id."""
    tag = _tag(namespace, zlib.crc32(ask.encode()) % SHARDS)
    return AskKeys(ask=f"{tag}:ask:{ask}", answer=f"{tag}:answer:{ask}")


def policies_key(namespace: Namespace) -> str:
    """The key of the namespace's named policies."""
    return f"turnmill:{{{namespace}/policies}}:policies"


def endpoint_hash(place: str, model: str) -> str:
    """A hash that identifies a model at an endpoint; ``place`` is a URL without secrets."""
    return hashlib.sha256(f"{place} {model}".encode()).hexdigest()[:16]


def endpoint_keys(hashed: str) -> EndpointKeys:
    """The keys of a model at an endpoint, by its hash."""
    tag = f"turnmill:{{endpoint/{hashed}}}"
    return EndpointKeys(gate=f"{tag}:gate", places=f"{tag}:places")


def _tag(namespace: Namespace, shard: int | str) -> str:
    return f"turnmill:{{{namespace}/{shard}}}"


def commits_channel(namespace: Namespace) -> str:
    """The pub/sub channel every commit of a namespace is announced on, as JSON without content."""
    return f"turnmill:{namespace}:commits"


REGISTERED_CHANNELS = "turnmill:*:registered"
REGISTERED_PATTERN = "turnmill:{*/registered}:registered"

TROUBLED = "turnmill:troubled"
TROUBLED_MS = 300_000

UNCOMPARED = "turnmill:uncompared"
FLEET = "turnmill:fleet"
FLEET_IDLE = "turnmill:fleet:idle"

QUARANTINED = "turnmill:quarantined"
QUARANTINED_COUNT = "turnmill:quarantined:count"
QUARANTINED_KEPT = 100
"""The longest that the list gets."""


@dataclass(frozen=True, slots=True)
class RegistryKeys:
    """The key by which a namespace is found again, and what its quotas let it do."""

    registered: str
    quota: str
    bucket: str


def registry_keys(name: Namespace) -> RegistryKeys:
    """The keys that a namespace's clients and workers share."""
    tag = f"turnmill:{{{name}/registered}}"
    return RegistryKeys(
        registered=f"{tag}:registered", quota=f"{tag}:quota", bucket=f"{tag}:bucket"
    )


def registered_channel(name: Namespace) -> str:
    """The channel on which a namespace's clients say that they push."""
    return f"turnmill:{name}:registered"


def named_by(key: bytes) -> Namespace | None:
    """The namespace of a ``registered`` key; None for any other key."""
    found = _named(key.removeprefix(b"turnmill:{").partition(b"/")[0])
    return found if found and registry_keys(found).registered.encode() == key else None


def heard_on(channel: bytes) -> Namespace | None:
    """The namespace of a ``registered`` channel; None for any other channel."""
    found = _named(channel.removeprefix(b"turnmill:").removesuffix(b":registered"))
    return found if found and registered_channel(found).encode() == channel else None


def _named(name: bytes) -> Namespace | None:
    with suppress(UnicodeDecodeError, InvalidName):
        return namespace(name.decode())
    return None


def hash_of(*names: str) -> str:
    """A word for the names, whatever is in them."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def shared_key(namespace: Namespace, what: str, *names: str) -> str:
    """The key of what is shared under these names: of an app, or of an app and a user."""
    return f"turnmill:{{{namespace}/kept}}:shared:{what}:{hash_of(*names)}"
