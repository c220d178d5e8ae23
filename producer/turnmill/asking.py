"""Asking the workers for what an agent cannot do alone, and waiting for the answer; no I/O.

A question lies in Redis until a worker takes it, and so does the answer until it is read: the
Celery job carries the question's id, never its content. A question nobody took in time is
withdrawn, so that it cannot be answered when nobody waits any more.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from turnmill.commands import Command
from turnmill.contract import errors
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import NotAnswered, TurnmillError
from turnmill.contract.jobs import QUEUE_OF
from turnmill.contract.keys import AskKeys, ask_keys
from turnmill.contract.names import Namespace, SessionId

__all__ = ["LOOK_S", "Ask", "ask"]

LOOK_S = 0.4
"""Seconds of one blocking look at the answer: less than the sockets' time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question.

    Attributes:
        task: the Celery task that answers it.
        session: whose it is about; ``""`` for one about the namespace.
    """

    task: str
    namespace: Namespace
    session: SessionId
    id: str
    body: bytes
    timeout_s: float
    asked_at: float

    @property
    def keys(self) -> AskKeys:
        """Where question and answer lie."""
        return ask_keys(self.namespace, self.id)

    @property
    def put(self) -> Command:
        """Lays the question down."""
        return ("SET", self.keys.ask, self.body, "PX", int(self.timeout_s * 1000) + 1000)

    @property
    def look(self) -> Command:
        """Waits a moment for the answer, and no longer than there is time."""
        left = self.timeout_s - (time.monotonic() - self.asked_at)
        # 0 would wait for ever.
        return ("BLPOP", self.keys.answer, f"{min(max(left, 0.01), LOOK_S):.3f}")

    @property
    def withdraw(self) -> Command:
        """Takes the question back; 1 when nobody had taken it."""
        return ("DEL", self.keys.ask)

    def is_over(self) -> bool:
        """Whether the caller has waited long enough."""
        return time.monotonic() - self.asked_at >= self.timeout_s

    def not_answered(self, *, withdrawn: bool) -> NotAnswered:
        """The error that says what is still going on."""
        what = f"{self.task} of {self.session!r}" if self.session else self.task
        if withdrawn:
            return NotAnswered(
                f"{what}: no worker took it up within {self.timeout_s:g} s, and it was withdrawn: "
                f"nothing was done. Is a worker consuming the queue {QUEUE_OF[self.task]!r}? "
                "`turnmill doctor` says"
            )
        return NotAnswered(
            f"{what}: a worker took it up and is still at it after {self.timeout_s:g} s; it may "
            "yet be done: look again later"
        )

    def answer(self, reply: tuple[bytes, bytes]) -> Any:
        """What the worker said.

        Raises:
            TurnmillError: what the worker raised, as its own class.
        """
        told = decode_json(reply[1])
        if "error" not in told:
            return told["answer"]
        kind = getattr(errors, told["error"], TurnmillError)
        raise kind(told["message"])


def ask(
    task: str, namespace: Namespace, session: SessionId | str, body: object, *, timeout_s: float
) -> Ask:
    """A question ready to be asked."""
    return Ask(
        task=task,
        namespace=namespace,
        session=SessionId(session),
        id=os.urandom(12).hex(),
        body=encode_json(body),
        timeout_s=timeout_s,
        asked_at=time.monotonic(),
    )
