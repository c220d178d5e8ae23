"""The Celery app that hints leave through, imported for the first of them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from turnmill.contract import jobs
from turnmill.store_url import celery_broker

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["celery_class", "hint_app", "importing"]

importing: Final = threading.RLock()
# A child forked in the middle of an import would wait for ever for the thread that it lacks.
os.register_at_fork(
    before=importing.acquire,
    after_in_parent=importing.release,
    after_in_child=importing.release,
)


def celery_class() -> type[Celery]:
    """Celery, imported on first use."""
    with importing:
        from celery import Celery  # noqa: PLC0415 - as slow to import as all the rest

    return Celery


def hint_app(broker_url: str, *, timeout_s: float) -> Celery:
    """A Celery app that only publishes, and gives up on a broker within ``timeout_s``."""
    amqp = "turnmill.broker_connection:ThriftyAmqp"
    app = celery_class()("turnmill.hints", set_as_current=False, amqp=amqp)
    from kombu import Exchange, Queue  # noqa: PLC0415 - Celery has imported it

    app.conf.update(
        **celery_broker(broker_url).settings(
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry_on_timeout=False,
            max_retries=0,
        ),
        broker_pool_limit=1,
        broker_connection_timeout=timeout_s,
        broker_connection_retry=False,
        broker_connection_max_retries=0,
        task_ignore_result=True,
        task_serializer="json",
        # Queues are the workers' to declare: who only publishes needs no right to do more.
        task_queues=[Queue(q, Exchange(""), routing_key=q, no_declare=True) for q in jobs.QUEUES],
    )
    return app
