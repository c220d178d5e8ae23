"""Every line that a page tells people to type can be typed, or has a reason not to be here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.tour.documents import ROOT, Typed, typed_lines
from turnmill import ContextClient
from turnmill.contract.errors import UnknownSession

pytestmark = pytest.mark.worker

NOT_HERE = {
    "make ": "these targets run the tests and checks themselves; the Makefile has them",
    ". .venv/bin/activate": "the folder of this test has none",
    "python3 -m venv ": "takes long; the Makefile does the same",
    "pip install ": "needs the package index; tests/deploy checks what each extra brings",
    "git clone ": "needs the network",
    "sh deploy/secrets.sh": "writes into the repository; tests/deploy/test_compose.py",
    "docker compose ": "needs Docker; tests/deploy runs every service's command without it",
    "celery -A turnmill_worker.app worker": "runs until Ctrl-C; the worker of this test is one",
    "turnmill flower": "runs until Ctrl-C; tests/cli/test_up.py and tests/deploy run Flower",
    "turnmill serve": "runs until Ctrl-C; tests/server/test_keys.py",
    "curl ": "needs a server that runs; tests/server/test_sessions.py",
    "turnmill up": "runs until Ctrl-C; tests/cli/test_up.py",
    "turnmill demo": "takes a minute; tests/replay/test_demo.py",
    "TURNMILL_MODEL_URL=": "runs until Ctrl-C; tests/examples/test_examples.py does the same",
    "turnmill fake-llm ": "runs until Ctrl-C; tests/worker/test_model_faults.py",
    "role() ": "tests/security/roles.py fills in the same files",
    "{ cat deploy/acl": "tests/security/roles.py fills in the same files",
    "redis-server ": "runs until Ctrl-C; tests/security/test_roles.py starts one with these users",
    "export TURNMILL_MODEL_KEY_FILE=": "needs a key of a model",
    "turnmill evaluate tau.jsonl.gz --summarizer openai": "needs a model",
    "turnmill --install-completion": "changes the shell's own files",
    "python -m benchmarks.": "takes minutes; `make bench`",
}
"""By how a line begins: why nobody types it here."""

STANDS_FOR = {"FILE…": "chat.jsonl"}
"""What a page leaves open."""


def here(line: str) -> bool:
    """Whether this test types the line."""
    return not line.startswith(tuple(NOT_HERE))


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


@pytest.mark.parametrize(
    "typed",
    {each.line: each for each in typed_lines() if here(each.line)}.values(),
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
        timeout=280,
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
