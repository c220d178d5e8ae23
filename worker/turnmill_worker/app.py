"""The Celery app: ``celery -A turnmill_worker.app worker``."""

from __future__ import annotations

import gc
import logging
import os
from functools import partial
from typing import Any

from celery import Celery, bootsteps, signals
from celery.utils.nodenames import default_nodename, gethostname, nodename
from kombu import Exchange, Queue

from turnmill.contract import jobs
from turnmill.contract.errors import NewerFormat
from turnmill.hint.thrifty_broker import ThriftyAmqp
from turnmill.metrics_port import HealthServer
from turnmill_worker import tasks, wiring
from turnmill_worker.background import logs
from turnmill_worker.background.consumer import CarefulConsumer
from turnmill_worker.background.presence import Announcement
from turnmill_worker.background.sweep import SweepThread
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.store.scripts import load_all as load_scripts
from turnmill_worker.tokens import counter_for


class Threads(bootsteps.StartStopStep):
    """Starts the worker's threads: after its pool has forked, and whether or not a broker is there.

    A broker at ``maxmemory`` lets no worker consume, and is emptied by the sweep alone.
    """

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        """Begin to sweep, to announce the worker where it summarizes, and to answer who asks."""
        global _health  # noqa: PLW0603 - forked processes must let go of it
        try:
            # The parent of forked processes does their jobs only while the broker is full.
            wiring.metrics(app).begin(traced="prefork" not in type(parent.pool).__module__)
        except InvalidSettings as error:
            raise SystemExit(str(error)) from None
        if wiring.settings().metrics_port:
            _health = wiring.health_server(app)
            _threads.append(_health)
        _threads.append(wiring.sweep_thread(app, partial(tasks.at_home, app)))
        if jobs.QUEUE_OF[jobs.SUMMARIZE] in app.amqp.queues.consume_from:
            _threads.append(wiring.announcement(parent.hostname))
        try:
            for thread in _threads:
                thread.start()
        except OSError as error:  # of the first: its port is another's
            raise SystemExit(str(error)) from None


def make_app() -> Celery:
    """The app with turnmill's tasks, queues and the settings they rely on."""
    made = Celery("turnmill", set_as_current=True, amqp=ThriftyAmqp)
    made.conf.update(
        **wiring.settings().broker.settings(
            socket_connect_timeout=2, socket_timeout=30, retry_on_timeout=False, max_retries=0
        ),
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
        # There are none, and Celery would explain itself at each try to connect.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # for ever: an outage must not end the workers
        broker_channel_error_retry=True,  # nor must a Redis at maxmemory, which refuses commands
        worker_prefetch_multiplier=8,
        worker_soft_shutdown_timeout=5,
        worker_consumer=partial(CarefulConsumer, put_aside=wiring.quarantine().put_aside),
        worker_hijack_root_logger=True,
        worker_redirect_stdouts=False,
    )
    tasks.register(made)
    made.steps["worker"].add(Threads)
    return made


try:
    app = make_app()
except InvalidSettings as error:
    # Celery would show where in pydantic the error was found, not what it is.
    raise SystemExit(str(error)) from None
_threads: list[SweepThread | Announcement | HealthServer] = []
_health: HealthServer | None = None


@signals.celeryd_init.connect
def _name_apart(sender: str, instance: Any, **_: Any) -> None:
    """Two workers of one host need two names: Celery's usual one is the host's alone."""
    if sender == default_nodename(""):
        instance.hostname = nodename(f"worker-{os.getpid()}", gethostname())


@signals.worker_init.connect
def _load_before_fork(**_: Any) -> None:
    """Load the vocabulary once, for forked processes to share, and the scripts as they are now."""
    NewerFormat.component = "worker"
    wiring.metrics(app)  # what its processes share
    counter_for("o200k_base").count("")
    load_scripts()
    # Keep what is loaded by now out of garbage collection: a scan would take longer than a job, and
    # would copy it in every forked process.
    gc.collect()
    gc.freeze()
    # A summary makes a hundred thousand values and few cycles. The default looks for them at each
    # 700, and now and then at all sentences that are remembered: a tenth of the CPU time.
    gc.set_threshold(100_000, 10, 10)


@signals.worker_process_init.connect
def _begin_process(**_: Any) -> None:
    if _health is not None:
        _health.forked()
    wiring.metrics(app).begin()


@signals.worker_process_shutdown.connect
@signals.worker_shutdown.connect
def _end_process(**_: Any) -> None:
    wiring.metrics(app).end()


@signals.worker_shutting_down.connect
def _stop_threads(**_: Any) -> None:
    while _threads:
        _threads.pop().stop()


@signals.celeryd_init.connect
def _set_up_early_log(**_: Any) -> None:
    logs.set_up_early(as_json=wiring.settings().log_json)


@signals.after_setup_logger.connect
@signals.after_setup_task_logger.connect
def _set_up_log(logger: logging.Logger, **_: Any) -> None:
    logs.set_up_handlers(logger, as_json=wiring.settings().log_json)


signals.task_prerun.connect(logs.begin_task)
signals.task_postrun.connect(logs.end_task)
