"""The Celery tasks: parse, call, translate. What they return is what Flower shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import structlog
from celery import Celery, current_task
from celery.exceptions import Retry
from structlog.contextvars import bind_contextvars

from turnmill.contract import jobs
from turnmill.contract.errors import (
    ArchiveUnavailable,
    CannotDecrypt,
    NewerFormat,
    StoreFull,
    StoreUnavailable,
    Transient,
    TurnmillError,
)
from turnmill.contract.job_outcomes import Outcome
from turnmill.contract.names import Namespace, SessionId, namespace, session_id
from turnmill.hint.thrifty_broker import SENT
from turnmill_worker import telemetry, wiring
from turnmill_worker.errors import InternalError, where
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.wiring import Parts

log = structlog.get_logger()

_OUTAGES = (ArchiveUnavailable, StoreFull, StoreUnavailable)

UNREADABLE_AGAIN_S = 1.0
"""When a session of a newer version, or under another key, is counted, or its hint handed on,
again: seldom, in case all workers are older, or lack the key."""

MOST_HANDED_ON = 10_000
_handed_on: dict[SessionRef, float] = {}
"""Until when no hint of a session is handed on again."""

LONG_S = 1.0
"""A job that waited less is not worth a word."""

Stage = Callable[[Parts, SessionRef], Outcome]


def _forget(parts: Parts, ref: SessionRef) -> Outcome:
    outcome = parts.archiving.forget(ref)
    parts.pipeline.forgotten(ref)
    return outcome


_STAGES: dict[str, Stage] = {
    jobs.COMPACT: lambda parts, ref: parts.pipeline.compact(ref),
    jobs.SUMMARIZE: lambda parts, ref: parts.pipeline.summarize(ref),
    jobs.ARCHIVE: lambda parts, ref: parts.archiving.archive(ref),
    jobs.FORGET: _forget,
}


def register(app: Celery) -> None:
    """Add turnmill's tasks to the app; they take no notice of what newer versions send beside."""
    for name, stage in _STAGES.items():
        _register_stage(app, name, stage)
    _register_estimate(app)
    for name in jobs.ASKS:
        _register_ask(app, name)

    @app.task(name=jobs.SWEEP)
    def sweep() -> dict[str, Any]:
        """Hint every session that was missed; workers also do it by themselves every second."""
        with wiring.connect() as client:
            return {"outcome": "swept", "hints": wiring.sweeper(app, client).run()}


def at_home(app: Celery, task: str, ref: SessionRef) -> None:
    """Do a task's job in this thread, up to where it frees Redis.

    Raises:
        TurnmillError: it failed.
    """
    parts = wiring.parts(app)
    if task == jobs.ESTIMATE:
        for each in chain([ref], parts.pipeline.waiting(ref)):
            _guarded(task, _estimate, parts, each)
        return
    # A compaction frees Redis when what it covers is in the archive.
    stages = (jobs.SUMMARIZE, jobs.ARCHIVE) if task == jobs.COMPACT else (task,)
    for stage in stages:
        _guarded(stage, _STAGES[stage], parts, ref)


def _register_stage(app: Celery, name: str, stage: Stage) -> None:
    @app.task(name=name, throws=(NotDone,))
    def job(namespace_name: str, session: str, *_newer: object) -> dict[str, Any]:
        hinted = SessionRef(namespace(namespace_name), session_id(session))
        parts = wiring.parts(app)
        ref = parts.pipeline.whose_turn(hinted) if name == jobs.SUMMARIZE else hinted
        outcome = _guarded(name, stage, parts, ref)
        if ref.namespace != hinted.namespace:
            outcome = outcome.model_copy(update={"namespace": ref.namespace})
        return _shown(outcome)


class NotDone(Exception):
    """A job that could not do its work: what Celery shows beside a state that is not SUCCESS."""

    def __repr__(self) -> str:
        return repr(self.args[0])


def _shown(outcome: Outcome) -> dict[str, Any]:
    """The outcome as the task's result.

    Raises:
        Retry: it is tried again; Celery sends nothing by itself, for the session is due again.
        NotDone: nothing came of it, and somebody should look.
    """
    told = outcome.model_dump(mode="json", exclude_none=True)
    if outcome.outcome == "deferred":
        raise Retry(exc=NotDone(told))
    if outcome.outcome in ("parked", "below-quality"):
        raise NotDone(told)
    return told


def _register_estimate(app: Celery) -> None:
    @app.task(name=jobs.ESTIMATE)
    def job(
        namespace_name: str, session: str, others: object = (), *_newer: object
    ) -> dict[str, Any]:
        hinted = _hinted(namespace(namespace_name), session, others)
        parts = wiring.parts(app)
        done: list[Outcome] = []
        failed: TurnmillError | None = None
        for ref in chain(hinted, parts.pipeline.waiting(*hinted)):
            try:
                done.append(_guarded(jobs.ESTIMATE, _estimate, parts, ref))
            except Transient:
                raise  # Redis refuses what was counted: it would refuse the others, too
            except TurnmillError as error:
                failed = failed or error  # the others do not wait for what this one needs
        if failed is not None:
            raise failed
        return _together(done).model_dump(mode="json", exclude_none=True)


