"""What docker-compose.yml keeps from those who have no business with it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.deploy.compose import PATH, REPOSITORY, SECRETS, load


def test_no_secret_is_in_an_environment_or_on_a_command_line() -> None:
    words = re.compile(r"(?i)password|passwd|secret|_key|auth")

    for name, service in load({}).services.items():
        for variable, value in service.environment.items():
            if words.search(variable):
                assert variable.endswith("_FILE"), name
                assert (value or "").removeprefix(f"{SECRETS}/") in service.secrets, name
        given = [word for word in service.command if words.search(word)]
        assert all(SECRETS in word for word in given), name
    assert not re.search(r"\$\{\w*(?:PASSWORD|KEY|AUTH)\b", PATH.read_text())


def test_every_secret_is_a_file_that_the_script_makes_and_only_its_users_mount(
    tmp_path: Path,
) -> None:
    compose = load({"TURNMILL_SECRETS": str(tmp_path / "made")})
    script = ["sh", str(REPOSITORY / "deploy" / "secrets.sh")]
    environment = {"PATH": os.environ["PATH"], "TURNMILL_SECRETS": str(tmp_path / "made")}

    for _ in range(2):
        subprocess.run(script, env=environment, check=True)
        made = {path.name: path.read_text() for path in (tmp_path / "made").iterdir()}
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").iterdir()}

    assert made.keys() == compose.secrets.keys()
    assert all(
        each["file"] == str(tmp_path / "made" / name) for name, each in compose.secrets.items()
    )
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    assert all(mode & 0o004 and not mode & 0o022 for mode in modes.values()), modes
    assert re.fullmatch(r"[0-9a-f]{48}", made["redis_password"])
    assert re.fullmatch(r"turnmill:[0-9a-f]{48}\n", made["flower_basic_auth"])
    assert compose.services["redis"].secrets == ("redis_password",)
    assert "flower_basic_auth" not in compose.services["compact"].secrets
    assert not {"model_key", "archive_password"} & set(compose.services["flower"].secrets)
    for name, service in compose.workers().items():
        assert set(service.secrets) == compose.secrets.keys() - {"flower_basic_auth"}, name


def test_a_second_run_of_the_script_changes_no_secret(tmp_path: Path) -> None:
    script = ["sh", str(REPOSITORY / "deploy" / "secrets.sh")]
    environment = {"PATH": os.environ["PATH"], "TURNMILL_SECRETS": str(tmp_path)}
    (tmp_path / "redis_password").write_text("mine")

    subprocess.run(script, env=environment, check=True)
    first = {path.name: path.read_text() for path in tmp_path.iterdir()}
    subprocess.run(script, env=environment, check=True)

    assert (tmp_path / "redis_password").read_text() == "mine"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == first


def test_secrets_reach_neither_git_nor_the_image() -> None:
    assert "/secrets/" in (REPOSITORY / ".gitignore").read_text().splitlines()
    assert "!secrets" not in (REPOSITORY / ".dockerignore").read_text()


def test_every_service_has_little_it_could_abuse() -> None:
    for name, service in load({}).services.items():
        assert service.read_only, name
        assert service.cap_drop == ("ALL",), name
        assert service.security_opt == ("no-new-privileges:true",), name
        assert all("noexec,nosuid,nodev" in each for each in service.tmpfs), name
        assert service.mem_limit.endswith(("m", "g")), name
        assert service.pids_limit, name
        assert service.cpus, name


def test_threads_for_models_have_room_below_the_limit_of_processes() -> None:
    summarize = load({}).services["summarize"]

    assert int(summarize.option("concurrency")) < summarize.pids_limit / 2


def test_redis_is_no_root_and_only_its_clients_reach_it() -> None:
    compose = load({})
    redis = compose.services["redis"]

    assert redis.user == "999:1000"
    assert redis.networks == ("store",)
    assert compose.networks["store"] == {"internal": True}
    for name, service in compose.workers().items():
        assert set(service.networks) == {"store", "outside"}, name


def test_flower_has_no_way_out() -> None:
    compose = load({})
    options = {"com.docker.network.bridge.enable_ip_masquerade": "false"}

    assert set(compose.services["flower"].networks) == {"store", "flower"}
    assert compose.networks["flower"] == {"driver_opts": options}


def test_images_can_be_named_by_digest() -> None:
    digest = f"redis@sha256:{'0' * 64}"
    compose = load({"TURNMILL_REDIS_IMAGE": digest, "TURNMILL_PYTHON_IMAGE": "python@sha256:0"})

    assert compose.services["redis"].image == digest
    build = compose.services["estimate"].build
    assert build
    assert build["args"] == {"PYTHON_IMAGE": "python@sha256:0"}


def test_every_client_of_redis_reads_the_password_that_the_server_reads() -> None:
    services = load({}).services

    redis = services.pop("redis")
    assert f"requirepass $(cat {SECRETS}/redis_password)" in redis.command[-1]
    for name, service in services.items():
        variables = service.variables({})
        assert variables["TURNMILL_REDIS_PASSWORD_FILE"] == f"{SECRETS}/redis_password", name
        assert variables["TURNMILL_REDIS_URL"] == "redis://redis:6379/0", name
