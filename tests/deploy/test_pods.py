"""The pods' own commands as processes, on a read-only file system and without capabilities."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from tests.deploy.kubernetes import Resource, container, pods, settings
from tests.deploy.processes import Program, answers, clean_environment, redis_servers, running
from tests.processes import wait_until
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import free_port
from turnmill.contract.jobs import QUEUES

pytestmark = pytest.mark.worker

MOUNTED = "/etc/turnmill/secrets"
POD = """\
mount -t tmpfs none /mnt && cp "$0"/* /mnt && chmod 444 /mnt/*
mount -t tmpfs none /tmp && mount -o remount,bind,ro / && cd / || exit 9
touch /refused 2>/dev/null && exit 9
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""
"""What is around a container: secrets, an empty /tmp, nothing to write to, no capabilities.

Not another user: what is tested may be installed for its owner alone.
"""


def may_mount() -> bool:
    if Path(sys.prefix).is_relative_to("/tmp"):  # noqa: S108 - an empty one would hide what runs
        return False
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return bool(shutil.which("unshare")) and not subprocess.run(tried, check=False).returncode


class Pod(NamedTuple):
    """A container that runs, and the port that its probes ask."""

    program: Program
    spec: Resource
    port: int

    def probe(self, kind: str) -> int:
        """What the kubelet is answered."""
        path = container({"spec": self.spec})[kind]["httpGet"]["path"]
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except URLError:
            return 0


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    names = ("redis_password", "broker_password", "archive_password", "embeddings_key", "model_key")
    folder.mkdir()
    for name in names:
        (folder / name).write_text("secret\n" if name == "redis_password" else "")
    return folder


@pytest.fixture
def redis_url(secrets: Path, tmp_path: Path) -> Iterator[str]:
    """The Redis of the overlay `minimal`, with its command, on a port of its own."""
    port = free_port()
    [command] = [container(pod)["command"] for name, pod in pods("minimal") if name == "redis"]
    conf = Path(__file__).parents[2] / "deploy" / "redis.conf"
    here = {
        "/etc/redis/redis.conf": f"{conf} --port {port} --bind 127.0.0.1",
        MOUNTED: str(secrets),
        "redis-server": list(redis_servers().values())[-1],
    }
    for there, one in here.items():
        command = [word.replace(there, one) for word in command]
    url = f"redis://:secret@127.0.0.1:{port}/0"
    with running(command, environment=clean_environment(), folder=tmp_path / "redis") as server:
        wait_until(lambda: answers(url), within_s=10, what=server.output)
        yield url


@pytest.fixture
def workers(redis_url: str, secrets: Path, tmp_path: Path) -> Iterator[dict[str, Pod]]:
    """A pod for each queue."""
    if not may_mount():
        pytest.skip("only root can make a root file system read-only, and no checkout be in /tmp")
    given = settings("minimal") | {"TURNMILL_REDIS_URL": redis_url.replace(":secret@", "")}
    given = {name: value.replace(MOUNTED, "/mnt") for name, value in given.items()}
    given |= {"TURNMILL_METRICS_HOST": "127.0.0.1", "HOME": "/tmp"}  # noqa: S108 - the pod's own
    with ExitStack() as stack, ThreadPoolExecutor() as starting:

        def start(name: str, pod: Resource) -> Pod:
            port = free_port()
            command = ["unshare", "--mount", "sh", "-c", POD, str(secrets)]
            environment = clean_environment(**(given | {"TURNMILL_METRICS_PORT": str(port)}))
            run = running(
                [*command, *container(pod)["command"]],
                environment=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
                folder=tmp_path / name,
            )
            made = Pod(stack.enter_context(run), pod["spec"], port)
            check = container(pod)["startupProbe"]
            wait_until(
                lambda: made.program.ended() or made.probe("startupProbe") == HTTPStatus.OK,
                within_s=check["periodSeconds"] * check["failureThreshold"],
                what=made.program.output,
            )
            assert not made.program.ended(), made.program.output()
            return made

        specs = {name: pod for name, pod in pods("minimal") if name in QUEUES}
        yield dict(zip(specs, starting.map(start, specs, specs.values()), strict=True))


def test_pods_work_without_rights_or_a_file_to_write_and_stop_in_their_time(
    workers: dict[str, Pod], redis_url: str
) -> None:
    for pod in workers.values():
        wait_until(
            lambda pod=pod: pod.probe("readinessProbe") == HTTPStatus.OK,  # type: ignore[misc]
            within_s=30,
            what=pod.program.output,
        )
        assert pod.probe("livenessProbe") == HTTPStatus.OK
    with ContextClient(redis_url) as client:
        client.open("s", Policy(max_tokens=1000), "Be brief.")
        for at in range(40):
            client.push("s", {"role": "user", "content": f"Where is order #W{at * 7919}? " * 4})
        wait_until(lambda: client.info("s").version, within_s=30, what="a compaction")
    for name, pod in workers.items():
        code = pod.program.stop(within_s=pod.spec["terminationGracePeriodSeconds"])
        assert code == 0, (name, pod.program.output())
        assert "Traceback" not in pod.program.output(), pod.program.output()
