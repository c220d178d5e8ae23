"""The worker's log: what its lines carry, and how they are written."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Final

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, merge_contextvars
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

# Celery's lines that repeat, per task and without a session, what our own line says.
_REPETITIVE: Final = ("celery.app.trace", "celery.worker.strategy")
_TALKATIVE: Final = ("httpcore2", "httpx2", "openai")


def begin_task(task_id: str, task: Any, **_: Any) -> None:
    """Let each line say which task it belongs to, and how long the task has taken so far."""
    clear_contextvars()
    bind_contextvars(task=task.name, task_id=task_id, started_s=time.monotonic())


def end_task(**_: Any) -> None:
    """Let the lines that follow belong to no task."""
    clear_contextvars()


def set_up_early(*, as_json: bool) -> None:
    """Write JSON even before Celery sets its loggers up, and for errors that end a thread."""
    if as_json:
        logging.basicConfig()
        logging.captureWarnings(capture=True)
        set_up_handlers(logging.getLogger(), as_json=True)
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda told: _log_uncaught(*told[:3])


def set_up_handlers(logger: logging.Logger, *, as_json: bool) -> None:
    """Let the handlers that Celery gave this logger write JSON, or key=value lines for people."""
    last: Any = structlog.processors.KeyValueRenderer(key_order=["event"])
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            merge_contextvars,
            _add_duration,
            ProcessorFormatter.wrap_for_formatter if as_json else last,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    if logging.getLogger().level == logging.WARNING:
        # Celery's default, which would leave out what came of each job; --loglevel=ERROR does.
        logging.getLogger("turnmill_worker").setLevel(logging.INFO)
    for name in _REPETITIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for handler in [*logger.handlers, *logging.getLogger("multiprocessing").handlers]:
        handler.addFilter(_quotes_no_endpoint)
        if as_json:
            handler.setFormatter(_json_formatter())


def _json_formatter() -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=[merge_contextvars, _add_duration],
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso"),
            # As text: as values, a traceback would bring the variables of its frames along.
            structlog.processors.format_exc_info,
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )


def _add_duration(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    started_s = event.pop("started_s", None)
    if started_s is not None:
        event["duration_ms"] = round((time.monotonic() - started_s) * 1000, 1)
    return event


def _log_uncaught(*exc_info: Any) -> None:
    logging.getLogger(__name__).critical("uncaught", exc_info=exc_info)


def _quotes_no_endpoint(record: logging.LogRecord) -> bool:
    """Whether a line does not quote a model endpoint's status line and headers.

    An endpoint may repeat there what it was sent. The handlers check each line, because the
    environment (``OPENAI_LOG``) can set the level of one of these loggers.
    """
    talkative = record.name.partition(".")[0] in _TALKATIVE
    return record.levelno >= logging.WARNING or not talkative
