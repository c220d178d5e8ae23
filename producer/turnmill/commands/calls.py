"""One script call, and what every call of a namespace needs; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from turnmill import lua
from turnmill.contract.errors import InvalidInput, UnknownSession
from turnmill.contract.images.stored import DEFAULT_MAX_IMAGE_BYTES
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId, namespace, session_id
from turnmill.contract.scripts import Script, load_script
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES

__all__ = ["LUA", "Base", "Call", "Command", "evals"]

LUA = lua.__name__


class Call(NamedTuple):
    """One script call: ``EVALSHA script.sha *words``."""

    script: Script
    words: list[str | bytes | int]


Command = tuple[str | bytes | int, ...]
"""A plain Redis command."""


def evals(calls: Sequence[Call], *, with_source: bool) -> list[Command]:
    """Calls of one script as commands; the first may take the script's source along."""
    commands: list[Command] = [("EVALSHA", call.script.sha, *call.words) for call in calls]
    if with_source:
        commands[0] = ("EVAL", calls[0].script.source, *calls[0].words)
    return commands


@dataclass(frozen=True, kw_only=True)
class Base:
    """What every call needs: the namespace, its keys, and its limits."""

    namespace: Namespace
    max_turn_bytes: int = DEFAULT_MAX_TURN_BYTES
    max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES

    @classmethod
    def of(
        cls, name: str, max_turn_bytes: int, max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES
    ) -> Self:
        """Commands for a namespace, its name checked."""
        if max_turn_bytes < 1:
            raise InvalidInput(f"max_turn_bytes {max_turn_bytes} must be at least 1")
        if max_image_bytes < 1:
            raise InvalidInput(f"max_image_bytes {max_image_bytes} must be at least 1")
        return cls(
            namespace=namespace(name),
            max_turn_bytes=max_turn_bytes,
            max_image_bytes=max_image_bytes,
        )

    def _keys(self, session: str) -> tuple[SessionId, SessionKeys]:
        checked = session_id(session)
        return checked, session_keys(self.namespace, checked)

    def _call(self, name: str, session: str, **args: str | bytes | int) -> Call:
        checked, keys = self._keys(session)
        script = load_script(LUA, name)
        return Call(script, script.call(keys, session=checked, **args))

    def _unknown(self, session: str) -> UnknownSession:
        return UnknownSession(
            f"no session {session!r} in namespace {self.namespace!r}: never opened nor pushed to, "
            "forgotten, or expired"
        )
