"""With a real Prometheus: what breaks fires its alert within a minute."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import redis

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import KEY, ROLLING, chat, push_all
from tools.observability import FOLDER
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.testing import FakeEndpoint

pytestmark = [
    pytest.mark.worker,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus here"),
]

WITHIN_S = 60.0
CONFIG = """\
global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: turnmill
    static_configs: [{{targets: {targets}}}]
"""


class Prometheus:
    """A server that scrapes these ports."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.ports = ports
        self._port = free_port()
        config = folder / "prometheus.yml"
        targets = json.dumps([f"127.0.0.1:{port}" for port in ports])
        config.write_text(CONFIG.format(rules=FOLDER / "alerts.yml", targets=targets))
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
        ]
        self._process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        )

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
                told = json.load(answer)["data"]["alerts"]
        except OSError:
            return set()
        return {each["labels"]["alertname"] for each in told if each["state"] == "firing"}

    def asked(self, query: str) -> float | None:
        """The only value of a query now."""
        where = f"http://127.0.0.1:{self._port}/api/v1/query?query={quote(query)}"
        try:
            with urlopen(where, timeout=5) as answer:
                [found] = json.load(answer)["data"]["result"]
        except (OSError, ValueError):
            return None
        return float(found["value"][1])

    def fires(self, alert: str, cause: Callable[[], object]) -> None:
        """Cause it, and see that the alert fires in time."""
        assert alert not in self.firing()
        began = time.monotonic()
        cause()
        wait_until(lambda: alert in self.firing(), within_s=WITHIN_S, what=alert)
        took_s = time.monotonic() - began
        print(f"{alert} fired after {took_s:.0f} s")  # noqa: T201 - shown with -s
        assert took_s < WITHIN_S

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path / "redis").start()
    yield server
    server.stop()


def begun(store: EmbeddedRedis, folder: Path, name: str, queues: str, **env: str) -> WorkerProcess:
    """A worker with an archive."""
    told = {"TURNMILL_ARCHIVE_URL": f"sqlite:///{folder}/archive.db", **env}
    return WorkerProcess(
        store.url, folder, name=name, queues=queues, pool="threads", concurrency=4, env=told
    )


def fill(server: redis.Redis) -> None:
    """Until Redis takes no more."""
    used = int(server.info("memory")["used_memory"])
    server.config_set("maxmemory", used + 8_000_000)
    junk = (server.set(f"turnmill:junk:{at}", b"x" * 100_000) for at in range(1_000))
    with pytest.raises(redis.OutOfMemoryError):
        all(junk)


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path, [free_port(), free_port()])
    yield server
    server.stop()


def test_what_breaks_fires_its_alert_within_a_minute(
    store: EmbeddedRedis, prometheus: Prometheus, tmp_path: Path
) -> None:
    policy = ROLLING.model_copy(update={"summarizer": "openai", "model": "gpt-4o-mini"})
    told = [{"TURNMILL_METRICS_PORT": str(port)} for port in prometheus.ports]
    archive = begun(store, tmp_path, "archive", "archive")
    with ExitStack() as ending:
        model = FakeEndpoint().__enter__()
        asked = {"TURNMILL_MODEL_URL": model.base_url, "TURNMILL_MODEL_KEY": KEY}
        every = begun(store, tmp_path, "all", "estimate,compact,summarize", **told[0], **asked)
        victim = begun(store, tmp_path, "victim", "estimate", **told[1])
        for worker in (every, victim, archive):
            ending.enter_context(worker)
        client = ending.enter_context(ContextClient(store.url))
        server = ending.enter_context(redis.Redis.from_url(store.url))

        def push(name: str) -> None:
            for at in range(8):
                client.open(f"{name}-{at}", policy)
                push_all(client, f"{name}-{at}", chat(90))

        push("fine")
        time.sleep(15)
        assert prometheus.firing() == set()

        prometheus.fires("TurnmillWorkerDown", victim.kill)
        archive.stop()
        prometheus.fires("TurnmillArchiveLate", lambda: push("unarchived"))
        model.__exit__()
        prometheus.fires("TurnmillBreakerOpen", lambda: push("unanswered"))
        prometheus.fires("TurnmillRedisFull", lambda: fill(server))


def test_a_queue_whose_workers_are_gone_for_good_is_told_by_what_waits(
    store: EmbeddedRedis, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Where targets are looked up, a worker that is gone is none that could be down."""
    told = {"TURNMILL_METRICS_PORT": str(prometheus.ports[0])}
    with (
        begun(store, tmp_path, "counting", "estimate", **told),
        ContextClient(store.url) as client,
    ):
        client.open("s", ROLLING)
        prometheus.fires("TurnmillCompactionsLate", lambda: push_all(client, "s", chat(90)))
