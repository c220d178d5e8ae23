"""Checkpoints, clearing, and questions about memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnmill.commands.calls import Base, Call, Command
from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import Seq, Version, session_id, template_name
from turnmill.contract.results import Checkpoint
from turnmill.contract.sealing import Secret
from turnmill.read_reply import DEFAULT_POLICY

__all__ = ["Remembering"]

MAX_CHECKPOINT_CHARS = 200
MAX_MEMORIES = 100
MAX_MEMORY_CHARS = 100_000


class Remembering(Base):
    """Checkpoints, rollbacks and memories."""

    def checkpoint(self, session: str, message: str, name: str) -> Call:
        """Remember the context as it is now.

        Raises:
            InvalidInput: the message or the name is too long, or not text.
        """
        for field, value in (("message", message), ("name", name)):
            if not isinstance(value, str) or len(value) > MAX_CHECKPOINT_CHARS:
                raise InvalidInput(
                    f"{field}: must be a str of at most {MAX_CHECKPOINT_CHARS} characters"
                )
        return self._call(
            "checkpoint",
            session,
            id=name.encode("utf-8", "replace"),
            message=Secret(message.encode("utf-8", "replace")),
            keep_checkpoints=DEFAULT_POLICY.keep_checkpoints,
        )

    def checkpointed(self, session: str, reply: bytes | None) -> str | None:
        """The id of the checkpoint made, or None where the policy keeps none.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        return reply.decode() or None

    def list_checkpoints(self, session: str) -> list[Command]:
        """All checkpoints of the session."""
        _, keys = self._keys(session)
        return [
            ("EXISTS", keys.meta),
            ("XRANGE", keys.checkpoints, "-", "+"),
            ("XRANGE", keys.named, "-", "+"),
        ]

    def checkpoints(self, session: str, reply: Sequence[Any]) -> list[Checkpoint]:
        """The checkpoints in the reply, oldest first.

        Raises:
            UnknownSession: there is no such session.
        """
        known, automatic, named = reply
        if not known:
            raise self._unknown(session)
        found = [_checkpoint(entry, automatic=True) for entry in automatic]
        found += [_checkpoint(entry, automatic=False) for entry in named]
        return sorted(found, key=lambda checkpoint: (checkpoint.at_ms, checkpoint.seq))

    def clear(self, session: str, *, new_id: Callable[[], str]) -> Call:
        """Set the conversation aside; the system prompt stays."""
        return self._call("clear", session, commit_id=new_id())

    def cleared(self, session: str, reply: int | None) -> int:
        """How many turns were in the log.

        Raises:
            UnknownSession: there is no such session.
        """
        if reply is None:
            raise self._unknown(session)
        return reply

    @staticmethod
    def rollback(to: str | int | None) -> dict[str, Any]:
        """The request for an earlier state.

        Raises:
            InvalidInput: ``to`` is neither a checkpoint's id nor a version.
        """
        if isinstance(to, bool) or not isinstance(to, str | int | None):
            kind = type(to).__name__
            raise InvalidInput(f"to: must be a checkpoint's id, a version or None, got {kind}")
        return {"to": to}

    @staticmethod
    def summarize(template: str) -> dict[str, Any]:
        """The request for a summary; without a template, the policy decides how it is made.

        Raises:
            InvalidName: no template can have this name.
        """
        return {"template": template_name(template) if template != "" else ""}

    @staticmethod
    def ground(query: str, k: int, session: str | None = None) -> dict[str, Any]:
        """The request for memories that help with a query, of all sessions or of one.

        Raises:
            InvalidInput: ``query`` is not text, or ``k`` is not a number one may ask for.
            InvalidName: no session can have this name.
        """
        if not isinstance(query, str):
            raise InvalidInput(f"query: must be a str, got {type(query).__name__}")
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_MEMORIES:
            got = k if isinstance(k, int) else f"of type {type(k).__name__}"
            raise InvalidInput(f"k {got} must be in 1..{MAX_MEMORIES}")
        request = {"query": query, "k": k}
        return request if session is None else {**request, "session": session_id(session)}

    @staticmethod
    def remember(text: str) -> dict[str, Any]:
        """The request to remember a text.

        Raises:
            InvalidInput: not text, empty, or longer than a memory may be.
        """
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("text: must be a str that is not blank")
        if len(text) > MAX_MEMORY_CHARS:
            raise InvalidInput(
                f"text: {len(text)} characters; a memory has at most {MAX_MEMORY_CHARS}"
            )
        return {"text": text}


def _checkpoint(entry: tuple[bytes, Any], *, automatic: bool) -> Checkpoint:
    at, fields = entry
    flat = (
        fields if isinstance(fields, list) else [part for pair in fields.items() for part in pair]
    )
    values = dict(zip(flat[::2], flat[1::2], strict=True))
    return Checkpoint(
        id=values[b"id"].decode(),
        seq=Seq(int(values[b"seq"])),
        version=Version(int(values[b"version"])),
        message=values[b"message"].decode(),
        at_ms=int(at.partition(b"-")[0]),
        automatic=automatic,
    )
