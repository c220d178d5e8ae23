from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.deploy.compose import REPOSITORY, Service, load
from tests.deploy.processes import (
    NEVER,
    Program,
    answers,
    clean_environment,
    free_port,
    redis_servers,
    running,
    wait_until,
)

CONFIGURATION = REPOSITORY / "deploy" / "redis.conf"

pytestmark = pytest.mark.parametrize("server", redis_servers().values(), ids=redis_servers())


def compose_redis(password: str = "") -> Service:
    given = {"FLOWER_BASIC_AUTH": "me:secret", "TURNMILL_REDIS_PASSWORD": password}
    return load(given).services["redis"]


def command(service: Service, server: str) -> list[str]:
    """The service's command, with the server and the mounted file where they are here."""
    [mounted] = [v for v in service.volumes if v.startswith("./deploy/redis.conf:")]
    here = {"redis-server": server, mounted.split(":")[1]: str(CONFIGURATION)}
    return [here.get(part, part) for part in service.command]


@contextmanager
def started(argv: list[str], port: int, folder: Path, password: str = "") -> Iterator[Program]:
    listen = ["--port", str(port), "--bind", "127.0.0.1"]
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    with running([*argv, *listen], environment=clean_environment(), folder=folder) as program:
        wait_until(lambda: answers(url), within_s=10, otherwise=program.output)
        yield program


def test_the_file_alone_is_accepted_and_safe(server: str, tmp_path: Path) -> None:
    port = free_port()

    with (
        started([server, str(CONFIGURATION)], port, tmp_path),
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        settings = client.config_get()

    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["protected-mode"] == "yes"
    assert settings["save"] == ""


def test_the_compose_command_starts_and_stops_cleanly(server: str, tmp_path: Path) -> None:
    with started(command(compose_redis(), server), free_port(), tmp_path) as program:
        assert program.stop(within_s=10) == 0


def test_what_was_written_is_there_after_a_kill(server: str, tmp_path: Path) -> None:
    port = free_port()
    argv = command(compose_redis(), server)

    with (
        started(argv, port, tmp_path) as program,
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        client.set("turn", "kept")
        wait_until(lambda: synced(client), within_s=10, otherwise=program.output)
        program.process.kill()

    with started(argv, port, tmp_path), redis.Redis(port=port, decode_responses=True) as client:
        assert client.get("turn") == "kept"


def synced(client: redis.Redis) -> bool:
    state = client.info("persistence")
    return (state["aof_buffer_length"], state["aof_pending_bio_fsync"]) == (0, 0)


@pytest.mark.parametrize("password", ["", "pw1"])
def test_the_health_check_succeeds_with_and_without_a_password(
    server: str, password: str, tmp_path: Path
) -> None:
    port = free_port()
    service = compose_redis(password)
    shell, flag, script = service.healthcheck.argv()
    check = [shell, flag, script.replace("redis-cli", f"redis-cli -p {port}")]
    environment = clean_environment(**service.variables({"TURNMILL_REDIS_PASSWORD": password}))

    with started(command(service, server), port, tmp_path, password):
        healthy = subprocess.run(check, env=environment, capture_output=True, check=False)
    stopped = subprocess.run(check, env=environment, capture_output=True, check=False)

    assert healthy.returncode == 0, healthy.stderr.decode()
    assert stopped.returncode != 0


def test_a_password_keeps_strangers_out(server: str, tmp_path: Path) -> None:
    port = free_port()

    with (
        started(command(compose_redis("pw1"), server), port, tmp_path, "pw1"),
        redis.Redis(port=port, retry=NEVER) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()
