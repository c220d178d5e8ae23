"""Each service's own command and health check, as plain processes against a real Redis."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.compose import REPOSITORY, Service, load
from tests.deploy.processes import (
    Program,
    alive,
    clean_environment,
    free_port,
    running,
)
from tests.processes import wait_until
from turnmill.contract.jobs import QUEUES

CREDENTIALS = "me:secret"
COMPLAINT = re.compile(r"Traceback|: (?:ERROR|CRITICAL)/|\[[EW] \d{6}")
STARTED = re.compile(r"@\S+ ready|Visit me at")

pytestmark = pytest.mark.worker


def service(name: str, redis_url: str, secrets: Path) -> Service:
    """The service as it runs here; a secret that nobody wrote is empty."""
    compose = load({"TURNMILL_REDIS_URL": redis_url})
    for secret in compose.secrets:
        (secrets / secret).touch()
    (secrets / "flower_basic_auth").write_text(f"{CREDENTIALS}\n")
    found = compose.services[name].with_secrets_in(secrets)
    here = [part.replace("/etc/turnmill/", f"{REPOSITORY}/deploy/") for part in found.command]
    return found.model_copy(update={"command": tuple(here)})


def healthy(service: Service, environment: dict[str, str]) -> bool:
    checked = subprocess.run(
        service.healthcheck.argv(), env=environment, capture_output=True, check=False, timeout=90
    )
    return checked.returncode == 0


@contextmanager
def up(service: Service, folder: Path) -> Iterator[Program]:
    """The service, started and healthy."""
    data = {"TURNMILL_DATA_DIR": str(folder.parent / "data")}  # a volume, in the image
    environment = clean_environment(**service.variables({}), **data)
    with running(service.command, environment=environment, folder=folder) as program:
        # A health check that comes too early takes its whole timeout to fail.
        wait_until(
            lambda: program.ended() or STARTED.search(program.output()),
            within_s=30,
            what=program.output,
        )
        assert not program.ended(), program.output()
        wait_until(lambda: healthy(service, environment), within_s=30, what=program.output)
        yield program


@pytest.mark.parametrize("name", QUEUES)
def test_a_worker_gets_healthy_and_stops_without_a_trace(
    name: str, redis_url: str, tmp_path: Path
) -> None:
    with up(service(name, redis_url, tmp_path), tmp_path / name) as worker:
        children = worker.children()

        exit_code = worker.stop(within_s=20)

        assert exit_code == 0, worker.output()
        assert not any(alive(child) for child in children)
        assert not COMPLAINT.search(worker.output()), worker.output()


def test_a_health_check_fails_when_only_another_worker_answers(
    redis_url: str, tmp_path: Path
) -> None:
    compact = service("compact", redis_url, tmp_path)

    with up(service("estimate", redis_url, tmp_path), tmp_path):
        assert not healthy(compact, clean_environment(**compact.variables({})))


class Browser:
    """Asks Flower for pages."""

    def __init__(self, port: int) -> None:
        self._port = port

    def status(self, path: str, credentials: str | None = None, method: str = "GET") -> int:
        return self._ask(path, credentials, method)[0]

    def workers(self) -> set[str]:
        status, body = self._ask("/api/workers?refresh=1", CREDENTIALS, "GET")
        return set(json.loads(body)) if status == http.client.OK else set()

    def _ask(self, path: str, credentials: str | None, method: str) -> tuple[int, bytes]:
        token = base64.b64encode((credentials or "").encode()).decode()
        headers = {"Authorization": f"Basic {token}"} if credentials else {}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def on_port(flower: Service, port: int) -> Service:
    """The service on another port, and on loopback: there is no container around it here."""
    moved = [part.replace("5555", str(port)) for part in flower.command]
    check = [part.replace("5555", str(port)) for part in flower.healthcheck.test]
    return Service.model_validate(
        flower.model_dump()
        | {
            "command": moved,
            "healthcheck": {"test": check},
            "environment": flower.environment | {"FLOWER_ADDRESS": "127.0.0.1"},
        }
    )


def test_flower_shows_workers_to_who_has_the_password_and_changes_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    port = free_port()
    browser = Browser(port)
    node = f"estimate@{socket.gethostname()}"

    with (
        up(service("estimate", redis_url, tmp_path), tmp_path / "estimate") as worker,
        up(on_port(service("flower", redis_url, tmp_path), port), tmp_path / "flower") as flower,
    ):
        assert browser.status("/") == http.client.UNAUTHORIZED
        assert browser.status("/", "me:guess") == http.client.UNAUTHORIZED
        assert browser.status("/api/workers") == http.client.UNAUTHORIZED
        assert browser.status("/", CREDENTIALS) == http.client.OK
        assert browser.status("/metrics") == http.client.OK
        wait_until(lambda: node in browser.workers(), within_s=20, what=flower.output)
        assert not COMPLAINT.search(flower.output()), flower.output()

        shutdown = browser.status(f"/api/worker/shutdown/{node}", CREDENTIALS, "POST")

        assert shutdown == http.client.FORBIDDEN
        assert worker.process.poll() is None
        assert flower.stop(within_s=10) == 0, flower.output()
        assert "Traceback" not in flower.output()
