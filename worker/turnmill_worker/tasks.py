"""The Celery tasks: parse, call, translate. What they return is what Flower shows."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from celery import Celery

from turnmill.contract import jobs
from turnmill.contract.errors import Transient, TurnmillError
from turnmill.contract.names import namespace, session_id
from turnmill.contract.outcomes import Outcome
from turnmill_worker import wiring
from turnmill_worker.errors import InternalError
from turnmill_worker.pipeline import Pipeline
from turnmill_worker.ports import SessionRef

__all__ = ["register"]

log = structlog.get_logger()

_STAGES: dict[str, Callable[[Pipeline, SessionRef], Outcome]] = {
    jobs.ESTIMATE: Pipeline.estimate,
    jobs.COMPACT: Pipeline.compact,
    jobs.SUMMARIZE: Pipeline.summarize,
}


def register(app: Celery) -> None:
    """Add turnmill's tasks to the app."""
    for name, stage in _STAGES.items():
        _register_stage(app, name, stage)

    @app.task(name=jobs.SWEEP)
    def sweep() -> dict[str, Any]:
        """Hint every session that was missed; workers also do it by themselves every second."""
        with wiring.connect() as client:
            return {"outcome": "swept", "hints": wiring.sweeper(app, client).run()}


def _register_stage(
    app: Celery, name: str, stage: Callable[[Pipeline, SessionRef], Outcome]
) -> None:
    @app.task(name=name)
    def job(namespace_name: str, session: str) -> dict[str, Any]:
        ref = SessionRef(namespace(namespace_name), session_id(session))
        outcome = _guarded(name, stage, wiring.pipeline(app), ref)
        return outcome.model_dump(mode="json", exclude_none=True)


def _guarded(
    name: str,
    stage: Callable[[Pipeline, SessionRef], Outcome],
    pipeline: Pipeline,
    ref: SessionRef,
) -> Outcome:
    """Run a stage; whatever it raises reaches logs and Flower without a conversation's words."""
    try:
        outcome = stage(pipeline, ref)
    except Transient as error:
        log.warning("failed", task=name, session=ref.session, error=type(error).__name__)
        raise
    except TurnmillError as error:
        log.error("failed", task=name, session=ref.session, error=type(error).__name__)  # noqa: TRY400
        _postpone(pipeline, ref)
        raise
    except Exception as error:  # noqa: BLE001 - raised again, without its words
        where = _where(error)
        log.error("failed", task=name, session=ref.session, error=type(error).__name__, at=where)  # noqa: TRY400
        _postpone(pipeline, ref)
        # Not chained: an unforeseen error's message may quote what it choked on.
        raise InternalError(f"{type(error).__name__} at {where}") from None
    log.info(
        outcome.outcome,
        task=name,
        **outcome.model_dump(mode="json", exclude_none=True, exclude={"outcome"}),
    )
    return outcome


def _postpone(pipeline: Pipeline, ref: SessionRef) -> None:
    with suppress(TurnmillError):
        pipeline.postpone(ref)


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
