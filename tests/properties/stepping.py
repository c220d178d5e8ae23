"""Jobs that stop before every step they take outside, so that a test decides what comes between.

A job is the real stage in a thread of its own. Before each call of a port it waits to be let
through; killed there, it vanishes as a worker does: nothing is released, nobody is told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

from turnmill.contract import jobs
from turnmill.contract.errors import NoCheckpoint, Transient, TurnmillError, UnknownSession
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.policy import Policy
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.pipeline.batch import Batches
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.ports.protocols import (
    Archive,
    BatchEndpoint,
    BatchNotes,
    Hints,
    Outgoing,
    Sessions,
    States,
    Summarizer,
    Waiting,
)
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.export import Exporting
from turnmill_worker.requests.rollback import Rollback
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

__all__ = ["Outside", "SentHints", "SteppedJob"]

PATIENCE_S = 60


class SentHints:
    """The other end of the ``Hints`` port: what was sent waits in a list."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, SessionRef]] = []

    def send(self, task: str, ref: SessionRef) -> bool:
        """Keep the hint."""
        self.sent.append((task, ref))
        return True

    def waiting(self, task: str) -> int:
        """How many of them are for this task."""
        return sum(sent == task for sent, _ in self.sent)


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Everything a job reaches through ports."""

    sessions: Sessions
    states: States
    outgoing: Outgoing
    archive: Archive
    hints: SentHints
    summarizer: Summarizer
    model: Summarizer
    waiting: Waiting
    notes: BatchNotes
    batches: BatchEndpoint


class _Killed(BaseException):
    """The worker died: not an Exception, so that nothing cleans up after it."""


class _Stepped:
    """A port whose every call first waits for its turn."""

    def __init__(self, inner: Any, wait: Callable[[], None]) -> None:
        self._inner = inner
        self._wait = wait

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if not callable(member):
            return member

        def call(*args: Any, **kwargs: Any) -> Any:
            self._wait()
            return member(*args, **kwargs)

        return call


class _SteppedLease(_Stepped):
    """A lease that is taken and released as steps of their own."""

    def __enter__(self) -> Self | None:
        self._wait()
        return None if self._inner.__enter__() is None else self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, trace)


class _SteppedSessions(_Stepped):
    """The sessions in Redis, one step at a time."""

    def lease(self, ref: SessionRef, *, forced: bool = False) -> _SteppedLease:
        """The lease, not yet taken."""
        return _SteppedLease(self._inner.lease(ref, forced=forced), self._wait)


class SteppedJob:
    """One job, let through its steps one by one.

    Args:
        asked: what an agent asked for: what to roll back to or to erase, or a template's name.
    """

    def __init__(
        self, task: str, ref: SessionRef, *, outside: Outside, asked: object = None
    ) -> None:
        self.task = task
        self.ref = ref
        self.result: Any = None
        self.refusal: TurnmillError | None = None
        self.error: Exception | None = None
        self.ended = False
        self._killed = False
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        work = _stages(outside, self._wait, asked)[task]
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._await_stop()

    @property
    def outcome(self) -> str | None:
        """What the job says it did, if it is one that does."""
        return self.result.outcome if isinstance(self.result, Outcome) else None

    def step(self) -> None:
        """Let it take its next step, and wait until it stands before the one after."""
        if not self.ended:
            self._go.release()
            self._await_stop()

    def finish(self) -> None:
        """Let it take all its steps."""
        while not self.ended:
            self.step()

    def kill(self) -> None:
        """Have its worker die where it stands."""
        self._killed = True
        self.finish()

    def _await_stop(self) -> None:
        assert self._stopped.acquire(timeout=PATIENCE_S), f"{self.task} hangs"
        if self.ended:
            self._thread.join()

    def _wait(self) -> None:
        self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise _Killed

    def _run(self, work: Callable[[SessionRef], Any]) -> None:
        try:
            self.result = work(self.ref)
        except _Killed:
            pass
        except (Transient, NoCheckpoint, UnknownSession) as error:
            self.refusal = error  # tried again by the lists; told to who asked
        except Exception as error:  # noqa: BLE001 - raised again where the test can see it
            self.error = error
        finally:
            self.ended = True
            self._stopped.release()


def _stages(
    outside: Outside, wait: Callable[[], None], asked: Any
) -> dict[str, Callable[[SessionRef], Any]]:
    """The work of each task, its every step outside announced."""
    hints = cast("Hints", _Stepped(outside.hints, wait))
    states = cast("States", _Stepped(outside.states, wait))
    outgoing = cast("Outgoing", _Stepped(outside.outgoing, wait))
    archive = cast("Archive", _Stepped(outside.archive, wait))
    pipeline = Pipeline(
        templates=TemplateLoader(),
        sessions=cast("Sessions", _SteppedSessions(outside.sessions, wait)),
        hints=hints,
        counters=counter_for,
        summarizers=lambda policy: _summarizers(outside, policy),
        waiting=cast("Waiting", _Stepped(outside.waiting, wait)),
        batches=Batches(
            cast("BatchNotes", _Stepped(outside.notes, wait)),
            cast("BatchEndpoint", _Stepped(outside.batches, wait)),
        ),
    )
    archiving = Archiving(outgoing, states, archive, hints)

    def forget(ref: SessionRef) -> Outcome:
        outcome = archiving.forget(ref)
        pipeline.forgotten(ref)
        return outcome

    return {
        jobs.ESTIMATE: pipeline.estimate,
        jobs.COMPACT: pipeline.compact,
        jobs.SUMMARIZE: lambda ref: pipeline.summarize(pipeline.whose_turn(ref)),
        jobs.ARCHIVE: archiving.archive,
        jobs.FORGET: forget,
        jobs.FORCE: lambda ref: pipeline.force(ref, template=str(asked or "")),
        jobs.ROLLBACK: lambda ref: Rollback(states, archive, counter_for).rollback(ref, asked),
        jobs.ERASE: lambda ref: Erasing(states, archive, counter_for, hints).erase(ref, asked),
        jobs.EXPORT: Exporting(states, outgoing, archive).trajectory,
    }


def _summarizers(outside: Outside, policy: Policy) -> list[Summarizer]:
    own = [outside.summarizer]
    return own if policy.summarizer == "extractive" else [outside.model, *own]
