"""What redis-py raises, as errors of turnmill: what is wrong, and never with a password."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

import redis

from turnmill.contract.errors import (
    NotPermitted,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    TurnmillError,
)

__all__ = ["store_full", "typed"]


def store_full(where: str = "Redis", info: object = None) -> StoreFull:
    """The error of a Redis at ``maxmemory``, with the reply to INFO memory where there is one."""
    if isinstance(info, bytes):
        pairs = (line.partition(":") for line in info.decode().splitlines())
        info = {name: value for name, _, value in pairs}
    told = "is at maxmemory"
    if isinstance(info, dict) and {"used_memory", "maxmemory"} <= info.keys():
        used, most = int(info["used_memory"]), int(info["maxmemory"])
        told = f"uses {used:,} bytes of maxmemory {most:,} bytes"
    return StoreFull(
        f"{where} {told} and refuses writes: workers free it by compacting and archiving sessions; "
        f"if it stays full, raise maxmemory, shorten ttl_s in the policies, or forget sessions"
    )


_NOT_PERMITTED = (
    "NOPERM",
    "no permissions to",
    "The user executing the script",  # Redis 6.2
    "ACL failure in script",  # since Redis 7
)
_UNREADY = ("READONLY", "MISCONF", "BUSY", "LOADING", "UNBLOCKED", "MASTERDOWN")
_PASSING = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.AskError,  # and MOVED: of a slot that moves for longer than anybody waits
    redis.exceptions.TryAgainError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.RedisClusterException,  # of a client the caller gave
)


def typed(error: redis.RedisError, *, is_full: bool) -> TurnmillError:
    """The typed error for what redis-py raised."""
    if is_full:
        return store_full()
    causes = list(_causes(error))
    if refusal := _refusal(causes):
        return StoreRefused(refusal)
    if any(words in str(error) for words in _NOT_PERMITTED):
        return NotPermitted("Redis does not permit this to the user of this URL (ACL)")
    kind = type(error).__name__
    unready = any(word in str(error) for word in _UNREADY)
    if unready or isinstance(error, _PASSING):
        return StoreUnavailable(
            f"Redis cannot be reached or answered too late ({kind}){_closed(causes)}"
        )
    return TurnmillError(f"Redis refused the call ({kind}); `turnmill doctor` may say why")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised for; not what the caller was busy with before."""
    while error is not None:
        yield error
        is_own = isinstance(error, redis.RedisError)
        error = (error.__cause__ or error.__context__) if is_own else None


def _refusal(causes: Sequence[BaseException]) -> str:
    """Why no connection comes about until a setting changes, or ``""``."""
    for cause in causes:
        if isinstance(cause, redis.AuthenticationError):
            return "Redis refuses this client: its user or password is missing or wrong"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of Redis cannot be trusted: {cause.verify_message}"
        # An alert of the other side, such as TLSV13_ALERT_CERTIFICATE_REQUIRED, or no TLS at all.
        if isinstance(cause, ssl.SSLError) and cause.reason and "EOF" not in cause.reason:
            return f"Redis and this client cannot agree on TLS: {cause.reason}"
        if isinstance(cause, FileNotFoundError | PermissionError):
            return f"a certificate's file, or Redis' socket, cannot be opened: {cause.strerror}"
    return ""


def _closed(causes: Sequence[BaseException]) -> str:
    # A server closes so fast that its alert is lost; a server that was ended looks the same.
    if any(isinstance(cause, ConnectionResetError | ssl.SSLEOFError) for cause in causes):
        return ": it closed the connection; it may ask for TLS, or for another client certificate"
    return ""
