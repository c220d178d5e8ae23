"""Schemathesis against a real server and worker: each answer is as documented, none is 500."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.processes import WorkerProcess
from turnmill.connection.embedded import EmbeddedRedis, free_port

pytestmark = [pytest.mark.worker, pytest.mark.timeout(1_200)]

EXAMPLES = os.environ.get("TURNMILL_EXAMPLES", "25")
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))


@contextmanager
def served(url: str, log: Path) -> Iterator[str]:
    port = str(free_port())
    words = ["serve", "--port", port, "--redis-url", url]
    command = [sys.executable, "-m", "turnmill_cli", *words]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as http:
                http.get(f"http://127.0.0.1:{port}/healthz")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def made_key(url: str) -> str:
    command = [sys.executable, "-m", "turnmill_cli", "keys", "create", "--redis-url", url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_every_answer_is_as_documented(store: EmbeddedRedis, tmp_path: Path) -> None:
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(tmp_path / "data")}
    key = made_key(store.url)
    log = tmp_path / "serve.log"
    with WorkerProcess(store.url, tmp_path, env=env), served(store.url, log) as url:
        command = [SCHEMATHESIS, "run", f"{url}/openapi.json", "--exclude-path", "/v1/events"]
        command += ["--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "30"]
        command += ["--header", f"Authorization: Bearer {key}"]
        # What a policy's fields have to agree on, and what a message is, no schema says.
        command += ["--exclude-checks", "positive_data_acceptance"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-8_000:]
    assert "failed" not in log.read_text()