def _hinted(name: Namespace, session: str, others: object) -> list[SessionRef]:
    """The sessions a message names, once each."""
    more = [each for each in others if isinstance(each, str)] if isinstance(others, list) else []
    return [SessionRef(name, session_id(each)) for each in dict.fromkeys([session, *more])]


def _estimate(parts: Parts, ref: SessionRef) -> Outcome:
    return parts.pipeline.estimate(ref)


def _together(done: Sequence[Outcome]) -> Outcome:
    """One line for all sessions that one job counted."""
    if len(done) == 1:
        return done[0]
    turns, tokens = (sum(getattr(each, name) or 0 for each in done) for name in ("turns", "tokens"))
    more = {"sessions": len(done), "turns": turns, "tokens": tokens}
    return done[0].model_copy(update={"outcome": "estimated", **more})


def _register_ask(app: Celery, name: str) -> None:
    @app.task(name=name)
    def job(namespace_name: str, session: str, ask: str, *_newer: object) -> dict[str, Any]:
        # A question about the namespace is about no session.
        about = session_id(session) if session else SessionId("")
        ref = SessionRef(namespace(namespace_name), about)

        def stage(parts: Parts, ref: SessionRef) -> Outcome:
            return parts.answering.answer(name, ref, ask)

        outcome = _guarded(name, stage, wiring.parts(app), ref)
        return outcome.model_dump(mode="json", exclude_none=True)


def _guarded(name: str, stage: Stage, parts: Parts, ref: SessionRef) -> Outcome:
    """Run a stage, and tell of it."""
    with telemetry.Job(name, ref.namespace, ref.session, _trace_of(ref)) as job:
        bind_contextvars(namespace=ref.namespace, session=ref.session, **job.ids)
        outcome = _without_words(name, stage, parts, ref)
        job.done(outcome)
    return outcome


def _trace_of(ref: SessionRef) -> str:
    """The span of the push or job that hinted the session, if the message says so."""
    request = current_task.request if current_task else None
    return telemetry.traces_in(getattr(request, telemetry.HEADER, None)).get(ref.session, "")


def _waited_s() -> float | None:
    """For how long the job's message waited, in the broker and in this worker, if it was long."""
    sent_ms = getattr(current_task.request if current_task else None, SENT, None)
    waited_s = 0.0 if sent_ms is None else time.time() - sent_ms / 1000
    return round(waited_s, 1) if waited_s >= LONG_S else None


def _without_words(name: str, stage: Stage, parts: Parts, ref: SessionRef) -> Outcome:
    """Run a stage; whatever it raises reaches logs and Flower without a conversation's words."""
    waited_s = _waited_s()
    try:
        outcome = stage(parts, ref).model_copy(update={"waited_s": waited_s})
    except (CannotDecrypt, NewerFormat) as error:
        # The session is left as it is, for a worker that can read it: upgrade this one, or give it
        # the key.
        event = "newer format" if isinstance(error, NewerFormat) else "cannot decrypt"
        log.warning(event, why=str(error))
        _hand_on(name, parts, ref)
        raise
    except Transient as error:
        log.warning("failed", error=type(error).__name__)
        _count_failure(name, parts, ref, error)
        raise
    except TurnmillError as error:
        log.error("failed", error=type(error).__name__)  # noqa: TRY400
        _postpone(name, parts, ref)
        _count_failure(name, parts, ref, error)
        raise
    except Exception as error:  # noqa: BLE001 - raised again, without its words
        at = where(error)
        log.error("failed", error=type(error).__name__, at=at)  # noqa: TRY400
        _postpone(name, parts, ref)
        _count_failure(name, parts, ref, error)
        # Not chained: an unforeseen error's message may quote what it choked on.
        raise InternalError(f"{type(error).__name__} at {at}") from None
    told = outcome.model_dump(mode="json", exclude_none=True, exclude={"outcome"})
    log.info(outcome.outcome, **told)
    return outcome


def _hand_on(name: str, parts: Parts, ref: SessionRef) -> None:
    """Let another worker have what this one cannot read: it is next, for this one is busy."""
    if name == jobs.ESTIMATE:
        with suppress(TurnmillError):
            parts.pipeline.postpone(ref, UNREADABLE_AGAIN_S)
    now = time.monotonic()
    if name in (jobs.ESTIMATE, jobs.COMPACT, jobs.SUMMARIZE) and _handed_on.get(ref, 0.0) < now:
        if len(_handed_on) > MOST_HANDED_ON:
            _handed_on.clear()
        _handed_on[ref] = now + UNREADABLE_AGAIN_S
        parts.pipeline.hand_on(name, ref)


def _postpone(name: str, parts: Parts, ref: SessionRef) -> None:
    if name == jobs.ARCHIVE:
        return  # it is for the whole namespace: another session may be why
    with suppress(TurnmillError):
        parts.pipeline.postpone(ref)


def _count_failure(name: str, parts: Parts, ref: SessionRef, error: Exception) -> None:
    """Let a session rest whose compactions keep failing; an outage is no fault of the session."""
    if name not in (jobs.COMPACT, jobs.SUMMARIZE) or isinstance(error, _OUTAGES):
        return
    with suppress(TurnmillError):
        done = parts.pipeline.failed(ref, type(error).__name__)
        if done.parked:
            log.error("parked", failures=done.times)
