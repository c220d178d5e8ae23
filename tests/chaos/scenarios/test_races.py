"""Every known race, one after the other, against two real workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.scenarios import elsewhere, mastra
from tests.chaos.scene import Scene
from tests.chaos.world import World

pytestmark = [pytest.mark.worker, pytest.mark.slow]

Race = Callable[[Scene], None]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A process and a thread pool, both in a time zone of their own."""
    with World(tmp_path_factory.mktemp("races") / "world") as made:
        made.fleet.add(TZ="America/Los_Angeles")
        made.fleet.add(TZ="Asia/Kathmandu")
        made.fleet.wait()
        yield made


@pytest.mark.parametrize("race", mastra.RACES, ids=lambda race: race.__name__)
def test_mastra(race: Race, world: World) -> None:
    _play(race, world)


@pytest.mark.parametrize("race", elsewhere.RACES, ids=lambda race: race.__name__)
def test_elsewhere(race: Race, world: World) -> None:
    _play(race, world)


def _play(race: Race, world: World) -> None:
    scene = Scene(world, race.__name__[:40])
    try:
        race(scene)
        if "clear" not in race.__name__:  # what was cleared is not the session's any more
            scene.assert_kept()
    finally:
        scene.close()
