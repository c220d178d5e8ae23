"""Puts the concrete parts together; the only module that knows them all."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import entry_points
from typing import Any

import redis
import structlog
from celery import Celery
from pydantic import SecretStr
from redis.backoff import NoBackoff
from redis.retry import Retry

from turnmill.connection.credentials import load_cipher, read_secret
from turnmill.connection.store_client import store_client
from turnmill.contract import jobs
from turnmill.contract.errors import InvalidTemplate
from turnmill.contract.policy import OFFLINE
from turnmill.contract.sealing import Cipher
from turnmill.metrics_port import HealthServer, text_of
from turnmill_worker import telemetry
from turnmill_worker.archive.store import LazyArchive
from turnmill_worker.background.consumer import Quarantine
from turnmill_worker.background.hints import CeleryHints, HintsOrJobs, Job
from turnmill_worker.background.metrics import Metrics
from turnmill_worker.background.presence import Announcement
from turnmill_worker.background.quotas import Quotas, QuotaWatch
from turnmill_worker.background.sweep import Sweeper, SweepThread
from turnmill_worker.background.telling import TellingSessions
from turnmill_worker.compaction.strategies.registry import GROUP as STRATEGIES
from turnmill_worker.compaction.strategies.registry import register, registered
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.pipeline.archive import Archiving
from turnmill_worker.pipeline.batch import Batches
from turnmill_worker.pipeline.compact import Pipeline
from turnmill_worker.requests.children import Children
from turnmill_worker.requests.dispatch import Answering
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.export import Exporting
from turnmill_worker.requests.forking import Forking
from turnmill_worker.requests.grounding import GroundingService, HybridSearch, Remembering
from turnmill_worker.requests.rollback import Rollback, TakingBack
from turnmill_worker.settings import Settings, load_settings
from turnmill_worker.store.agent_requests import RedisQuestions
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.store.fleet import RedisFleet
from turnmill_worker.store.leases import RedisSweepLease
from turnmill_worker.store.model_gates import RedisGates
from turnmill_worker.store.outgoing import RedisOutgoing
from turnmill_worker.store.reports import RedisPresence, RedisQuarantine, RedisUsage
from turnmill_worker.store.summaries import RedisBatchNotes, RedisWaiting
from turnmill_worker.store.sweep_lists import RedisSweepLists
from turnmill_worker.summarizers.redaction import load_redactor
from turnmill_worker.summarizers.registry import IMPORTING, RegisteredBatches, Registry
from turnmill_worker.templates.loader import TemplateLoader, template_dirs
from turnmill_worker.tokens import counter_for

log = structlog.get_logger()

TIMEOUT_S = 20.0
"""How long a worker waits for Redis: longer than an agent would."""

MAX_CONNECTIONS = 1_000
"""More than a worker has threads."""

PATIENCE_S = 10.0
"""How long a requested compaction waits for one under way."""

GATE_TIMEOUT_S = 2.0
"""How long a model call waits for its gate, and a worker to list a bad message."""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings; errors as of ``load_settings``."""
    return load_settings()


@lru_cache(maxsize=1)
def _cipher() -> Cipher | None:
    return load_cipher(settings().cipher)


def connect() -> redis.Redis:
    """A client of the state store, for one process."""
    return _connect(TIMEOUT_S)


