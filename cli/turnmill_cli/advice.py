"""What to do about an error, where that is the same for every command."""

from __future__ import annotations

from collections.abc import Mapping

from turnmill.contract.errors import StoreRefused, StoreUnavailable, TurnmillError, UnknownSession

__all__ = ["ADVICE", "NO_REDIS", "REDIS_REFUSES"]

NO_REDIS = "start it (`turnmill up`), or correct --redis-url / TURNMILL_REDIS_URL"
"""What to do when Redis cannot be reached."""

REDIS_REFUSES = "correct --redis-url / TURNMILL_REDIS_URL, or give --redis-password-file"
"""What to do when Redis refuses the client."""

ADVICE: Mapping[type[TurnmillError], str] = {
    StoreUnavailable: NO_REDIS,
    StoreRefused: REDIS_REFUSES,
    UnknownSession: "`turnmill sessions -A` lists all sessions; --namespace names theirs",
}
"""By the error's type."""
