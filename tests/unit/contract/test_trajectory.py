"""A trajectory is JSON that loads back, whatever was said in it."""

from __future__ import annotations

import pytest

from turnmill import Trajectory
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.trajectory import TrajectoryTurn


@pytest.mark.parametrize(
    ("said", "loaded"),
    [
        ("plain", "plain"),
        ("héllo 🎈 漢字", "héllo 🎈 漢字"),
        ("a nul \x00 and a bell \x07", "a nul \x00 and a bell \x07"),
        ("half of a 🎈: \ud83c", "half of a 🎈: ?"),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_trajectory_loads_back_from_its_json(said: str, loaded: str, indent: int | None) -> None:
    trajectory = Trajectory(
        session=SessionId("s"),
        namespace=Namespace("n"),
        turns=(TrajectoryTurn(seq=Seq(1), messages=({"role": "user", "content": said},)),),
    )

    text = trajectory.model_dump_json(indent=indent)

    [turn] = Trajectory.model_validate_json(text).turns
    assert turn.messages == ({"role": "user", "content": loaded},)
    assert ("\n" in text) == (indent is not None)
