"""The parts of `turnmill up` that need no tree."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from tests.processes import wait_until
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.keys import NAMESPACES, shard_keys
from turnmill.contract.names import Namespace
from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local import children as specs
from turnmill_cli.local import tether
from turnmill_cli.local.children import Child, ChildSpec, end
from turnmill_cli.local.flower_config import format_task, sentence
from turnmill_cli.local.processes import (
    PAUSES_S,
    Supervisor,
    locked,
    stop_signals,
)
from turnmill_cli.local.up import StatusReader
from turnmill_cli.options import REDIS_URL, Connection
from turnmill_cli.output import CommandFailed
from turnmill_cli.redis_view import NamespacesView
from turnmill_cli.running import UpRunning, announce, remember_redis, running_in

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
time.sleep(60)
"""


def child(tmp_path: Path, code: str, name: str = "child") -> Child:
    command = (sys.executable, "-c", code)
    return Child(ChildSpec(name=name, command=command, log=tmp_path / f"{name}.log"))


def test_a_child_that_does_not_end_is_killed_after_the_grace(tmp_path: Path) -> None:
    stubborn = child(tmp_path, STUBBORN)
    stubborn.start()
    wait_until(lambda: stubborn.last_line() == "on", what="it ignores SIGTERM")

    killed = end([stubborn], grace_s=0.2, hurry=lambda: False)

    assert killed == ["child"]
    assert stubborn.exit_code == -signal.SIGKILL


def test_a_second_signal_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    stubborn = child(tmp_path, STUBBORN)
    stubborn.start()
    wait_until(lambda: stubborn.last_line() == "on", what="it ignores SIGTERM")

    with stop_signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: signals.stopping, what="the first")
        assert not signals.hurried
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: signals.hurried, what="the second")

        assert end([stubborn], grace_s=60, hurry=lambda: signals.hurried) == ["child"]


def test_a_child_that_keeps_dying_is_started_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    said: list[str] = []
    worker = ChildSpec(name="w", command=("/bin/false",), log=tmp_path / "w.log")
    supervisor = Supervisor([worker], None, flower_port=0, tell=said.append)
    dying = supervisor._workers[0]
    dying.start()

    pauses = []
    for _ in range(len(PAUSES_S) + 1):
        _wait_for_its_end(dying)
        supervisor.check()
        pauses.append(supervisor._again_at["w"] - now)
        now += pauses[-1] - 0.01
        supervisor.check()
        assert not dying.alive, "started too early"
        now += 0.02
        supervisor.check()

    assert pauses == [pytest.approx(pause) for pause in (*PAUSES_S, PAUSES_S[-1])]
    assert said[0].startswith("w ended (exit code 1; see the end of ")
    _wait_for_its_end(dying)


def _wait_for_its_end(dying: Child) -> None:
    assert dying._process
    dying._process.wait(timeout=10)


def test_the_status_says_what_does_not_answer(redis_client: redis.Redis) -> None:
    down = f"redis://127.0.0.1:{free_port()}/0"
    redis_client.sadd(NAMESPACES, "late")
    redis_client.zadd(shard_keys(Namespace("late"), 0).backlog, {"s": 1})
    redis_client.set(shard_keys(Namespace("late"), 1).backlog, "no list")
    with closing(BrokerView(down, timeout_s=0.2)) as no_broker:
        reader = StatusReader(NamespacesView(redis_client), no_broker)
        line = reader.line()
        reader.close()

    assert " · the broker does not answer · " in line
    assert "backlog" in line


def test_the_status_counts_what_is_due_now_and_no_quiet_session(
    redis_client: redis.Redis, redis_server: EmbeddedRedis
) -> None:
    redis_client.flushall()
    redis_client.sadd(NAMESPACES, "quiet")
    due = shard_keys(Namespace("quiet"), 0).due
    redis_client.zadd(due, {"late": 1, "idle": (time.time() + 300) * 1000})
    with closing(BrokerView(redis_server.url, timeout_s=0.2)) as broker:
        reader = StatusReader(NamespacesView(redis_client), broker)
        line = reader.line()
        reader.close()

    assert " · due 1 · " in line


def test_a_tethered_process_ends_when_its_parent_was_dead_already() -> None:
    with pytest.raises(SystemExit, match="ended before its child began"):
        tether.tether(os.getppid() + 1, 0)


