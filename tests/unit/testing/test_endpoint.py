"""The fake endpoint is one to real clients, and fails as it is told."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
import typer
from typer.testing import CliRunner

from turnmill.testing import Fault
from turnmill.testing.faults import Faults
from turnmill_cli.app import app


def test_faults_by_chance_are_repeatable_and_as_many_as_asked_for() -> None:
    shares: dict[Fault, float] = {"500": 0.2, "timeout": 0.1}
    drawn = [[Faults((), shares, seed).draw() for _ in range(1)] for seed in range(3)]
    again = [[Faults((), shares, seed).draw() for _ in range(1)] for seed in range(3)]
    many = Faults((), shares, seed=1)
    counted = Counter(many.draw() for _ in range(5_000))

    assert drawn == again
    assert 0.17 < counted["500"] / 5_000 < 0.23
    assert 0.08 < counted["timeout"] / 5_000 < 0.12


# --- the command -------------------------------------------------------------------------------


def test_the_command_serves_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupted(_: float) -> None:
        url = urlsplit(shown[0])
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        connection.request("GET", "/v1/models")
        seen.append(connection.getresponse().status)
        connection.close()
        raise KeyboardInterrupt

    shown: list[str] = []
    monkeypatch.setattr(time, "sleep", interrupted)
    monkeypatch.setattr(typer, "echo", shown.append)
    outcome = CliRunner().invoke(
        app, ["fake-llm", "--port", "0", "--latency", "0", "--fault", "500=0.1"]
    )

    assert outcome.exit_code == 0
    assert seen == [200]
