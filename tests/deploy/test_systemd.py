"""The units: systemd takes them, they may do little, and their commands are those of Compose."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose import REPOSITORY, load
from tests.deploy.processes import clean_environment
from turnmill.contract.jobs import QUEUES
from turnmill_worker.settings import Settings

FOLDER = REPOSITORY / "deploy" / "systemd"
UNITS = ("turnmill-worker@.service", "turnmill-serve.service")
COMMON = "turnmill-.service.d/50-turnmill.conf"

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")


def lines(name: str) -> list[tuple[str, str]]:
    """Its settings, in order."""
    found = (line.partition("=") for line in (FOLDER / name).read_text().splitlines())
    return [(key, value) for key, equals, value in found if equals and not key.startswith("#")]


def command(unit: str, queue: str) -> list[str]:
    """What an instance of the unit runs."""
    [text] = [value for key, value in lines(unit) if key == "ExecStart"]
    for name, value in [*lines(f"{queue}.env"), ("%%h", "%h"), ("%i", queue)]:
        text = text.replace(f"${{{name}}}", value).replace(name, value)
    return text.replace("/opt/turnmill/bin/", "").split()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units in a folder, for programs that are here, and with an instance."""
    here, _, _ = clean_environment()["PATH"].partition(os.pathsep)
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*.service"):
        text = path.read_text().replace("/opt/turnmill/bin", here)
        path.unlink()
        path.with_name(path.name.replace("@.", "@estimate.")).write_text(text)
    return tmp_path


@needs_systemd
def test_systemd_has_nothing_to_say(installed: Path) -> None:
    said = analyzed(installed, "verify", *(path.name for path in installed.glob("turnmill*[et]")))

    assert [line for line in said.stderr.splitlines() if "turnmill" in line] == []
    assert said.returncode == 0, said.stderr


def analyzed(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(SYSTEMD_UNIT_PATH=f"{folder}:")
    words = ["systemd-analyze", *command]
    return subprocess.run(words, env=environment, capture_output=True, check=False, text=True)


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_may_do_little(unit: str, installed: Path) -> None:
    instance = unit.replace("@.", "@estimate.")

    said = analyzed(installed, "security", "--offline=yes", "--threshold=15", instance)

    assert said.returncode == 0, said.stdout
    assert dict(lines(unit))["User"] == "turnmill", "even without what is common"


def test_an_instance_of_each_queue_runs_the_command_of_compose() -> None:
    workers = load({}).workers()
    target = dict(lines("turnmill.target"))["Wants"].split()

    assert {q: command(UNITS[0], q) for q in QUEUES} == {
        q: list(workers[q].command) for q in QUEUES
    }
    assert target == [f"turnmill-worker@{queue}.service" for queue in QUEUES]
    server = [part.replace("127.0.0.1", "0.0.0.0") for part in command(UNITS[1], "archive")]  # noqa: S104
    assert server == list(load({}).services["server"].command)


def test_services_of_one_machine_have_ports_of_their_own_and_settings_that_exist() -> None:
    ports = [dict(lines(f"{queue}.env"))["TURNMILL_METRICS_PORT"] for queue in QUEUES]
    known = {f"TURNMILL_{field}".upper() for field in Settings.model_fields}
    every = [*lines(COMMON), *lines(UNITS[0])]
    told = [value.partition("=")[0] for key, value in every if key == "Environment"]

    served = dict(each[1].split("=") for each in lines(UNITS[1]) if each[0] == "Environment")
    assert len({*ports, served["TURNMILL_METRICS_PORT"]}) == len(QUEUES) + 1
    assert {name for name in told if name.startswith("TURNMILL_")} <= known


@pytest.mark.parametrize("unit", [COMMON, UNITS[0]])
def test_secrets_come_as_credentials(unit: str) -> None:
    given = [value.partition(":") for key, value in lines(unit) if key == "LoadCredential"]
    read = [v.partition("=") for key, v in lines(unit) if key == "Environment" and "_FILE=" in v]

    assert [f"%d/{name}" for name, _, _ in given] == [path for _, _, path in read]
    assert all(path == f"/etc/turnmill/secrets/{name}" for name, _, path in given)
