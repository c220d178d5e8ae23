"""Puts the concrete parts together; the only module that knows them all."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import redis
from celery import Celery

from turnmill.client import connection_options
from turnmill_worker.hints import CeleryHints
from turnmill_worker.pipeline import Pipeline
from turnmill_worker.settings import Settings
from turnmill_worker.store.sessions import RedisSessions
from turnmill_worker.summarizers.offline import ExtractiveSummarizer
from turnmill_worker.sweep import Sweeper, SweepThread
from turnmill_worker.tokens import counter_for

__all__ = ["connect", "pipeline", "settings", "sweep_thread", "sweeper"]

TIMEOUT_S = 20.0
"""How long a worker waits for Redis: longer than an agent would."""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings."""
    return Settings()


def connect() -> redis.Redis:
    """A client of the state store, for one process."""
    return redis.Redis.from_url(settings().redis_url, **connection_options(TIMEOUT_S))


def pipeline(app: Celery) -> Pipeline:
    """The process's pipeline; made after a fork, never before: sockets must not be shared."""
    return _pipeline(app, os.getpid())


@lru_cache(maxsize=1)
def _pipeline(app: Celery, _pid: int) -> Pipeline:
    return Pipeline(
        sessions=RedisSessions(connect(), lease_s=settings().lease_s),
        hints=CeleryHints(app),
        counters=counter_for,
        summarizers={"extractive": ExtractiveSummarizer()},
    )


def sweeper(app: Celery, client: Any) -> Sweeper:
    """The sweep over this process's client."""
    return Sweeper(client, CeleryHints(app), stale_after_s=settings().stale_after_s)


def sweep_thread(app: Celery) -> SweepThread:
    """The thread every worker process runs."""
    client = connect()
    return SweepThread(sweeper(app, client), client, interval_s=settings().sweep_interval_s)
