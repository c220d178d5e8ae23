"""With TURNMILL_LOG_JSON every line of a worker's log is JSON, and says what it is about."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import redis

from tests.processes import WorkerProcess, emptied, wait_until
from tests.worker.harness import grown, keys_of, send
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

MARK = "moonflower-4712"
"""What a damaged turn says, and no log may."""

Line = dict[str, Any]


@pytest.fixture(scope="module", params=["prefork"])
def lines(
    request: pytest.FixtureRequest, store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> list[Line]:
    """The log, from start to end, of a worker with good jobs and bad ones."""
    # Python's own warnings, too: one is told before Celery sets its log up, when root runs it.
    env = {"TURNMILL_LOG_JSON": "1", "PYTHONWARNINGS": "default"}
    folder = tmp_path_factory.mktemp("logs")
    emptied(store.url)  # of what the one before would have jobs for
    worker = WorkerProcess(store.url, folder, pool=request.param, concurrency=2, env=env)
    # Standard output has Celery's banner; the log is standard error.
    worker._command = ["sh", "-c", 'exec "$@" >banner', "worker", *worker._command]
    with worker, ContextClient(store.url, namespace=request.param) as client:
        grown(client, "good", 90)
        _damage(store, client)
        nameless = send(store.url, "turnmill.estimate", "no such thing!", "s")
        wait_until(lambda: f"{nameless}] raised" in worker.output(), what="a bad name refused")
        send(store.url, "turnmill.evil", "x", "y")
        wait_until(lambda: "turnmill.evil" in worker.output(), what="an unknown task refused")
        wait_until(lambda: "InternalError" in worker.output(), what="a damaged session met")
        worker.stop()
    assert "[queues]" in (folder / "banner").read_text()
    assert MARK not in worker.output()
    return [_parsed(line) for line in worker.output().splitlines()]


def _damage(store: EmbeddedRedis, client: ContextClient) -> None:
    client.push("bad", {"role": "user", "content": "fine"})
    wait_until(lambda: client.info("bad").counted_seq == 1)
    keys = keys_of(client, "bad")
    with redis.Redis.from_url(store.url) as server:
        body = f'[{{"role":"user","content":"{MARK}'
        server.xadd(keys.log, {"messages": body, "bound": "9", "turn_id": "t"}, id="2-0")
        server.hset(keys.meta, "last_seq", "2")
    client.info("bad")  # has its turns counted


def _parsed(line: str) -> Line:
    try:
        found = json.loads(line)
    except ValueError:
        pytest.fail(f"not JSON: {line!r}")
    assert isinstance(found, dict)
    return found


def test_every_line_is_json_and_says_when_what_and_who(lines: list[Line]) -> None:
    assert len(lines) > 10
    for line in lines:
        assert {"event", "level", "logger", "timestamp"} <= line.keys(), line


def test_a_line_about_a_job_says_whose_it_was_and_how_long_it_took(
    lines: list[Line], request: pytest.FixtureRequest
) -> None:
    ours = [line for line in lines if line["logger"] == "turnmill_worker.tasks"]

    assert {"estimated", "committed", "failed"} <= {line["event"] for line in ours}
    for line in ours:
        assert line["namespace"] == request.node.callspec.params["lines"]
        assert line["session"] in ("good", "bad")
        assert line["task"].startswith("turnmill.")
        assert line["task_id"]
        assert 0 < line["duration_ms"] < 60_000
    assert len({line["task_id"] for line in ours}) > 1


def test_a_failed_job_is_told_in_one_line_of_ours_and_one_with_the_traceback(
    lines: list[Line],
) -> None:
    task_id = next(line["task_id"] for line in lines if line["event"] == "failed")

    told, celerys = (line for line in lines if line.get("task_id") == task_id)

    assert (told["event"], told["level"], told["session"]) == ("failed", "error", "bad")
    assert celerys["logger"] == "celery.app.trace"
    assert celerys["exception"].startswith("Traceback")
    assert (celerys["session"], celerys["task"]) == (told["session"], told["task"])
    assert celerys["duration_ms"] >= told["duration_ms"]


def test_a_job_with_an_impossible_name_is_told_without_it(lines: list[Line]) -> None:
    told = next(line for line in lines if "InvalidName" in line["event"])

    assert told["task"] == "turnmill.estimate"
    assert told["task_id"] in told["event"]
    assert "session" not in told


def test_what_a_worker_says_between_jobs_is_about_none(lines: list[Line]) -> None:
    loggers = ("celery.apps.worker", "turnmill_worker.background.sweep", "turnmill_worker.wiring")
    between = [line for line in lines if line["logger"] in loggers]

    assert any(line["event"].endswith("ready.") for line in between)
    assert not any({"task", "task_id", "session", "duration_ms"} & line.keys() for line in between)


UNCAUGHT = """
import threading, warnings
from turnmill_worker.background import logs
logs.set_up_early(as_json=True)
warnings.warn("look out")
ended = threading.Thread(target=lambda: 1 / 0)
ended.start()
ended.join()
raise KeyError("main")
"""


def test_warnings_and_what_nobody_catches_are_json_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", UNCAUGHT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    warned, *uncaught = (_parsed(line) for line in done.stderr.splitlines())
    assert "look out" in warned["event"]
    assert [line["level"] for line in uncaught] == ["critical", "critical"]
    assert "ZeroDivisionError" in uncaught[0]["exception"]
    assert "KeyError" in uncaught[1]["exception"]
    assert done.returncode == 1
