"""What turnmill stands on fails in a known way, at a known moment."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.archive.postgres import Postgres, postgres_bin
from tests.chaos.checker import read_archive
from tests.chaos.faults import BACK, fail_over_by_sentinel, promote_without_tail
from tests.chaos.scene import Scene
from tests.chaos.world import World
from tests.processes import wait_until
from turnmill.contract.keys import SWEEP_LEASE

pytestmark = [pytest.mark.worker, pytest.mark.slow]

CHANCE = random.Random(0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("outages") / "world") as made:
        made.fleet.add()
        made.fleet.add()
        made.fleet.wait()
        yield made


@pytest.fixture
def patient(world: World) -> Iterator[Scene]:
    """A session whose summaries a model writes."""
    made = Scene(world, "patient")
    yield made
    made.close()


@pytest.fixture
def scene(world: World, request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(world, f"s{abs(hash(request.node.name))}", style="tools")
    yield made
    made.close()


@pytest.mark.parametrize("back", BACK, ids=lambda back: back.__name__)
def test_turns_after_redis_went_back_are_kept_and_lost_ones_are_kept_aside(
    back: Callable[..., None], scene: Scene
) -> None:
    _grow(scene)
    archived: set[str] = set()

    def meanwhile() -> None:
        _grow(scene)
        archived.update(_archived(scene))

    back(scene.world, CHANCE, meanwhile=meanwhile)
    scene.world.fleet.wait()
    _grow(scene)

    scene.assert_kept()
    assert archived <= _archived(scene)


def test_a_commit_planned_before_redis_went_back_is_refused_after_it(
    world: World, patient: Scene
) -> None:
    patient.push(10)
    asked = len(world.endpoint.requests)

    def meanwhile() -> None:
        world.endpoint.latency_s = 1.5
        patient.fill()
        wait_until(lambda: len(world.endpoint.requests) > asked, what="the model asked")

    promote_without_tail(world, CHANCE, meanwhile=meanwhile)
    patient.push(6)  # so few that no other job begins, which would come first
    time.sleep(3.0)
    world.endpoint.latency_s = 0.05
    told = " ".join(request.prompt for request in world.endpoint.requests)
    left = read_archive(world.archive_url, world.namespace, "patient")

    assert [place.seq for place in left if place.turn not in told] == []
    _grow(patient)
    patient.assert_kept()


def test_a_failover_by_sentinel_loses_nothing_that_was_replicated(scene: Scene) -> None:
    _grow(scene)
    fail_over_by_sentinel(scene.world, CHANCE, may_lose=False)
    _grow(scene)

    scene.assert_kept()


def test_a_slow_network_lets_no_dead_worker_keep_others_from_sweeping(scene: Scene) -> None:
    longest_ms = 0
    with scene.redis() as plain:
        for delay_s in (0.12, 0.4):
            scene.world.back.delay_s = delay_s
            end_s = time.monotonic() + 4.0
            while time.monotonic() < end_s:
                longest_ms = max(longest_ms, plain.pttl(SWEEP_LEASE))
                time.sleep(0.02)
    scene.world.back.delay_s = 0.0

    assert longest_ms < 2_000, "so long would nobody sweep if its owner died now"


def test_a_full_disk_costs_no_turn(scene: Scene) -> None:
    scene.world.store.limit_disk(20_000)
    with pytest.raises(Exception, match="Redis"):  # noqa: PT012 - one of them is the first
        for _ in range(20):
            scene.push(20)
            time.sleep(0.1)
    scene.world.store.limit_disk(None)
    wait_until(lambda: _writable(scene), what="writes again")
    scene.world.store.rewrite()
    _grow(scene)
    scene.world.store.stop()
    scene.world.store.start()

    scene.assert_kept()


def test_while_postgresql_is_down_turns_wait(tmp_path: Path) -> None:
    binaries = postgres_bin()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="turnmill-postgres-"))
    with Postgres(folder, binaries) as server:
        url = server.create("chaos")
        with World(tmp_path / "world", archive_url=url) as world:
            world.fleet.add()
            world.fleet.wait()
            scene = Scene(world, "s")
            _grow(scene)
            server.stop()
            scene.fill()
            scene.committed(2)
            server.start()
            scene.archived()
            scene.assert_kept()
            scene.close()


def _grow(scene: Scene) -> None:
    """Push so much that turns are compacted and archived."""
    version = scene.info.version
    scene.fill()
    scene.committed(version + 1)
    scene.archived()


def _archived(scene: Scene) -> set[str]:
    found = read_archive(scene.world.archive_url, scene.world.namespace, scene.session)
    return {place.turn for place in found}


def _writable(scene: Scene) -> bool:
    with scene.world.store.admin() as client:
        return bool(client.info("persistence")["aof_last_write_status"] == "ok")
