"""How workers learn which namespaces there are, though no client may write what all share.

A client sets a key of its own namespace and publishes on a channel of its own namespace: an ACL
lets it do both for no other. Workers hear the channel, and look for the keys once in a while; they
alone write the sets ``turnmill:namespaces`` and ``turnmill:resting``, and ``turnmill:uncompared``.

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
===================================  ======  =======================================  =========
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnmill.contract.errors import InvalidName
from turnmill.contract.names import Namespace, namespace

__all__ = [
    "QUARANTINED",
    "QUARANTINED_COUNT",
    "QUARANTINED_KEPT",
    "REGISTERED_CHANNELS",
    "REGISTERED_PATTERN",
    "TROUBLED",
    "TROUBLED_MS",
    "UNCOMPARED",
    "RegistryKeys",
    "heard_on",
    "named_by",
    "registered_channel",
    "registry_keys",
]

REGISTERED_CHANNELS = "turnmill:*:registered"
REGISTERED_PATTERN = "turnmill:{*/registered}:registered"

TROUBLED = "turnmill:troubled"
TROUBLED_MS = 300_000

UNCOMPARED = "turnmill:uncompared"

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
