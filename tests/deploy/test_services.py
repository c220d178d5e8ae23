"""Each service's own command and health check, alone and together, as plain processes."""

from __future__ import annotations

import base64
import http.client
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy.compose import REPOSITORY, Service, load
from tests.deploy.processes import (
    Program,
    alive,
    answers,
    clean_environment,
    redis_servers,
    running,
)
from tests.processes import wait_until
from turnmill import ContextClient, Policy, UnknownSession
from turnmill.connection.embedded import free_port
from turnmill.contract.jobs import QUEUES


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of this test's own, on loopback, keeping nothing."""
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    server = list(redis_servers().values())[-1]
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with running(command, environment=clean_environment(), folder=tmp_path / "redis") as program:
        wait_until(lambda: answers(url), within_s=10, what=program.output)
        yield url


CREDENTIALS = "me:secret"
COMPLAINT = re.compile(r"Traceback|: (?:ERROR|CRITICAL)/|\[[EW] \d{6}")
STARTED = re.compile(r"@\S+ ready|Visit me at|^http://127", re.MULTILINE)

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
    # A volume in the image, and a port in each container.
    here = {"TURNMILL_DATA_DIR": str(folder.parent / "data")}
    here |= {"TURNMILL_METRICS_HOST": "127.0.0.1", "TURNMILL_METRICS_PORT": str(free_port())}
    environment = clean_environment(**{**service.variables({}), **here})
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


EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a container


def on_port(service: Service, usual: str, port: int) -> Service:
    """The service on another port, and on loopback: there is no container around it here."""
    text = service.model_dump_json().replace(usual, str(port)).replace(EVERYWHERE, "127.0.0.1")
    return Service.model_validate_json(text)


def test_flower_shows_workers_to_who_has_the_password_and_changes_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    port = free_port()
    browser = Browser(port)
    node = f"estimate@{socket.gethostname()}"

    pages = on_port(service("flower", redis_url, tmp_path), "5555", port)

    with (
        up(service("estimate", redis_url, tmp_path), tmp_path / "estimate") as worker,
        up(pages, tmp_path / "flower") as flower,
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


def test_the_server_serves_whom_has_a_key_and_starts_with_none(
    redis_url: str, tmp_path: Path
) -> None:
    port = free_port()
    server = on_port(service("server", redis_url, tmp_path), "8377", port)
    environment = clean_environment(**server.variables({}))
    with running(server.command, environment=environment, folder=tmp_path / "keyless") as keyless:
        assert keyless.process.wait(timeout=30) == 1
        assert "turnmill keys create" in keyless.output()

    command = ["turnmill", "keys", "create", "--namespace", "shop"]
    made = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    with up(server, tmp_path / "server") as program:
        for key, status in ((made.stdout.strip(), 200), ("guessed", 401)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/v1/sessions", headers={"Authorization": f"Bearer {key}"})
            assert connection.getresponse().status == status
            connection.close()
        # uvicorn ends by the signal once it is done.
        assert program.stop(within_s=20) in (0, -signal.SIGTERM), program.output()


@pytest.fixture
def workers(redis_url: str, tmp_path: Path) -> Iterator[dict[str, Program]]:
    """A worker for each queue; their common volume is the folder ``data``."""
    with ExitStack() as stack, ThreadPoolExecutor() as starting:

        def start(name: str) -> Program:
            started: Program = stack.enter_context(
                up(service(name, redis_url, tmp_path), tmp_path / name)
            )
            return started

        yield dict(zip(QUEUES, starting.map(start, QUEUES), strict=True))


def talk(client: ContextClient) -> None:
    client.open("s", Policy(max_tokens=1000), "Be brief.")
    for at in range(40):
        client.push("s", {"role": "user", "content": f"Where is order #W{at * 7919}? " * 4})


def test_all_services_get_healthy_work_over_one_archive_and_stop_without_a_trace(
    workers: dict[str, Program], redis_url: str, tmp_path: Path
) -> None:
    programs = list(workers.values())

    def said() -> str:
        return "\n".join(program.output() for program in programs)

    with ContextClient(redis_url) as client:
        talk(client)
        wait_until(
            lambda: client.info("s").version and not client.info("s").turns_covered,
            within_s=30,
            what=said,
        )
        assert (tmp_path / "data" / "archive.db").exists()

        whole = client.trajectory("s")  # archive
        done = client.summarize("s", timeout_s=30)  # summarize
        back = client.rollback("s", to=1)  # compact
        found = client.ground("order #W7919")  # archive
        client.forget("s")

        assert [turn.seq for turn in whole.turns] == list(range(1, 41))
        assert done
        assert back.restored == "version 1"
        assert found.memories
        wait_until(lambda: is_unknown(client), within_s=20, what=said)

    children = [child for program in workers.values() for child in program.children()]
    compact = service("compact", redis_url, tmp_path)
    codes = [workers.pop("compact").stop(within_s=60)]
    assert not healthy(compact, clean_environment(**compact.variables({}))), "only others answer"
    codes += [program.stop(within_s=60) for program in workers.values()]
    assert codes == [0] * len(QUEUES)
    assert not any(alive(child) for child in children)
    assert not COMPLAINT.search(said()), said()


def is_unknown(client: ContextClient) -> bool:
    try:
        client.trajectory("s")
    except UnknownSession:
        return True
    return False
