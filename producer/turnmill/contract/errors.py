"""Every error turnmill raises, in one tree.

::

    TurnmillError
    ├── InvalidInput (ValueError)     the caller's data; nothing was stored
    │   ├── InvalidName               a session or namespace name
    │   ├── InvalidTurn               a turn or one of its messages
    │   │   └── TurnTooLarge          a turn over the size limit
    │   ├── TurnConflict              another turn was pushed under its turn_id
    │   ├── InvalidPolicy             a policy field, or two that contradict each other
    │   ├── SystemPromptTooLarge      leaves no room for a conversation
    │   ├── UnknownEncoding           a tokenizer vocabulary nobody here knows
    │   ├── UnknownTemplate           no folder has a template of this name
    │   └── InvalidTemplate           a template that cannot be used
    ├── UnknownSession (LookupError)  never opened, forgotten, or expired
    ├── UnknownPolicy (LookupError)   the namespace has no policy of this name
    ├── NoCheckpoint (LookupError)    nothing to roll back to
    ├── CorruptContext                a stored value that no version of turnmill wrote
    ├── NewerFormat                   a newer turnmill wrote it; says what to upgrade
    ├── CannotDecrypt                 stored content is encrypted: no cipher, or a wrong key
    ├── NotPermitted                  Redis does not let this user do it
    ├── ScriptContract (TypeError)    a Lua script called against its header
    └── Transient                     the same call may succeed later
        ├── QuotaExceeded             the namespace has used up a quota
        ├── StoreUnavailable          Redis cannot be reached, or answered too late
        │   └── StoreRefused          it asks for another password or certificate, or has a bad one
        ├── StoreFull                 Redis is at maxmemory and refuses writes
        ├── ArchiveUnavailable        the archive's database is locked or cannot be reached
        ├── SessionBusy               another worker is compacting the session
        └── NotAnswered               no worker answered in time; says what is going on

Messages say what was wrong and what is allowed: the field, and the value's size or kind, never
its content, because messages reach logs and conversations must not.
"""

from __future__ import annotations

from typing import ClassVar


class TurnmillError(Exception):
    """The root: catch this to catch everything turnmill raises."""


class InvalidInput(TurnmillError, ValueError):
    """The caller's data is not acceptable; nothing was stored."""


class InvalidName(InvalidInput):
    """A session or namespace name has characters or a length that are not allowed."""


class InvalidTurn(InvalidInput):
    """A turn, or one of its messages, is not something a model API would accept."""


class TurnTooLarge(InvalidTurn):
    """A turn is larger than the client's limit, in bytes of JSON."""


class TurnConflict(InvalidInput):
    """A turn with other messages was pushed under this ``turn_id`` before; it stays as it is."""


class InvalidPolicy(InvalidInput):
    """A policy field is out of range, or two fields contradict each other."""


class SystemPromptTooLarge(InvalidInput):
    """The system prompt leaves no room for a conversation under the policy's hard limit."""


class UnknownEncoding(InvalidInput):
    """No tokenizer vocabulary has this name."""


class UnknownTemplate(InvalidInput):
    """No folder, nor turnmill itself, has a template of this name."""


class InvalidTemplate(InvalidInput):
    """A file is not a valid template; the message names the file, the line and what is allowed."""


class UnknownSession(TurnmillError, LookupError):
    """The session was never opened nor pushed to, was forgotten, or has expired."""


class UnknownPolicy(TurnmillError, LookupError):
    """The namespace has no policy of this name."""


class NoCheckpoint(TurnmillError, LookupError):
    """The session has no checkpoint, or none of this name or version."""


class NotPermitted(TurnmillError):
    """Redis' rules (ACL) do not let the user of this connection do that; nothing was changed."""


class CorruptContext(TurnmillError):
    """A stored value is not what turnmill writes."""


class NewerFormat(TurnmillError):
    """A newer turnmill wrote it in a format that this one cannot read; nothing was changed.

    Attributes:
        component: what this process is, as messages call it: the one that is older.
    """

    component: ClassVar[str] = "client"


class CannotDecrypt(TurnmillError):
    """Stored content is encrypted, and there is no cipher here or it lacks the key."""


class ScriptContract(TurnmillError, TypeError):
    """A Lua script was called with keys or arguments its header does not name."""


class Transient(TurnmillError):
    """The operation failed for a reason that may pass; the same call may succeed later."""


class StoreUnavailable(Transient):
    """Redis cannot be reached, or did not answer in time."""


class StoreRefused(StoreUnavailable):
    """Redis refuses this client, or its certificate cannot be trusted: a setting has to change."""


class StoreFull(Transient):
    """Redis has reached ``maxmemory`` and refuses writes; nothing was stored."""


class QuotaExceeded(Transient):
    """The namespace has used up a quota that its operator set; nothing was stored.

    Attributes:
        quota: which one: ``sessions``, ``bytes``, ``pushes_per_second`` or ``memories``.
        used: how much there is, as workers last measured it; 0 where only the rate counts.
        allowed: the quota.
        retry_after_s: seconds to wait before the same call may succeed.
    """

    quota: str = ""
    used: int = 0
    allowed: int = 0
    retry_after_s: float = 1.0

    @classmethod
    def of(
        cls, quota: str, used: int = 0, allowed: int = 0, *, retry_after_s: float = 1.0
    ) -> QuotaExceeded:
        """The error for a quota; its words say what to do."""
        numbers = f"{used:,} of {allowed:,} {quota}" if allowed else quota
        made = cls(
            f"the namespace's quota is used up: {numbers}; nothing was stored. Try again in "
            f"{retry_after_s:.1f} s; {_WHEN_USED_UP[quota]}"
        )
        made.quota, made.used, made.allowed, made.retry_after_s = (
            quota,
            used,
            allowed,
            retry_after_s,
        )
        return made


_WHEN_USED_UP = {
    "sessions": "forget sessions that are over, give them a shorter ttl_s, or raise the quota",
    "bytes": "forget sessions that are over, let workers archive, or raise the quota",
    "pushes_per_second": "push less often, or raise the quota",
    "memories": "erase some, or raise the quota",
}


class ArchiveUnavailable(Transient):
    """The archive's database is locked, or cannot be reached."""


class SessionBusy(Transient):
    """Another worker is compacting the session; nothing was changed."""


class NotAnswered(Transient):
    """No worker answered in time; the message says whether one is working on it."""
