from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.deploy.compose import PATH, REPOSITORY, interpolate, load
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


def test_a_worker_can_be_scaled() -> None:
    for name, service in load({}).workers().items():
        assert service.container_name is None, name
        assert service.hostname is None, name
        assert service.ports == (), name
        assert service.option("hostname") == f"{name}@%h"


def test_a_health_check_asks_the_worker_it_runs_beside() -> None:
    for name, service in load({}).workers().items():
        assert f"--destination={name}@$(hostname) " in service.healthcheck.argv()[-1]


def test_workers_send_the_events_that_flower_shows() -> None:
    for name, service in load({}).workers().items():
        assert "--task-events" in service.command, name


def test_only_flower_is_published_and_only_on_loopback() -> None:
    published = {name: service.ports for name, service in load({}).services.items()}

    assert published.pop("flower") == ("127.0.0.1:5555:5555",)
    assert not any(published.values())


def test_one_service_builds_the_image_that_the_others_use() -> None:
    services = load({}).services
    builders = [name for name, service in services.items() if service.build]

    assert builders == ["estimate"]
    assert {s.image for name, s in services.items() if name != "redis"} == {"turnmill:local"}


def test_every_service_comes_back_after_a_crash_and_gets_time_to_stop() -> None:
    for name, service in load({}).services.items():
        assert service.restart == "unless-stopped", name
        assert service.stop_grace_period, name


def test_the_broker_is_the_state_store_unless_named() -> None:
    estimate = load({}).services["estimate"]

    assert "TURNMILL_BROKER_URL" not in estimate.variables({})
    assert estimate.variables({"TURNMILL_BROKER_URL": "amqp://x"})["TURNMILL_BROKER_URL"] == (
        "amqp://x"
    )


def test_a_model_is_set_up_in_the_file_that_every_worker_reads() -> None:
    # `environment` comes before `env_file`, and a name without a value there is absent for good.
    model = re.compile(r"TURNMILL_(?:MODEL|BATCH|REDACTOR|EMBEDDINGS)(?!\w*_KEY_FILE)")

    for name, service in load({}).workers().items():
        assert [(each.path, each.required) for each in service.env_file] == [("worker.env", False)]
        assert not [variable for variable in service.environment if model.match(variable)], name


def test_what_the_compose_file_passes_on_is_listed_at_its_top() -> None:
    top = PATH.read_text().partition("name: turnmill")[0]

    for name, service in load({}).services.items():
        passed = {variable for variable, value in service.environment.items() if value is None}
        assert not [variable for variable in passed if f"#   {variable} " not in top], name


def test_every_worker_shares_the_volume_that_the_image_keeps_the_archive_in() -> None:
    dockerfile = (REPOSITORY / "deploy" / "Dockerfile").read_text()
    [data_dir] = re.findall(r"TURNMILL_DATA_DIR=(\S+)", dockerfile)
    compose = load({})

    assert f'VOLUME ["{data_dir}"]' in dockerfile
    assert "archive" in compose.volumes
    for name, service in compose.workers().items():
        assert f"archive:{data_dir}" in service.volumes, name
        assert "TURNMILL_DATA_DIR" not in service.variables({}), name


def test_an_archive_elsewhere_and_templates_reach_every_worker() -> None:
    postgres = {"TURNMILL_ARCHIVE_URL": "postgresql://me@db/archive"}

    for name, service in load({}).workers().items():
        folder = service.variables({})["TURNMILL_TEMPLATE_DIRS"]
        assert f"./templates:{folder}:ro" in service.volumes, name
        assert "TURNMILL_ARCHIVE_URL" not in service.variables({}), name
        assert service.variables(postgres).items() >= postgres.items(), name
    mine = load({"TURNMILL_TEMPLATES": "/srv/mine"}).services["summarize"]
    assert "/srv/mine:/etc/turnmill/templates:ro" in mine.volumes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$$(hostname)", "$(hostname)"),
        ("a${SET}b", "avb"),
        ("${SET:-d}", "v"),
        ("${UNSET:-d}", "d"),
        ("${UNSET:-x${SET:-d}y}z", "xvyz"),
        ("${SET:?m}", "v"),
    ],
)
def test_the_reader_interpolates_as_compose_does(text: str, value: str) -> None:
    assert interpolate(text, {"SET": "v"}) == value


@pytest.mark.parametrize("text", ["$NAME", "${A", "${:-x}", "${A:+x}"])
def test_the_reader_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(ValueError, match="this reader"):
        interpolate(text, {"A": "v"})
