"""Every block of code in the README and the docs runs, or has a reason not to run here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import WorkerProcess
from tests.tour.documents import PAGES, ROOT, Typed, python_blocks, typed_lines
from tests.tour.echo_model import echo_model
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.errors import UnknownSession

pytestmark = pytest.mark.worker

NOT_HERE = {
    "make ": "these targets run the tests and checks themselves; the Makefile has them",
    ". .venv/bin/activate": "the folder of this test has none",
    "pip install ": "needs the package index; tests/deploy checks what each extra brings",
    "git clone ": "needs the network",
    "sh deploy/secrets.sh": "writes into the repository; tests/deploy/test_compose_hardening.py",
    "docker compose ": "needs Docker; tests/deploy runs every service's command without it",
    "celery -A turnmill_worker.app worker": "runs until Ctrl-C; the worker of this test is one",
    "turnmill flower": "runs until Ctrl-C; tests/cli/test_up.py and tests/deploy run Flower",
    "turnmill up": "runs until Ctrl-C; tests/cli/test_up.py",
    "turnmill demo": "takes a minute; tests/replay/test_demo.py",
    "TURNMILL_MODEL_URL=": "runs until Ctrl-C; tests/examples/test_examples.py does the same",
    "turnmill fake-llm ": "runs until Ctrl-C; tests/worker/test_model_faults.py",
    "role() ": "tests/security/roles.py fills in the same files",
    "{ cat deploy/acl": "tests/security/roles.py fills in the same files",
    "redis-server ": "runs until Ctrl-C; tests/security/test_roles.py starts one with these users",
    "export TURNMILL_MODEL_KEY_FILE=": "needs a key of a model",
    "turnmill evaluate --board kit": "takes minutes; tests/cli/test_evaluate_boards.py",
    "turnmill evaluate --beam ": "needs chats from elsewhere; tests/cli/test_evaluate_beam.py",
    "turnmill evaluate tau.jsonl.gz --board compint": "needs a file from elsewhere; as above",
    "turnmill evaluate tau.jsonl.gz --summarizer openai": "needs a model",
    "turnmill --install-completion": "changes the shell's own files",
    "python -m benchmarks.": "takes minutes; `make bench`",
}
"""By how a line begins: why nobody types it here."""

WITH_THEIR_FRAMEWORK = re.compile(
    r"turnmill\.integrations\.(agent_framework|google_adk|langchain|llama_index|openai_agents|strands)"
)
"""Blocks of these run in tests/integrations, each with a model that its framework can talk to."""

STANDS_FOR = {"FILE…": "chat.jsonl"}
"""What a page leaves open."""

PRELUDE = """
import builtins, os
from openai import OpenAI
from turnmill import ContextClient, Policy
said = iter(["Always answer in German. Where is order #W2378156?", ""])
builtins.input = lambda *_: next(said, "")
model, client = OpenAI(), ContextClient({url!r})
for name in ("agent-7", "agent-8"):
    client.forget(name)
client.push("agent-7", {{"role": "user", "content": "Good morning!"}})
"""


def here(line: str) -> bool:
    """Whether this test types the line."""
    return not line.startswith(tuple(NOT_HERE))


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


def seed(environment: dict[str, str], *, anew: bool = False) -> None:
    """Have the session there as it was."""
    with ContextClient(environment["TURNMILL_REDIS_URL"]) as client:
        try:
            if anew:
                client.forget("agent-7")
            client.info("agent-7")
        except UnknownSession:
            for at in range(30):
                words = f"{at}: Anna Berg of room 3{at} looks for the ember falcon of {at} May."
                client.push("agent-7", {"role": "user", "content": words})
            client.summarize("agent-7", timeout_s=20)
        folder = Path(environment["PWD"])
        (folder / "agent-7.json").write_text(client.trajectory("agent-7").model_dump_json())


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, environment: dict[str, str]
) -> None:
    url = environment["TURNMILL_REDIS_URL"]
    blocks = [
        block.replace("redis://localhost:6379/0", url)
        for block in python_blocks(page)
        if not WITH_THEIR_FRAMEWORK.search(block)
    ]
    code = PRELUDE.format(url=url) + "\n".join(blocks)

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "typed",
    [each for each in typed_lines() if here(each.line)],
    ids=lambda typed: f"{Path(typed.page).stem}: {typed.line}",
)
def test_a_line_for_the_shell_can_be_typed(typed: Typed, environment: dict[str, str]) -> None:
    line = typed.line
    for open_word, word in STANDS_FOR.items():
        line = line.replace(open_word, word)
    seed(environment, anew=" erase " in line)

    done = subprocess.run(
        ["bash", "-c", f"{line}"],
        input="y\n",
        cwd=environment["PWD"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_reason_not_to_type_a_line_is_needed() -> None:
    lines = [each.line for each in typed_lines()]
    unneeded = [begin for begin in NOT_HERE if not any(line.startswith(begin) for line in lines)]

    assert unneeded == []


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {each.line.split()[1] for each in typed_lines() if each.line.startswith("make ")}

    assert named <= targets
