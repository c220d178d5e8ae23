"""`turnmill up`, as the process tree a person starts."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import START_S, Ran, UpProcess, ended
from tests.processes import wait_until
from tests.replay.commands import run
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis

STATUS = re.compile(
    r"\d/2 workers · \d+ sessions? in \d+ namespaces?( · (backlog|due) [\d,]+)* · \d+ commits?"
)

pytestmark = [pytest.mark.worker, pytest.mark.timeout(240)]

WORDS = {"role": "user", "content": "all the words of a turn, said again and again. " * 20}


def counted(client: ContextClient, session: str) -> bool:
    info = client.info(session)
    return info.counted_seq == info.last_seq > 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """One `turnmill up` for the tests that leave it running."""
    with UpProcess(tmp_path_factory.mktemp("up") / "data") as up:
        up.launch().wait_until_up()
        yield up


def turnmill_doctor(up: UpProcess) -> dict[str, str]:
    words = [sys.executable, "-m", "turnmill_cli", "doctor", "--json", "--redis-url", up.redis_url]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    return {check["name"]: check["status"] for check in json.loads(done.stdout)["checks"]}


def test_it_says_where_everything_is_and_the_doctor_is_content(running: UpProcess) -> None:
    output = running.output()

    assert running.redis_url in output
    assert f"http://127.0.0.1:{running.flower_port}" in output
    assert str(running.folder) in output
    wait_until(lambda: STATUS.search(running.output()), what="the status line")
    wait_until(lambda: set(turnmill_doctor(running).values()) == {"ok"}, what="all is well")


def test_a_pushed_session_is_counted_and_compacted(running: UpProcess) -> None:
    with ContextClient(running.redis_url) as client:
        client.open("grows", Policy(max_tokens=2000))
        for at in range(40):
            client.push("grows", {**WORDS, "content": f"{at}: {WORDS['content']}"})

        wait_until(lambda: client.info("grows").version > 0, what="a commit")
        wait_until(lambda: counted(client, "grows"), what="all counted")
        wait_until(lambda: client.info("grows").turns_covered == 0, what="all archived")
    assert (running.folder / "archive.db").exists()


def test_flower_shows_outcomes_and_lets_nobody_change_anything(running: UpProcess) -> None:
    with ContextClient(running.redis_url) as client:
        client.push("shown", WORDS)
        wait_until(lambda: counted(client, "shown"), what="counted")

    def page() -> str:
        query = "draw=1&start=0&length=100&order[0][column]=0&columns[0][data]=name"
        return get(running.flower_port, f"/tasks/datatable?{query}").decode()

    wait_until(lambda: "estimated shown: 1 turn, " in page(), what="the outcome in Flower")
    assert "'default', 'shown'" in page()
    assert "again and again" not in page()
    assert b"task-uuid-short { display: inline; }" in get(
        running.flower_port, "/static/css/flower.css"
    )


def test_a_demo_beside_it_works_with_its_workers(running: UpProcess, tmp_path: Path) -> None:
    size = ("--agents", 2, "--steps", 20, "--max-tokens", 4000, "--pace", 5)
    with ContextClient(running.redis_url) as client:
        client.push("of-somebody-else", WORDS)

    ran = run(tmp_path, "demo", "--data-dir", running.folder, *size, "--hold")

    assert ran.exit_code == 0, ran.stdout + ran.stderr
    assert "Joining the `turnmill up` at redis://127.0.0.1:" in ran.stderr
    assert "turnmill visualize agent-01 --namespace demo-" in ran.stderr
    wait_until(lambda: re.search(r"in [2-9] namespaces", running.output()), what="both are counted")


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_a_worker_that_dies_is_started_again(running: UpProcess) -> None:
    killed = running.child("worker-1@")

    killed.kill()

    wait_until(lambda: "worker-1 ended (signal 9" in running.output(), what="it is said")
    assert "worker-1.log" in running.output()
    wait_until(lambda: running.runs("worker-1@"), what="a new worker")
    with ContextClient(running.redis_url) as client:
        client.push("after", WORDS)
        wait_until(lambda: counted(client, "after"), within_s=60, what="counted by the new worker")


def test_nothing_outlives_it_whether_it_is_killed_or_ended(tmp_path: Path) -> None:
    with UpProcess(tmp_path / "data") as up:
        up.launch().wait_until_up()
        family = up.family()
        with ContextClient(up.redis_url) as client:
            client.push("kept", WORDS)

        up.send(signal.SIGKILL)
        up.wait()

        assert len(family) == 4
        wait_until(lambda: ended(family), within_s=10, what="all children gone")
        up.launch().wait_until_up()  # the lock went with it, and the data is there
        family = up.family()
        with ContextClient(up.redis_url) as client:
            assert client.read("kept").messages == [WORDS]

        up.send(signal.SIGTERM)

        assert up.wait() == 0, up.output()
        assert ended(family)
        assert "was killed" not in up.output()
        assert "stopped; the data is in" in up.output()


def test_when_redis_dies_it_says_so_and_fails(tmp_path: Path) -> None:
    with UpProcess(tmp_path / "data", "--no-flower", "--grace", "1") as up:
        up.launch().wait_until_up()
        family = up.family()

        up.child("redis-server").kill()

        assert up.wait() == 1
        assert "redis-server ended; see the end of" in up.output()
        assert ended(family)


def test_ctrl_c_in_a_terminal_stops_it_and_leaves_the_live_line(
    tmp_path: Path, redis_server: EmbeddedRedis, namespace: str
) -> None:
    master, terminal = pty.openpty()
    seen: list[bytes] = []

    def drain() -> None:
        try:
            while piece := os.read(master, 4096):
                seen.append(piece)
        except OSError:
            return  # the other side is closed

    def shown() -> str:
        return b"".join(seen).decode(errors="replace")

    urls = ("--redis-url", redis_server.url, "--broker-url", redis_server.url)
    options = ("--no-flower", *urls)
    reader = threading.Thread(target=drain)
    with UpProcess(tmp_path / "data", *options, env={"TERM": "xterm"}) as up:
        # A session whose terminal this is, so that its Ctrl-C is a signal to the foreground group.
        with subprocess.Popen(
            [sys.executable, "-c", IN_TERMINAL, *up.command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env=up._env,
        ) as process:
            os.close(terminal)
            reader.start()
            wait_until(lambda: " sessions in " in shown(), within_s=START_S, what="the live line")
            family = psutil.Process(process.pid).children(recursive=True)
            with ContextClient(redis_server.url, namespace=namespace) as client:
                client.push("s", WORDS)
            wait_until(lambda: "tokens freed" in shown(), what="the line")

            os.write(master, b"\x03")

            assert process.wait(timeout=60) == 0, shown()
        reader.join(timeout=10)
        os.close(master)
    assert len(family) == 2
    assert ended(family)
    assert "stopping; press Ctrl-C again to stop at once" in shown()
    assert "Traceback" not in shown()


IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_port_for_a_redis_of_ones_own_is_wrong_usage(
    turnmill: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = turnmill("up", "--data-dir", str(tmp_path / "data"), "--port", "7000")

    assert ran.exit_code == 2
    assert "--port" in ran.stderr
    assert not (tmp_path / "data").exists()


def test_a_metrics_port_in_use_fails_it_before_anything_starts(
    tmp_path: Path, redis_server: EmbeddedRedis
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        last = taken.getsockname()[1]
        options = ("--no-flower", "--workers", "1", "--metrics-port", str(last - 1))
        with UpProcess(tmp_path / "data", *options, "--redis-url", redis_server.url) as up:
            up.launch()

            assert up.wait() == 1
            told = up.output()
    assert re.search(rf"port ({last}|{last - 1}) is in use: choose another with --metrics-", told)
    assert not list((tmp_path / "data" / "logs").iterdir())


def test_a_child_that_cannot_start_fails_it_with_the_place_of_its_log(
    tmp_path: Path, redis_server: EmbeddedRedis
) -> None:
    # The workers take no such setting.
    env = {"TURNMILL_LEASE_S": "soon"}
    options = ("--no-flower", "--redis-url", redis_server.url)
    with UpProcess(tmp_path / "data", *options, env=env) as up:
        up.launch()

        assert up.wait() == 1
        assert re.search(r"(worker-1|summarize) ended \(exit code \d+; see the end of", up.output())
        assert "Traceback" not in up.output()
