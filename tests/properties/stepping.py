"""Jobs that stop before every step they take outside, so that a test decides what comes between.

A job is the real pipeline in a thread of its own. Before each call of a port it waits to be let
through; killed there, it vanishes as a worker does: nothing is released, nobody is told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

from turnmill.contract import jobs
from turnmill.contract.errors import Transient
from turnmill.contract.outcomes import Outcome
from turnmill_worker.pipeline import Pipeline
from turnmill_worker.ports import Hints, SessionRef, Sessions, Summarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import counter_for

__all__ = ["SentHints", "SteppedJob"]

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

    def lease(self, ref: SessionRef) -> _SteppedLease:
        """The lease, not yet taken."""
        return _SteppedLease(self._inner.lease(ref), self._wait)


class SteppedJob:
    """One job of the pipeline, let through its steps one by one."""

    def __init__(
        self,
        task: str,
        ref: SessionRef,
        *,
        sessions: Sessions,
        hints: SentHints,
        summarizer: Summarizer,
    ) -> None:
        self.task = task
        self.ref = ref
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self.ended = False
        self._killed = False
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        pipeline = Pipeline(
            templates=TemplateLoader(),
            sessions=cast("Sessions", _SteppedSessions(sessions, self._wait)),
            hints=cast("Hints", _Stepped(hints, self._wait)),
            counters=counter_for,
            summarizers={"extractive": summarizer},
        )
        work = {
            jobs.ESTIMATE: pipeline.estimate,
            jobs.COMPACT: pipeline.compact,
            jobs.SUMMARIZE: pipeline.summarize,
        }[task]
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._await_stop()

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

    def _run(self, work: Callable[[SessionRef], Outcome]) -> None:
        try:
            self.outcome = work(self.ref)
        except (_Killed, Transient):
            pass  # a passing failure is tried again by the due list
        except Exception as error:  # noqa: BLE001 - raised again where the test can see it
            self.error = error
        finally:
            self.ended = True
            self._stopped.release()
