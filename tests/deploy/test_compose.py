"""docker-compose.yml: a service per queue, secrets in files, little that anybody could abuse."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.deploy.compose import PATH, REPOSITORY, SECRETS, load
from turnmill.contract.jobs import QUEUES

YAMLLINT = "{extends: default, rules: {document-start: disable, line-length: {max: 120}}}"


def test_the_file_is_valid_by_the_compose_specification() -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(PATH)]

    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)

    assert checked.returncode == 0, checked.stdout.decode()


def test_the_file_is_clean_yaml() -> None:
    command = ["yamllint", "--strict", "-d", YAMLLINT, str(PATH)]

    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)

    assert checked.returncode == 0, checked.stdout.decode()


def test_every_queue_has_exactly_one_service_of_its_name() -> None:
    workers = load({}).workers()

    assert {name: service.option("queues") for name, service in workers.items()} == {
        queue: queue for queue in QUEUES
    }


def test_a_worker_can_be_scaled_is_asked_for_its_own_health_and_tells_flower() -> None:
    for name, service in load({}).workers().items():
        assert (service.container_name, service.hostname, service.ports) == (None, None, ()), name
        assert service.option("hostname") == f"{name}@%h"
        assert f"--destination={name}@$(hostname) " in service.healthcheck.argv()[-1]
        assert "--task-events" in service.command, name


def test_what_people_look_at_is_published_and_only_on_loopback() -> None:
    published = {name: service.ports for name, service in load({}).services.items()}

    assert {name: ports for name, ports in published.items() if ports} == {
        "flower": ("127.0.0.1:5555:5555",),
        "grafana": ("127.0.0.1:3000:3000",),
        "prometheus": ("127.0.0.1:9090:9090",),
        "server": ("127.0.0.1:8377:8377",),
    }


def test_redis_and_the_workers_run_by_default_and_all_else_with_the_profile() -> None:
    compose = load({})
    more = {name: s.profiles for name, s in compose.services.items() if s.profiles}

    assert compose.services.keys() - more == {"redis", *QUEUES}
    assert more == {name: (name, "full") for name in more}


def test_prometheus_finds_every_worker_and_server_and_grafana_finds_both(tmp_path: Path) -> None:
    folder = REPOSITORY / "deploy" / "observability"
    [job] = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    [found] = job["dns_sd_configs"]
    grafana = (folder / "grafana" / "datasources" / "prometheus.yml").read_text()
    services = load({}).services

    assert found["names"] == [*QUEUES, "server"]
    for name in found["names"]:
        service = services[name]
        assert "store" in service.networks
        variables = service.variables({})
        assert variables["TURNMILL_METRICS_PORT"] == str(found["port"])
        assert variables["TURNMILL_METRICS_HOST"] == "0.0.0.0"  # noqa: S104 - in its container
    assert "url: http://prometheus:9090\n" in grafana
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "config", str(folder / "prometheus.yml")], check=True)
        theirs = yaml.safe_load((folder / "kubernetes.yml").read_text())
        # Debian's Prometheus knows no Kubernetes.
        assert theirs["scrape_configs"][0].pop("kubernetes_sd_configs")
        (tmp_path / "other.yml").write_text(yaml.safe_dump(theirs))
        subprocess.run([promtool, "check", "config", str(tmp_path / "other.yml")], check=True)


def test_a_model_is_set_up_in_the_file_that_every_worker_reads() -> None:
    # `environment` comes before `env_file`, and a name without a value there is absent for good.
    model = re.compile(r"TURNMILL_(?:MODEL|BATCH|REDACTOR|EMBEDDINGS)(?!\w*_KEY_FILE)")

    for name, service in load({}).workers().items():
        assert [(each.path, each.required) for each in service.env_file] == [("worker.env", False)]
        assert not [variable for variable in service.environment if model.match(variable)], name


def test_every_worker_shares_the_volume_that_the_image_keeps_the_archive_in() -> None:
    dockerfile = (REPOSITORY / "deploy" / "Dockerfile").read_text()
    [data_dir] = re.findall(r"TURNMILL_DATA_DIR=(\S+)", dockerfile)
    compose = load({})

    assert f'VOLUME ["{data_dir}"]' in dockerfile
    assert "archive" in compose.volumes
    for name, service in compose.workers().items():
        assert f"archive:{data_dir}" in service.volumes, name
        assert "TURNMILL_DATA_DIR" not in service.variables({}), name


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

    (tmp_path / "made").mkdir(mode=0o700)
    (tmp_path / "made" / "broker_password").write_text("mine")

    before: dict[str, str] = {}
    for _ in range(2):
        subprocess.run(script, env=environment, check=True)
        made = {path.name: path.read_text() for path in (tmp_path / "made").iterdir()}
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").iterdir()}

        assert made["broker_password"] == "mine"  # noqa: S105 - of this test
        assert before in ({}, made), "a second run changes no secret"
        before = made

    assert made.keys() == compose.secrets.keys()
    assert all(
        each["file"] == str(tmp_path / "made" / name) for name, each in compose.secrets.items()
    )
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    assert all(mode & 0o004 and not mode & 0o022 for mode in modes.values()), modes
    for name in ("redis_password", "archive_password", "grafana_password"):
        assert re.fullmatch(r"[0-9a-f]{48}", made[name])
    assert re.fullmatch(r"turnmill:[0-9a-f]{48}\n", made["flower_basic_auth"])
    assert compose.services["redis"].secrets == ("redis_password",)
    assert "flower_basic_auth" not in compose.services["compact"].secrets
    assert not {"model_key", "archive_password"} & set(compose.services["flower"].secrets)
    for name, service in compose.workers().items():
        own = {"flower_basic_auth", "grafana_password"}
        assert set(service.secrets) == compose.secrets.keys() - own, name
    assert compose.services["server"].secrets == ("redis_password", "broker_password")


def test_secrets_reach_neither_git_nor_the_image() -> None:
    assert "/secrets/" in (REPOSITORY / ".gitignore").read_text().splitlines()
    assert "!secrets" not in (REPOSITORY / ".dockerignore").read_text()


def test_every_service_comes_back_after_a_crash_and_has_little_it_could_abuse() -> None:
    services = load({}).services
    summarize = services["summarize"]
    assert int(summarize.option("concurrency")) < summarize.pids_limit / 2, "threads for models"
    for name, service in services.items():
        assert service.restart == "unless-stopped", name
        assert service.stop_grace_period, name
        assert service.read_only, name
        assert service.cap_drop == ("ALL",), name
        assert service.security_opt == ("no-new-privileges:true",), name
        assert all("noexec,nosuid,nodev" in each for each in service.tmpfs), name
        assert service.mem_limit.endswith(("m", "g")), name
        assert service.pids_limit, name
        assert service.cpus, name


def test_redis_is_no_root_and_only_its_clients_reach_it() -> None:
    compose = load({})
    redis = compose.services["redis"]

    assert redis.user == "999:1000"
    assert redis.networks == ("store",)
    assert compose.networks["store"] == {"internal": True}
    for name, service in compose.workers().items():
        assert set(service.networks) == {"store", "outside"}, name
    no_way_out = {"com.docker.network.bridge.enable_ip_masquerade": "false"}
    assert set(compose.services["flower"].networks) == {"store", "flower"}
    assert compose.networks["flower"] == {"driver_opts": no_way_out}


def test_every_client_of_redis_reads_the_password_that_the_server_reads() -> None:
    services = load({}).services

    redis = services.pop("redis")
    for name in ("postgres", "prometheus", "grafana"):
        assert services.pop(name).image.partition(":")[0].rpartition("/")[-1] == name
    assert f"requirepass $(cat {SECRETS}/redis_password)" in redis.command[-1]
    for name, service in services.items():
        variables = service.variables({})
        assert variables["TURNMILL_REDIS_PASSWORD_FILE"] == f"{SECRETS}/redis_password", name
        assert variables["TURNMILL_REDIS_URL"] == "redis://redis:6379/0", name