def test_a_directory_is_locked_once_and_free_again_after(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    with (
        locked(folder),
        pytest.raises(CommandFailed, match=f"process {os.getpid()}"),
        locked(folder),
    ):
        pytest.fail("locked twice")

    with locked(folder):
        assert (folder / "up.lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("structlog", r"'\.\[embedded\]' in turnmill's folder"),
        ("flower", r"'\.\[flower\]'.*--no-flower"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, missing: str, says: str
) -> None:
    monkeypatch.setattr(specs, "_is_there", lambda module: module != missing)

    with pytest.raises(CommandFailed, match=says):
        specs.check_installed(with_flower=True)


def test_each_worker_has_a_port_for_its_metrics(tmp_path: Path) -> None:
    def ports(first: int) -> list[str]:
        workers = specs.worker_children(
            2, logs=tmp_path, env={"A": "1"}, host="h", metrics_port=first
        )
        return [worker.env["TURNMILL_METRICS_PORT"] for worker in workers]

    assert ports(9464) == ["9464", "9465", "9466", "9467"]
    # Whatever the environment says to others: a demo takes no worker's port.
    assert ports(0) == ["0"] * 4


def test_a_usual_port_in_use_gives_way_to_a_free_one(unused_port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", unused_port))
        taken.listen()

        assert specs.choose_port(None, unused_port, "--port") != unused_port
        with pytest.raises(CommandFailed, match="in use"):
            specs.choose_port(unused_port, 1, "--port")
    assert specs.choose_port(None, unused_port, "--port") == unused_port
    assert specs.choose_port(unused_port, 1, "--port") == unused_port


@pytest.fixture
def unused_port() -> int:
    return free_port()


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            "{'outcome': 'estimated', 'session': 's', 'turns': 3, 'tokens': 90}",
            "estimated s: 3 turns, 90 tokens",
        ),
        (
            "{'outcome': 'committed', 'session': 'a', 'namespace': 'shop', 'strategy': 'rolling', "  # noqa: ISC004
            "'model': 'gpt-5-mini', 'rejected': ('elide',)}",
            "committed shop/a by rolling (gpt-5-mini): refused: elide",
        ),
        (
            "{'outcome': 'deferred', 'session': 'a', 'failed': ('SummarizerTimeout',), "  # noqa: ISC004
            "'retry_s': 12.5}",
            "deferred a after SummarizerTimeout: tried again in 12.5 s",
        ),
        (
            "{'outcome': 'committed', 'session': 'a', 'model': 'extractive', 'quality': 0.6637, "  # noqa: ISC004
            "'failed': ('UnusableSummary', 'below-quality')}",
            "committed a (extractive after UnusableSummary, below-quality): quality 0.66",
        ),
        (
            "{'outcome': 'committed', 'session': 'a', 'model': 'm', "  # noqa: ISC004
            "'items': {'kept': 2, 'unsupported': 3, 'loop': 1}}",
            "committed a (m): 2 items kept, 4 not: 3 unsupported, 1 loop",
        ),
        ("{'outcome': 'skipped', 'session': 's'}", "skipped s: nothing to do"),
        ("Retry(Retry(...), {'outcome': 'deferred', 'session': 's'}, 1.0)", "deferred s"),
        ("None", "None"),
        ("{'cut off", "{'cut off"),
    ],
)
def test_flower_tells_an_outcome_as_a_sentence(result: object, told: object) -> None:
    assert sentence(result) == told


def test_flower_shows_what_stood_in_how_long_a_job_waited_and_what_it_cost() -> None:
    told = "{'outcome': 'committed', 'session': 's', 'model': 'm', 'failed': ('X',), "
    told += "'cost_usd': 0.0021, 'waited_s': 3.4}"
    task = SimpleNamespace(state="SUCCESS", args="('n', 's')", result=told, exception=None)

    shown = format_task(task)

    assert shown.state == "STOOD IN"
    assert shown.result == "committed s (m after X): $0.0021, waited 3 s to begin"


RUNNING = UpRunning("redis://127.0.0.1:7/0", "")


def test_commands_find_the_redis_of_the_up_in_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNMILL_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "turnmill-data"
    assert Connection().redis_url == REDIS_URL
    folder.mkdir()

    remember_redis(folder, RUNNING.redis_url)

    found = [Connection().redis_url, Connection("redis://given:1/2").redis_url]
    assert found == [RUNNING.redis_url, "redis://given:1/2"]
    remember_redis(folder, "")
    assert Connection().redis_url == REDIS_URL


def test_only_an_up_that_runs_is_found(tmp_path: Path) -> None:
    assert running_in(tmp_path) is None
    with locked(tmp_path):
        assert running_in(tmp_path) is None, "it is not up yet"
        announce(tmp_path, RUNNING)
        assert running_in(tmp_path) == RUNNING
    assert running_in(tmp_path) is None

    (tmp_path / "up.json").write_text('{"redis_url": "redis://killed"}')
    with locked(tmp_path):
        assert running_in(tmp_path) is None, "what a killed one said is no longer so"
