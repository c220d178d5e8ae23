from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.commands import run
from turnmill import Context
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations
from turnmill.contract.names import Seq, SessionId, Version
from turnmill_cli.demo import ScriptedAgent, run_tool


def work(agent: ScriptedAgent, *, forgets: bool = False) -> list[JsonMessage]:
    """Everything it pushes, when each read holds all it pushed, or only the newest message."""
    messages: list[JsonMessage] = []
    seen: Context | None = None
    while (message := agent.next(seen)) is not None:
        messages.append(message)
        seen = Context(
            messages=[] if forgets and message["role"] == "user" else list(messages),
            session=SessionId(agent.name),
            version=Version(0),
            watermark=Seq(0),
            last_seq=Seq(len(messages)),
            tokens=0,
            exact=False,
        )
    return messages


@pytest.mark.parametrize("forgets", [False, True])
def test_agents_say_what_a_provider_accepts_and_ask_again_for_what_is_gone(
    *, forgets: bool
) -> None:
    agents = [ScriptedAgent(index, steps=60) for index in range(1, 6)]

    said = [work(agent, forgets=forgets) for agent in agents]

    assert [violations(messages) for messages in said] == [[]] * 5
    assert min(map(len, said)) >= 60
    assert any(agent.workbench.asked_again for agent in agents) or not forgets
    results = [str(m["content"]) for messages in said for m in messages if m["role"] == "tool"]
    assert max(map(len, results)) > 3000
    assert not any(result.startswith("error") for result in results)


def test_agents_are_repeatable_and_different_from_one_another() -> None:
    first, again, other = (work(ScriptedAgent(index, steps=40)) for index in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize("path", ["../../../etc/passwd", "no_such_module.py", "json"])
def test_tools_answer_with_an_error_what_they_cannot_read(path: str) -> None:
    assert run_tool("read_file", {"path": path}).startswith("error: ")


@pytest.mark.worker
def test_a_demo_alone_starts_all_it_needs_and_breaks_no_promise(tmp_path: Path) -> None:
    size = ("--agents", 3, "--steps", 30, "--max-tokens", 4000, "--pace", 5)

    ran = run(tmp_path, "demo", "--alone", *size, "--workers", 1, "--no-flower", "--json")

    assert ran.exit_code == 0, ran
    assert ran.json["sessions"] == 3
    assert sum(ran.json["compactions"].values()) > 0
