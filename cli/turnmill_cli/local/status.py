"""What `turnmill up` says while it runs: one line, a few Redis commands a second."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import redis

from turnmill.contract.keys import SHARDS, commits_channel, shard_keys
from turnmill.contract.names import Namespace
from turnmill_cli.broker import BrokerView
from turnmill_cli.output import count

__all__ = ["Status", "StatusReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A moment of one namespace.

    Attributes:
        backlog: sessions waiting to be counted.
        due: sessions waiting to be compacted.
        commits, freed: compactions since the start, and the tokens they saved.
        tasks: messages waiting by queue, or None when the broker does not answer.
    """

    sessions: int
    backlog: int
    due: int
    commits: int
    freed: int
    tasks: dict[str, int] | None

    def line(self, alive: int, of: int) -> str:
        """The moment for a person."""
        return " · ".join(
            (
                f"{alive}/{of} workers",
                count(self.sessions, "session"),
                f"backlog {self.backlog:,}",
                f"due {self.due:,}",
                f"{count(self.commits, 'commit')}, {self.freed:,} tokens freed",
                self._tasks(),
            )
        )

    def _tasks(self) -> str:
        if self.tasks is None:
            return "the broker does not answer"
        waiting = [f"{queue} {number:,}" for queue, number in self.tasks.items() if number]
        return f"tasks waiting: {', '.join(waiting) or 'none'}"


class StatusReader:
    """Reads the status of a namespace; every call is one round trip, and one per queue."""

    def __init__(self, client: Any, broker: BrokerView, namespace: Namespace) -> None:
        self._redis = client
        self._broker = broker
        self._shards = [shard_keys(namespace, shard) for shard in range(SHARDS)]
        self._commits = 0
        self._freed = 0
        self._channel = commits_channel(namespace)
        self._announced: Any = client.pubsub(ignore_subscribe_messages=True)

    def read(self) -> Status | None:
        """The status now; None when Redis does not answer."""
        try:
            self._hear_commits()
            sizes = self._sizes()
        except redis.RedisError:
            return None
        sessions, backlog, due = (sum(sizes[at::3]) for at in range(3))
        return Status(
            sessions=sessions,
            backlog=backlog,
            due=due,
            commits=self._commits,
            freed=self._freed,
            tasks=self._tasks(),
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._announced.close()

    def _hear_commits(self) -> None:
        if not self._announced.subscribed:
            self._announced.subscribe(self._channel)
        while message := self._announced.get_message():
            record = json.loads(message["data"])
            self._commits += 1
            self._freed += record["tokens_before"] - record["tokens_after"]

    def _sizes(self) -> list[int]:
        with self._redis.pipeline(transaction=False) as pipe:
            for keys in self._shards:
                for key in (keys.index, keys.backlog, keys.due):
                    pipe.zcard(key)
            sizes: list[int] = pipe.execute()
            return sizes

    def _tasks(self) -> dict[str, int] | None:
        try:
            return self._broker.waiting()
        except Exception:  # noqa: BLE001 - any broker's any failure: tried again at the next read
            self._broker.close()
            return None
