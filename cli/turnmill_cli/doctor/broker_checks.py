"""The checks of `turnmill doctor` about the broker and the workers that consume its queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from turnmill.contract import jobs
from turnmill_cli.advice import NO_REDIS, REDIS_REFUSES
from turnmill_cli.broker_view import BrokerView, is_refusal
from turnmill_cli.doctor.check import Check
from turnmill_cli.options import Connection
from turnmill_cli.output import count, install
from turnmill_worker.tokens import counter_for

__all__ = ["check_broker", "check_vocabulary"]

TIMEOUT_S = 2.0
REFUSED = "correct the user or password in --broker-url, or in --broker-password-file"


def check_broker(connection: Connection) -> Iterator[Check]:
    """Whether the broker answers, which workers do, and whether every queue is consumed."""
    url, is_own = connection.broker, bool(connection.broker_url)
    try:
        with closing(BrokerView(url, timeout_s=TIMEOUT_S)) as broker:
            waiting = broker.waiting()
            yield Check("broker", "ok", f"{count(sum(waiting.values()), 'task')} waiting")
            consumers = broker.consumers()
    except ModuleNotFoundError as error:
        found = f"cannot be asked from here: Python has no module {error.name}"
        advice = "install it with pip, or use another kind of broker"
        yield Check("broker", "problem", found, advice)
        return
    except Exception as error:  # noqa: BLE001 - any failure of any broker
        if is_refusal(error):
            found = "refuses this client: its user or password is wrong"
            yield Check("broker", "problem", found, REFUSED if is_own else REDIS_REFUSES)
            return
        advice = "start it, or correct --broker-url / TURNMILL_BROKER_URL" if is_own else NO_REDIS
        # Not its message: it may hold the URL with its password.
        yield Check("broker", "problem", f"does not answer ({type(error).__name__})", advice)
        return
    yield _workers(consumers)
    yield _queues(consumers)


def _workers(consumers: dict[str, list[str]]) -> Check:
    if not consumers:
        advice = "start them: `turnmill up`, or `celery -A turnmill_worker.app worker`"
        return Check("workers", "problem", "none answered", advice)
    return Check("workers", "ok", ", ".join(sorted(consumers)))


def _queues(consumers: dict[str, list[str]]) -> Check:
    served = {queue for queues in consumers.values() for queue in queues}
    if idle := [queue for queue in jobs.QUEUES if queue not in served]:
        advice = f"start a worker with --queues {','.join(idle)}"
        return Check("queues", "problem", f"no worker consumes {', '.join(idle)}", advice)
    return Check("queues", "ok", f"all are consumed: {', '.join(jobs.QUEUES)}")


def check_vocabulary() -> Check:
    """Whether tokens are counted exactly, as far as that can be told from here."""
    basis = str(counter_for("o200k_base").basis)
    if basis.startswith("heuristic"):
        advice = f"{install('worker')} where the workers run: limits need exact counts"
        return Check("vocabulary", "warning", f"tokens are only estimated ({basis})", advice)
    return Check("vocabulary", "ok", f"tokens are counted exactly ({basis})")
