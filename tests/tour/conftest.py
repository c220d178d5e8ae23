"""What an agent holds, and a folder in which all that pages name can be typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.processes import WorkerProcess
from tests.tour.echo_model import echo_model
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture
def client(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """Each test has a namespace of its own."""
    with ContextClient(store.url, namespace=namespace) as made:
        yield made


@pytest.fixture(scope="module")
def environment(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A worker that archives, models that echo, and a folder with what pages name."""
    folder = tmp_path_factory.mktemp("pages")
    talk = [{"role": "user", "content": f"Anna Berg asks {at}: what is 4{at}?"} for at in range(9)]
    line = json.dumps({"session_id": "s", "messages": talk})
    for name in ("chat.jsonl", "conversations.jsonl"):
        (folder / name).write_text(f"{line}\n")
    subprocess.run(["gzip", "-k", "chat.jsonl"], cwd=folder, check=True)
    (folder / "chat.jsonl.gz").rename(folder / "tau.jsonl.gz")
    (folder / "turns.jsonl").write_text(f"{json.dumps(talk[0])}\n")
    (folder / "templates").mkdir()
    (folder / "templates" / "ours.md").write_text("# Ours\n\nWrite a summary: {{recent_turns}}\n")
    (folder / "turnmill").write_text(f'#!/bin/sh\nexec {sys.executable} -m turnmill_cli "$@"\n')
    (folder / "turnmill").chmod(0o755)
    data = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    with echo_model() as url, WorkerProcess(store.url, folder, env=data):
        # As a user runs it: measuring coverage slows imports enough to upset openai's lazy ones.
        given = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
        yield {
            **given,
            **data,
            "HOME": str(folder),
            "PWD": str(folder),
            "PATH": f"{folder}:{given['PATH']}",
            "TURNMILL_REDIS_URL": store.url,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
        }
