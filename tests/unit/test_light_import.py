"""An agent pays for what it uses: modules are counted, for they are what an import costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LISTED = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
BASE = "import redis, pydantic; pydantic.BaseModel, pydantic.TypeAdapter, pydantic.JsonValue"
CLIENT = "from turnmill import ContextClient, Policy, Turn"
EVERYTHING = "from turnmill import *"

FOR_HINTS = {"amqp", "billiard", "celery", "click", "kombu", "vine", "yaml"}
FOR_OTHERS = {
    "agent_framework", "agents", "alembic", "google", "httpx", "jinja2", "langchain",
    "langchain_core", "langgraph", "llama_index", "openai", "pydantic_ai", "rich", "sqlalchemy",
    "strands", "structlog", "tiktoken", "turnmill_cli", "turnmill_worker", "typer",
}  # fmt: skip
MOST = 91
"""Modules that a client may take beside those of Redis and pydantic."""


def modules(code: str) -> set[str]:
    """What a fresh interpreter has imported after it."""
    done = subprocess.run(
        [sys.executable, "-c", code + LISTED], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def packages(code: str) -> set[str]:
    return {name.partition(".")[0] for name in modules(code)}


def test_the_package_alone_imports_neither_redis_nor_pydantic() -> None:
    assert packages("import turnmill").isdisjoint({"redis", "pydantic"})


@pytest.mark.parametrize("code", [CLIENT, EVERYTHING])
def test_celery_is_left_to_the_thread_that_hints(code: str) -> None:
    assert packages(code).isdisjoint(FOR_HINTS | FOR_OTHERS)


def test_a_client_takes_few_modules_beside_redis_and_pydantic() -> None:
    added = modules(CLIENT) - modules(BASE)

    assert len(added) <= MOST, sorted(added)
    assert not {"turnmill.client._async.client", "turnmill.contract.trajectory"} & added


def test_a_waker_imports_celery_for_its_first_hint_only() -> None:
    made = "from turnmill import CeleryWaker; waker = CeleryWaker('redis://127.0.0.1:1/0')\n"
    hinted = "waker.wake('ns', 's'); waker.close()"

    assert "celery" not in packages(made)
    assert "celery" in packages(made + hinted)
