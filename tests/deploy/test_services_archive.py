"""All four workers as compose runs them, over one archive: what each needs of it, it has."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.processes import Program
from tests.deploy.test_services_run import COMPLAINT, service, up
from tests.processes import wait_until
from turnmill import ContextClient, Policy, UnknownSession
from turnmill.contract.jobs import QUEUES

pytestmark = pytest.mark.worker


@pytest.fixture
def workers(redis_url: str, tmp_path: Path) -> Iterator[dict[str, Program]]:
    """A worker for each queue; their common volume is the folder ``data``."""
    with ExitStack() as stack, ThreadPoolExecutor() as starting:

        def start(name: str) -> Program:
            started: Program = stack.enter_context(
                up(service(name, redis_url, tmp_path), tmp_path / name)
            )
            return started

        yield dict(zip(QUEUES, starting.map(start, QUEUES), strict=True))


def talk(client: ContextClient) -> None:
    client.open("s", Policy(max_tokens=1000), "Be brief.")
    for at in range(40):
        client.push("s", {"role": "user", "content": f"Where is order #W{at * 7919}? " * 4})


def test_what_is_covered_is_archived_and_found_by_every_service(
    workers: dict[str, Program], redis_url: str, tmp_path: Path
) -> None:
    def said() -> str:
        return "\n".join(program.output() for program in workers.values())

    with ContextClient(redis_url) as client:
        talk(client)
        wait_until(
            lambda: client.info("s").version and not client.info("s").turns_covered,
            within_s=30,
            what=said,
        )
        assert (tmp_path / "data" / "archive.db").exists()

        whole = client.trajectory("s")  # archive
        done = client.summarize("s", timeout_s=30)  # summarize
        back = client.rollback("s", to=1)  # compact
        found = client.ground("order #W7919")  # archive
        client.forget("s")

        assert [turn.seq for turn in whole.turns] == list(range(1, 41))
        assert done
        assert back.restored == "version 1"
        assert found.memories
        wait_until(lambda: is_unknown(client), within_s=20, what=said)
    assert not COMPLAINT.search(said()), said()


def is_unknown(client: ContextClient) -> bool:
    try:
        client.trajectory("s")
    except UnknownSession:
        return True
    return False
