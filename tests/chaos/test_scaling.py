"""With a real Prometheus: KEDA's triggers wake each queue from none, and let it sleep again."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.test_alerts import Prometheus, begun
from tests.deploy.kubernetes import of_kind
from tests.processes import wait_until
from tests.worker.harness import ROLLING, chat, push_all
from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis, free_port
from turnmill.contract.jobs import QUEUES

pytestmark = [
    pytest.mark.worker,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus here"),
]

SESSIONS = 8


def awake(prometheus: Prometheus) -> set[str]:
    """The queues that KEDA keeps workers for, or has from the beginning."""
    found = set()
    for queue, scaled in of_kind("production", "ScaledObject").items():
        triggers = [each["metadata"] for each in scaled["spec"]["triggers"]]
        values = {each["query"]: prometheus.asked(each["query"]) for each in triggers}
        over = (
            (values[each["query"]] or 0.0) > float(each["activationThreshold"]) for each in triggers
        )
        if any(over) or scaled["spec"]["minReplicaCount"]:
            found.add(queue)
    return found


def test_work_wakes_every_queue_from_none_and_then_all_but_one_may_sleep(tmp_path: Path) -> None:
    port = free_port()
    store = EmbeddedRedis(tmp_path / "redis").start()
    prometheus = Prometheus(tmp_path, [port])
    running: list[str] = []
    try:
        with ExitStack() as stack, ContextClient(store.url) as client:

            def scaled() -> bool:
                for queue in awake(prometheus) - {*running}:
                    running.append(queue)
                    told = {"TURNMILL_METRICS_PORT": str(port)} if queue == "archive" else {}
                    stack.enter_context(begun(store, tmp_path, queue, queue, **told))
                return all(client.info(f"s-{at}").version for at in range(SESSIONS))

            for at in range(SESSIONS):
                client.open(f"s-{at}", ROLLING)
                push_all(client, f"s-{at}", chat(90))
            wait_until(scaled, within_s=120, what=lambda: f"all compacted; awake: {running}")

            assert running[0] == "archive", "the only one that runs before there is work"
            assert {*running} == {*QUEUES}
            wait_until(lambda: awake(prometheus) == {"archive"}, within_s=60, what="all asleep")
    finally:
        prometheus.stop()
        store.stop()
