from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import redis

from tests.deploy.compose import REPOSITORY, Service, load
from tests.deploy.processes import (
    NEVER,
    Program,
    answers,
    clean_environment,
    redis_servers,
    running,
)
from tests.processes import wait_until
from turnmill.connection.embedded import free_port

CONFIGURATION = REPOSITORY / "deploy" / "redis.conf"

pytestmark = pytest.mark.parametrize("server", redis_servers().values(), ids=redis_servers())


PASSWORD = "pw1"  # noqa: S105 - of this test's servers


def compose_redis(folder: Path, password: str = PASSWORD) -> Service:
    """The service with its secret in a folder of the test."""
    (folder / "redis_password").write_text(password)
    return load({}).services["redis"].with_secrets_in(folder)


def command(service: Service, server: str, port: int) -> list[str]:
    """The service's command, with the server and the mounted file where they are here."""
    [mounted] = [v for v in service.volumes if v.startswith("./deploy/redis.conf:")]
    shell, flag, script = service.command
    script = script.replace(
        mounted.split(":")[1], f"{CONFIGURATION} --port {port} --bind 127.0.0.1"
    )
    return [shell, flag, script.replace("redis-server ", f"{server} ")]


@contextmanager
def started(
    argv: list[str], port: int, folder: Path, password: str = PASSWORD
) -> Iterator[Program]:
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    with running(argv, environment=clean_environment(), folder=folder) as program:
        wait_until(lambda: answers(url), within_s=10, what=program.output)
        yield program


def test_the_file_alone_is_accepted_and_safe(server: str, tmp_path: Path) -> None:
    port = free_port()

    with (
        started([server, str(CONFIGURATION), "--port", str(port)], port, tmp_path, ""),
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        settings = client.config_get()

    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["protected-mode"] == "yes"
    assert settings["save"] == ""


def test_what_was_written_is_there_after_a_kill_and_it_stops_cleanly(
    server: str, tmp_path: Path
) -> None:
    port = free_port()
    argv = command(compose_redis(tmp_path), server, port)

    with (
        started(argv, port, tmp_path) as program,
        redis.Redis(port=port, password=PASSWORD, decode_responses=True) as client,
    ):
        client.set("turn", "kept")
        wait_until(lambda: synced(client), within_s=10, what=program.output)
        program.process.kill()

    with (
        started(argv, port, tmp_path) as program,
        redis.Redis(port=port, password=PASSWORD, decode_responses=True) as client,
    ):
        assert client.get("turn") == "kept"
        assert program.stop(within_s=30) == 0


def synced(client: redis.Redis) -> bool:
    state = client.info("persistence")
    return (state["aof_buffer_length"], state["aof_pending_bio_fsync"]) == (0, 0)


def test_a_password_keeps_strangers_out_is_in_no_list_of_processes_and_known_to_the_health_check(
    server: str, tmp_path: Path
) -> None:
    port = free_port()
    password = "3f9a7c51e0"  # noqa: S105 - of this test's server
    service = compose_redis(tmp_path, password)
    shell, flag, script = service.healthcheck.argv()
    check = [shell, flag, script.replace("redis-cli", f"redis-cli -p {port}")]

    with (
        started(command(service, server, port), port, tmp_path, password) as program,
        redis.Redis(port=port, retry=NEVER) as stranger,
    ):
        process = psutil.Process(program.process.pid)
        seen = [*process.cmdline(), *process.environ().values()]
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()
        healthy = subprocess.run(check, env=clean_environment(), capture_output=True, check=False)
    stopped = subprocess.run(check, env=clean_environment(), capture_output=True, check=False)

    assert not any(password in each for each in seen)
    assert healthy.returncode == 0, healthy.stderr.decode()
    assert stopped.returncode != 0


@pytest.mark.parametrize("secret", ["", None])
def test_redis_does_not_start_without_its_secret(
    server: str, secret: str | None, tmp_path: Path
) -> None:
    port = free_port()
    service = compose_redis(tmp_path, secret or "")
    if secret is None:
        (tmp_path / "redis_password").unlink()

    done = subprocess.run(
        command(service, server, port), capture_output=True, timeout=60, check=False
    )

    assert done.returncode != 0
    assert b"requirepass" in done.stdout + done.stderr
