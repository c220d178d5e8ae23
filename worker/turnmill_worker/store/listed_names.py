"""Names on lists that agents may write: some are no names, and are taken off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from turnmill.contract.errors import InvalidName
from turnmill.contract.names import SessionId, session_id

__all__ = ["drop", "kind_of", "session_named", "sessions_named"]


def session_named(member: bytes) -> SessionId | None:
    """The session that a list's member names, or None."""
    with suppress(UnicodeDecodeError, InvalidName):
        return session_id(member.decode())
    return None


def sessions_named(client: Any, key: str, members: Iterable[bytes]) -> list[SessionId]:
    """The sessions that members of a list name; whatever else is there is taken off it."""
    found = [(member, session_named(member)) for member in members]
    drop(client, {key: [member for member, name in found if name is None]})
    return [name for _, name in found if name is not None]


def drop(client: Any, members: Mapping[str, Sequence[bytes]]) -> None:
    """Take members off lists, by the lists' keys."""
    bad = {key: some for key, some in members.items() if some}
    if bad:
        with client.pipeline(transaction=False) as pipe:
            for key, some in bad.items():
                pipe.zrem(key, *some)
            pipe.execute(raise_on_error=False)


def kind_of(error: Exception) -> str:
    """What Redis calls an error, such as WRONGTYPE; nothing of what it choked on."""
    word = str(error).partition(" ")[0]
    return word if word.isalpha() and word.isupper() else type(error).__name__
