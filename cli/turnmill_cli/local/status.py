"""What `turnmill up` says while it runs: one line, a few Redis commands a second."""

from __future__ import annotations

import redis

from turnmill_cli.broker_view import BrokerView
from turnmill_cli.namespaces_view import NamespacesView
from turnmill_cli.output import count
from turnmill_cli.redis_view import RedisView

__all__ = ["StatusReader"]


class StatusReader:
    """Reads the state of a namespace, or of all; a few round trips a call, and one per queue."""

    def __init__(self, view: RedisView | NamespacesView, broker: BrokerView) -> None:
        self._view = view
        self._broker = broker
        self._announced = view.commits()
        self._commits = 0
        self._freed = 0

    def line(self) -> str:
        """The state now, for a person."""
        try:
            for record in self._announced.heard():
                self._commits += 1
                self._freed += record["tokens_before"] - record["tokens_after"]
            sessions, backlog, due, where = self._counts()
        except redis.RedisError:
            return "Redis does not answer"
        # Zeros are left out: the line fits a narrow terminal while nothing waits.
        waits = "".join(f" · {name} {n:,}" for name, n in (("backlog", backlog), ("due", due)) if n)
        return (
            f"{count(sessions, 'session')}{where}{waits}{self._tasks()}"
            f" · {count(self._commits, 'commit')}, {self._freed:,} tokens freed"
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._announced.close()

    def _counts(self) -> tuple[int, int, int, str]:
        """Sessions, those that wait, those that are due, and where."""
        if isinstance(self._view, NamespacesView):
            return *self._view.counts(), f" in {count(self._view.known, 'namespace')}"
        sessions, due = self._view.sizes("index", "due")
        return sessions, self._view.waiting("backlog").sessions, due, ""

    def _tasks(self) -> str:
        try:
            queues = self._broker.waiting()
        except Exception:  # noqa: BLE001 - any failure of any broker: tried again at the next call
            self._broker.disconnect()
            return " · the broker does not answer"
        waiting = [f"{queue} {number:,}" for queue, number in queues.items() if number]
        return f" · tasks: {', '.join(waiting)}" if waiting else ""