def _connect(timeout_s: float) -> redis.Redis:
    return store_client(
        settings().store,
        timeout_s,
        max_connections=MAX_CONNECTIONS,
        cipher=_cipher(),
        retry=Retry(NoBackoff(), 1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the tasks call."""

    pipeline: Pipeline
    archiving: Archiving
    answering: Answering


@lru_cache(maxsize=1)
def load_strategies() -> None:
    """Register the strategies other packages offer; one that cannot be used is told of in the log.

    Without it, policies that name it go on with their other strategies.
    """
    for entry in entry_points(group=STRATEGIES):
        try:
            register(entry.name, entry.load())
        except Exception as error:  # noqa: BLE001 - other people's code; it must end no worker
            why = str(error) if isinstance(error, InvalidSettings) else type(error).__name__
            log.warning("strategy not loaded", strategy=entry.name, why=why)


def parts(app: Celery) -> Parts:
    """The process's parts; made after a fork, never before: sockets must not be shared."""
    load_strategies()
    return _parts(app, os.getpid())


@lru_cache(maxsize=1)
def _parts(app: Celery, _pid: int) -> Parts:
    client, hints = connect(), CeleryHints(app)
    counters = partial(counter_for, folder=settings().tokenizer_dir)
    archive = LazyArchive(settings().archive, _cipher()) if settings().archive else None
    outgoing = RedisOutgoing(client, replicas=settings().archive_replicas)
    states = RedisStates(client)
    summarizers = Registry(settings(), _gates())
    sessions = TellingSessions(
        client, lease_s=settings().lease_s, patience_s=PATIENCE_S, archive=archive
    )
    pipeline = Pipeline(
        sessions=sessions,
        hints=hints,
        waiting=RedisWaiting(client),
        counters=counters,
        summarizers=summarizers,
        templates=TemplateLoader(template_dirs(settings().template_dirs)),
        batches=_batches(client, summarizers),
    )
    forking = Forking(states, archive, counters)
    memories = GroundingService(archive, _hybrid()) if archive else None
    return Parts(
        pipeline=pipeline,
        archiving=Archiving(outgoing, states, archive, hints),
        answering=Answering(
            questions=RedisQuestions(client),
            pipeline=pipeline,
            rollback=Rollback(states, archive, counters),
            taking_back=TakingBack(sessions, states, archive, counters),
            forking=forking,
            children=Children(forking, sessions, pipeline.estimate, counters),
            exporting=Exporting(states, outgoing, archive),
            erasing=Erasing(states, archive, counters, hints),
            remembering=Remembering(archive, memories, _quotas(), sessions),
        ),
    )


def _batches(client: redis.Redis, summarizers: Registry) -> Batches:
    return Batches(
        RedisBatchNotes(client),
        RegisteredBatches(summarizers),
        first_look_s=settings().batch_first_look_s,
        longest_pause_s=settings().batch_longest_pause_s,
        deadline_s=settings().batch_deadline_s,
    )


@lru_cache(maxsize=1)
def _quotas() -> Quotas:
    return Quotas(settings().quotas_file)


def _gates() -> RedisGates:
    return RedisGates(
        _connect(GATE_TIMEOUT_S),
        requests_per_minute=settings().model_requests_per_minute,
        tokens_per_minute=settings().model_tokens_per_minute,
        most_at_once=settings().model_concurrency,
    )


def _hybrid() -> HybridSearch | None:
    if not settings().embeddings_url:
        return None
    with IMPORTING:
        from turnmill_worker.requests.embeddings import OpenAiEmbedder  # noqa: PLC0415

        embedder = OpenAiEmbedder(
            base_url=settings().embeddings_url,
            model=settings().embeddings_model,
            api_key=_embeddings_key(),
            redactor=_redacted if settings().redactor else None,
        )
    return HybridSearch(embedder)


def _embeddings_key() -> SecretStr:
    key, file = settings().embeddings_key, settings().embeddings_key_file
    read = SecretStr(read_secret(file)) if file and not key else key
    return read or SecretStr("none")


def _redacted(text: str) -> str:
    """The text as it may leave; ``SummarizerFailed`` if the redactor cannot be used."""
    redactor = _redactor(settings().redactor)
    return redactor(text) if redactor else text


# Loaded at the first text, not at start: a wrong name must not end what needs no redactor.
_redactor = lru_cache(maxsize=1)(load_redactor)


def announcement(node: str) -> Announcement:
    """What a worker of the queue ``summarize`` says of itself, in its log now and in Redis."""
    registry = Registry(settings())
    problems = registry.problems()
    for name in sorted(problems.keys() - {OFFLINE}):
        if problems[name]:
            log.info("no model", why=problems[name], summaries=OFFLINE, summarizer=name)
        else:
            log.info("model", **registry.factory(name).about(), summarizer=name)
    problem = next(filter(None, problems.values()), "")
    entry = {"node": node, "summarizers": problems, **({"problem": problem} if problem else {})}
    return Announcement(RedisPresence(connect()), lambda: entry | _offered())


def _offered() -> dict[str, list[str]]:
    """What policies may name here, by kind; files come and go while a worker runs."""
    load_strategies()
    found = {"strategies": registered()}
    with suppress(InvalidTemplate):  # a folder that cannot be read says nothing of what is in it
        listed = TemplateLoader(template_dirs(settings().template_dirs)).list()
        found["templates"] = sorted({each.name for each in listed if not each.problem})
    folder = settings().tokenizer_dir
    found["tokenizers"] = sorted(file.stem for file in folder.glob("*.json")) if folder else []
    return found


@lru_cache(maxsize=1)
def metrics(app: Celery) -> Metrics:
    """What this worker's processes tell OpenTelemetry and Prometheus; made before they fork.

    Raises:
        InvalidSettings: they are asked to, and the extra is not installed.
    """
    names = [name for name in settings().metrics_namespaces.replace(",", " ").split() if name]
    return Metrics(names, local=bool(settings().metrics_port), gauges=lambda: _fleet(app).look())


@lru_cache(maxsize=1)
def _fleet(app: Celery) -> RedisFleet:
    hints, task_of = CeleryHints(app), {queue: task for task, queue in jobs.QUEUE_OF.items()}
    return RedisFleet(
        _connect(GATE_TIMEOUT_S),
        lambda queue: hints.waiting(task_of[queue]),
        jobs.QUEUES,
        archive=bool(settings().archive),
    )


def health_server(app: Celery) -> HealthServer:
    """Answers Prometheus, and whoever asks whether this worker can work."""
    client = _connect(GATE_TIMEOUT_S)

    def broker() -> None:
        with app.connection_for_read(connect_timeout=GATE_TIMEOUT_S) as connection:
            connection.ensure_connection(max_retries=1, timeout=int(GATE_TIMEOUT_S))

    return HealthServer(
        (settings().metrics_host, settings().metrics_port),
        lambda: text_of(metrics(app).numbers(), telemetry.INSTRUMENTS),
        {"redis": client.ping, "broker": broker},
    )


def quarantine() -> Quarantine:
    """Where this process's bad messages go; it connects when there is one."""
    return Quarantine(lambda: RedisQuarantine(_connect(GATE_TIMEOUT_S)))


def sweeper(app: Celery, client: Any, job: Job | None = None) -> Sweeper:
    """The sweep over this process's client; does a ``job`` itself where the broker is full."""
    hints = CeleryHints(app)
    return Sweeper(
        RedisSweepLists(client, archive=bool(settings().archive)),
        HintsOrJobs(hints, job) if job else hints,
        stale_after_s=settings().stale_after_s,
        archive=bool(settings().archive),
        watch=QuotaWatch(_quotas(), RedisUsage(client)),
    )


def sweep_thread(app: Celery, job: Job | None = None) -> SweepThread:
    """The thread every worker process runs."""
    client = connect()
    lease = RedisSweepLease(client)
    return SweepThread(sweeper(app, client, job), lease, interval_s=settings().sweep_interval_s)
