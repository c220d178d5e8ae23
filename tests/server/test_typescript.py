"""The TypeScript client, by its own tests under node, against a real server and worker."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import Serving
from turnmill.client._async.connection import AsyncConnection
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.server.api_keys import ApiKeys

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"


def test_its_types_are_those_of_the_api() -> None:
    command = [sys.executable, str(ROOT / "tools" / "client_types.py"), "--check"]

    subprocess.run(command, check=True)


@pytest.mark.worker
@pytest.mark.usefixtures("worker")
@pytest.mark.skipif(
    not (CLIENT / "node_modules").exists() or not shutil.which("npm"),
    reason="`make client` brings what its tests take",
)
async def test_its_own_tests_pass(serving: Serving, store: EmbeddedRedis, namespace: str) -> None:
    keys = AsyncConnection(store.url, 5.0, None, NotImplemented)
    key, _ = await ApiKeys(keys).create(namespace)
    await keys.close()
    async with serving(redis=store.url, broker=None, no_auth="") as http:
        env = {**os.environ, "TURNMILL_URL": str(http.base_url), "TURNMILL_KEY": key}
        process = await asyncio.create_subprocess_exec(
            "npm", "test", cwd=CLIENT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        told, _ = await process.communicate()

    assert process.returncode == 0, told.decode()
