"""Keys that open one namespace each; Redis has their hashes only, where no tenant's ACL reaches."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Final

from turnmill.client._async.connection import AsyncConnection
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import InvalidInput
from turnmill.contract.formats import Value
from turnmill.contract.keys import SERVER_KEYS
from turnmill.contract.names import Namespace, namespace

TRUSTED_S: Final = 5.0
"""A key that was found is not looked up again for so long: a revoked one opens as long."""

_MOST_TRUSTED = 10_000
_ID_CHARS = 12
_MOST_LABEL = 200


class ApiKey(Value):
    """What is known of a key.

    Attributes:
        id: what revokes it: the beginning of its hash.
        namespace: all that it opens.
        label: whose it is, for people.
        made_ms: when, milliseconds since 1970.
    """

    id: str
    namespace: Namespace
    label: str = ""
    made_ms: int = 0


def _hash(key: str) -> str:
    # A key has 256 random bits: nobody guesses it, so that no slow hash is needed.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class ApiKeys:
    """The keys of one state store."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._redis = connection
        self._trusted: dict[str, tuple[float, Namespace]] = {}

    async def create(self, of: str, label: str = "") -> tuple[str, ApiKey]:
        """A new key, which is shown this once, and what is known of it.

        Raises:
            InvalidName: no namespace can have this name.
            InvalidInput: the label is too long.
        """
        if len(label) > _MOST_LABEL:
            raise InvalidInput(f"label: {len(label)} characters; at most {_MOST_LABEL} are allowed")
        key = f"tm_{secrets.token_urlsafe(32)}"
        hashed = _hash(key)
        made_ms = int(time.time() * 1000)
        made = ApiKey(id=hashed[:_ID_CHARS], namespace=namespace(of), label=label, made_ms=made_ms)
        body = encode_json(made.model_dump())
        await self._redis.plain(("HSET", SERVER_KEYS, hashed, body))
        return key, made

    async def listed(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        return sorted((made for _, made in await self._all()), key=lambda made: made.made_ms)

    async def revoke(self, key_id: str) -> bool:
        """Let a key open nothing more; False where there is none of this id."""
        hashes = [hashed for hashed, made in await self._all() if made.id == key_id]
        if not hashes:
            return False
        return bool(await self._redis.plain(("HDEL", SERVER_KEYS, *hashes)))

    async def opened(self, key: str) -> Namespace | None:
        """The namespace that a key opens; None for one that opens nothing."""
        hashed, now = _hash(key), time.monotonic()
        until, found = self._trusted.get(hashed, (0.0, None))
        if found is not None and now < until:
            return found
        self._trusted.pop(hashed, None)
        body = await self._redis.plain(("HGET", SERVER_KEYS, hashed))
        if body is None:
            return None
        if len(self._trusted) >= _MOST_TRUSTED:
            self._trusted.clear()
        found = namespace(_parsed(body).namespace)
        self._trusted[hashed] = now + TRUSTED_S, found
        return found

    async def _all(self) -> list[tuple[str, ApiKey]]:
        found: Any = await self._redis.plain(("HGETALL", SERVER_KEYS))
        if isinstance(found, list):  # in Redis' second protocol
            found = dict(zip(found[::2], found[1::2], strict=True))
        return [(hashed.decode(), _parsed(body)) for hashed, body in found.items()]


def _parsed(body: bytes) -> ApiKey:
    return ApiKey.model_validate(decode_json(body))
