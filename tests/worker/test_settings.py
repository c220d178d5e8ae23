"""How processes begin: with settings that are right, what they need imported, and forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from turnmill.connection.embedded import EmbeddedRedis
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.settings import load_settings

BAD = {"TURNMILL_MODEL_API": "telepathy", "TURNMILL_MODEL_WINDOW_TOKENS": "10"}


def test_every_wrong_variable_is_named_and_no_value_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in BAD.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidSettings) as caught:
        load_settings()

    assert str(caught.value) == (
        "TURNMILL_MODEL_API: Input should be 'chat' or 'responses'; "
        "TURNMILL_MODEL_WINDOW_TOKENS: Input should be greater than or equal to 4096"
    )


def test_every_secret_may_be_in_a_file_and_none_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for of in ("REDIS", "BROKER", "ARCHIVE"):
        (tmp_path / of).write_text(f"pw-of-{of}\n")
        monkeypatch.setenv(f"TURNMILL_{of}_PASSWORD_FILE", str(tmp_path / of))
    monkeypatch.setenv("TURNMILL_REDIS_URL", "redis://workers@redis/0")
    monkeypatch.setenv("TURNMILL_ARCHIVE_URL", "postgresql://me@db/name")

    alone = load_settings()
    monkeypatch.setenv("TURNMILL_BROKER_URL", "amqp://me@broker//")
    apart = load_settings()

    assert alone.store == alone.broker.url == "redis://workers:pw-of-REDIS@redis/0"
    assert alone.archive == "postgresql://me:pw-of-ARCHIVE@db/name"
    assert apart.broker.url == "amqp://me:pw-of-BROKER@broker//"
    assert "pw-of" not in repr(apart)


def test_a_secret_that_is_missing_stops_a_worker_and_an_empty_name_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURNMILL_MODEL_KEY_FILE", "")
    monkeypatch.setenv("TURNMILL_REDIS_PASSWORD_FILE", "")
    assert load_settings().store == "redis://localhost:6379/0"
    assert load_settings().model_key_file is None

    monkeypatch.setenv("TURNMILL_REDIS_PASSWORD_FILE", str(tmp_path / "absent"))
    with pytest.raises(InvalidSettings, match=r"TURNMILL_REDIS_PASSWORD_FILE: .*absent cannot be"):
        load_settings()


@pytest.mark.worker
def test_a_worker_says_so_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "turnmill_worker.app", "worker"],
        env={**os.environ, **BAD},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("TURNMILL_MODEL_API: ")
    assert done.stderr.count("\n") == 1


STARTED = """
import json, sys
from turnmill_worker import wiring
from turnmill_worker.app import app
wiring.parts(app)
wiring.sweep_thread(app)
wiring.announcement("worker@host")
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]]))
"""


def imported(folder: Path, *packages: str, **env: str) -> list[str]:
    """The modules of these packages that a worker with this environment has imported."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STARTED, *packages],
        env={**os.environ, "TURNMILL_DATA_DIR": str(folder), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: list[str] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_a_worker_without_a_model_imports_nothing_of_openai_or_its_http_library(
    tmp_path: Path,
) -> None:
    found = imported(tmp_path, "openai", "httpx2", "httpcore2", "celery")

    assert {name.partition(".")[0] for name in found} == {"celery"}


def test_one_with_a_key_has_imported_what_its_calls_use_before_the_first(tmp_path: Path) -> None:
    found = imported(tmp_path, "openai", TURNMILL_MODEL_KEY="sk-for-tests-only")

    used = {f"openai.resources.{name}" for name in ("chat", "responses", "files", "batches")}
    assert used <= set(found)


FORK = """
import os, sys, json, time
from turnmill import ContextClient

def push(client, who):
    before = client.hints.published
    seqs = [client.push(who, {"role": "user", "content": f"{n}"}).seq for n in range(20)]
    deadline = time.monotonic() + 30
    while client.hints.published == before and time.monotonic() < deadline:
        time.sleep(0.01)
    return {"seqs": seqs, "hinted": client.hints.published > before,
            "read": len(client.read(who).messages)}

client = ContextClient(sys.argv[1], namespace=sys.argv[2])
push(client, "before")
child = os.fork()
report = push(client, "child" if child == 0 else "parent")
if child:
    os.waitpid(child, 0)
print(json.dumps(["child" if child == 0 else "parent", report]), flush=True)
client.close()
os._exit(0)
"""


@pytest.mark.worker
def test_a_client_made_before_a_fork_works_in_parent_and_child(
    store: EmbeddedRedis, namespace: str, server: redis.Redis
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, store.url, namespace],
        capture_output=True,
        check=True,
        timeout=90,
    )

    reports = dict(json.loads(line) for line in done.stdout.splitlines())
    expected = {"seqs": list(range(1, 21)), "hinted": True, "read": 20}
    assert reports == {"child": expected, "parent": expected}
    assert server.llen("estimate") >= 3


FORK_MEANWHILE = """
import os, sys, time
from turnmill import ContextClient

with ContextClient(sys.argv[1], namespace=sys.argv[2]) as client:
    client.push("before", {"role": "user", "content": "Celery is imported for this one."})
    while "celery" not in sys.modules:
        time.sleep(0.0001)
    child = os.fork()
    client.push(f"after-{os.getpid()}", {"role": "user", "content": "And used for this."})
    deadline = time.monotonic() + 30
    while not client.hints.published and time.monotonic() < deadline:
        time.sleep(0.01)
    status = os.waitpid(child, 0)[1] if child else 0
    os._exit(0 if client.hints.published and not status else 1)
"""


def test_a_fork_while_celery_is_imported_leaves_both_able_to_hint(
    store: EmbeddedRedis, namespace: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_MEANWHILE, store.url, namespace],
        capture_output=True,
        check=False,
        timeout=90,
    )

    assert (done.returncode, done.stderr) == (0, b"")
