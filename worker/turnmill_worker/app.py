"""The Celery app: ``celery -A turnmill_worker.app worker``."""

from __future__ import annotations

import gc
import logging
from typing import Any

import structlog
from celery import Celery, signals
from kombu import Exchange, Queue

from turnmill.contract import jobs
from turnmill_worker import tasks, wiring
from turnmill_worker.background.summarizer_presence import Announcement
from turnmill_worker.background.sweep import SweepThread
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.tokens import counter_for

__all__ = ["app"]


def make_app() -> Celery:
    """The app with turnmill's tasks, queues and the settings they rely on."""
    made = Celery("turnmill", broker=wiring.settings().broker, set_as_current=True)
    made.conf.update(
        # JSON only: a pickle from a broker is code.
        task_serializer="json",
        accept_content=["json"],
        task_queues=[Queue(name, Exchange(name), routing_key=name) for name in jobs.QUEUES],
        task_default_queue="estimate",
        task_routes={task: {"queue": queue} for task, queue in jobs.QUEUE_OF.items()},
        # Outcomes travel in events, for Flower; nobody fetches results.
        task_ignore_result=True,
        worker_send_task_events=True,
        # A lost task is hinted again within seconds, so early acknowledgement loses nothing and
        # nothing ever comes back after the broker's visibility timeout.
        task_acks_late=False,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # for ever: an outage must not end the workers
        broker_transport_options={
            "socket_connect_timeout": 2,
            "socket_timeout": 30,
            "retry_on_timeout": False,
            "max_retries": 0,
        },
        worker_prefetch_multiplier=8,
        worker_soft_shutdown_timeout=5,
        worker_hijack_root_logger=True,
        worker_redirect_stdouts=False,
    )
    tasks.register(made)
    return made


try:
    app = make_app()
except InvalidSettings as error:
    # Celery would show where in pydantic it was found instead of what it is.
    raise SystemExit(str(error)) from None
_threads: list[SweepThread | Announcement] = []


@signals.worker_init.connect
def _load_before_fork(**_: Any) -> None:
    """Load the vocabulary once, for forked processes to share, and the scripts as they are now."""
    counter_for("o200k_base").count("")
    wiring.load_scripts()
    # What is loaded by now stays: looking through it for garbage would take longer than a job, and
    # would copy it in every forked process.
    gc.collect()
    gc.freeze()


@signals.worker_ready.connect
def _start_threads(sender: Any, **_: Any) -> None:
    _threads.append(wiring.sweep_thread(app))
    if jobs.QUEUE_OF[jobs.SUMMARIZE] in app.amqp.queues.consume_from:
        _threads.append(wiring.announcement(sender.hostname))
    for thread in _threads:
        thread.start()


@signals.worker_shutting_down.connect
def _stop_threads(**_: Any) -> None:
    while _threads:
        _threads.pop().stop()


@signals.after_setup_logger.connect
def _set_up_logging(logger: logging.Logger, **_: Any) -> None:
    """Events as key=value lines, or JSON; through the standard handlers Celery set up."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if wiring.settings().log_json
        else structlog.processors.KeyValueRenderer(key_order=["event"])
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, renderer],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    # Celery's own line per task repeats ours, with the result's repr.
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)
    for handler in logger.handlers:
        handler.addFilter(_quotes_no_endpoint)


def _quotes_no_endpoint(record: logging.LogRecord) -> bool:
    """Whether a line is none of those that quote a model endpoint's status line and headers.

    It may repeat there what it was sent. Asked of each line by the handlers, for the environment
    (``OPENAI_LOG``) can set one of these loggers' levels.
    """
    talkative = record.name.partition(".")[0] in ("httpcore2", "httpx2", "openai")
    return record.levelno >= logging.WARNING or not talkative
