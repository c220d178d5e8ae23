"""Asking the workers for what an agent cannot do alone, and waiting for the answer; no I/O.

A question lies in Redis until a worker takes it, and the answer until the agent reads it: the
Celery job carries the question's id, never its content. A question nobody took in time is
withdrawn, so that no worker answers it when nobody waits any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnmill.contract import errors
from turnmill.contract.codec import decode_exactly, decode_json, encode_json
from turnmill.contract.errors import InvalidInput, NotAnswered, TurnmillError
from turnmill.contract.formats import refuse_newer, stamp
from turnmill.contract.jobs import EXPORT, GROUND, QUEUE_OF, REMEMBER, asked_for
from turnmill.contract.keys import AskKeys, ask_keys
from turnmill.contract.names import Namespace, SessionId, session_id
from turnmill.contract.scripts import Command
from turnmill.contract.sealing import Secret

LOOK_S = 0.4
"""Seconds of one blocking look at the answer, if the sockets wait much longer."""

ABOUT_NAMESPACES = frozenset({GROUND, REMEMBER})
"""The tasks that are about no session."""

LONGEST_S = 24 * 3600.0
"""The longest anybody may wait for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question.

    Attributes:
        task: the Celery task that answers it.
        name: what is asked for, in messages.
        session: the session it is about; ``""`` for a question about the namespace.
        look_s: seconds of one blocking look at the answer.
    """

    task: str
    name: str
    namespace: Namespace
    session: SessionId
    id: str
    body: bytes
    timeout_s: float
    look_s: float
    asked_at: float

    @property
    def keys(self) -> AskKeys:
        """The Redis keys of question and answer."""
        return ask_keys(self.namespace, self.id)

    @property
    def put(self) -> Command:
        """Stores the question."""
        return ("SET", self.keys.ask, Secret(self.body), "PX", int(self.timeout_s * 1000) + 1000)

    @property
    def look(self) -> Command:
        """Waits a moment for the answer, but never past the caller's time."""
        left = self.timeout_s - (time.monotonic() - self.asked_at)
        # 0 would wait for ever.
        return ("BLPOP", self.keys.answer, f"{min(max(left, 0.01), self.look_s):.3f}")

    @property
    def withdraw(self) -> Command:
        """Withdraws the question; 1 when no worker had taken it."""
        return ("DEL", self.keys.ask)

    def is_over(self) -> bool:
        """Whether the caller has waited long enough."""
        return time.monotonic() - self.asked_at >= self.timeout_s

    def not_answered(self, *, withdrawn: bool) -> NotAnswered:
        """The error that says what is still going on."""
        what = f"{self.name} of {self.session!r}" if self.session else self.name
        if withdrawn:
            return NotAnswered(
                f"{what}: no worker took it up within {self.timeout_s:g} s, and it was withdrawn: "
                f"nothing was done. Does a worker consume the queue {QUEUE_OF[self.task]!r}? "
                "`turnmill doctor` says so, and how to start one"
            )
        return NotAnswered(
            f"{what}: a worker took it up and is still at it after {self.timeout_s:g} s; it may "
            "yet be done: look again later"
        )

    def answer(self, reply: tuple[bytes, bytes]) -> Any:
        """What the worker said.

        Raises:
            TurnmillError: what the worker raised, as its own class where this version knows it.
        """
        # A transcript has what the agent noted beside its turns, byte for byte.
        told = (decode_exactly if self.task == EXPORT else decode_json)(reply[1])
        refuse_newer(told, "a worker's answer")
        if "error" not in told:
            return told["answer"]
        kind = vars(errors).get(told["error"], TurnmillError)
        raised = kind(told["message"])
        vars(raised).update(told.get("about", {}))
        raise raised


def ask(
    task: str,
    namespace: Namespace,
    session: str,
    body: Mapping[str, object],
    *,
    timeout_s: float,
    look_s: float = LOOK_S,
) -> Ask:
    """A question ready to be asked.

    Raises:
        InvalidName: no session can have this name.
        InvalidInput: ``timeout_s`` is not a time one can wait.
    """
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 <= timeout_s <= LONGEST_S:
        got = timeout_s if is_number else f"a value of type {type(timeout_s).__name__}"
        raise InvalidInput(f"timeout_s: got {got}; allowed are 0 to {LONGEST_S:g} seconds")
    return Ask(
        task=task,
        name=asked_for(task, body),
        namespace=namespace,
        session=SessionId("") if task in ABOUT_NAMESPACES else session_id(session),
        id=os.urandom(12).hex(),
        body=encode_json({**body, **stamp()}),
        timeout_s=timeout_s,
        look_s=look_s,
        asked_at=time.monotonic(),
    )


def look_s(socket_timeout_s: float | None) -> float:
    """Seconds a command can block before its socket gives up, with room to spare.

    Redis ends a block up to 0.1 s late: it looks at its clock ten times a second.
    """
    return min(LOOK_S, socket_timeout_s / 4) if socket_timeout_s else LOOK_S
