from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.replay.commands import run
from turnmill import Context
from turnmill.contract.context import JsonMessage
from turnmill.contract.legality import violations
from turnmill.contract.names import Seq, SessionId, Version
from turnmill_cli import demo
from turnmill_cli.demo import ScriptedAgent, run_tool, show_compaction


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


def test_an_agent_says_what_a_provider_accepts_and_ends_no_task_midway() -> None:
    messages = work(ScriptedAgent(1, steps=60))

    assert violations(messages) == []
    assert len(messages) >= 60
    assert messages[-1]["role"] == "assistant"
    assert not messages[-1].get("tool_calls")


def test_agents_are_repeatable_and_different_from_one_another() -> None:
    first, again, other = (work(ScriptedAgent(index, steps=40)) for index in (1, 1, 2))

    assert first == again
    assert first != other


def test_agents_call_tools_in_parallel_and_get_real_results() -> None:
    messages = [m for index in range(1, 6) for m in work(ScriptedAgent(index, steps=60))]
    calls = [len(m["tool_calls"]) for m in messages if m.get("tool_calls")]
    results = [str(m["content"]) for m in messages if m["role"] == "tool"]

    assert max(calls) > 2
    assert max(map(len, results)) > 3000
    assert not any(result.startswith("error") for result in results)


def test_an_agent_asks_again_for_what_its_context_no_longer_holds() -> None:
    agents = [ScriptedAgent(index, steps=60) for index in range(1, 6)]

    for agent in agents:
        assert violations(work(agent, forgets=True)) == []

    assert sum(agent.workbench.asked_again for agent in agents) > 0


@pytest.mark.parametrize("path", ["../../../etc/passwd", "no_such_module.py", "json"])
def test_tools_answer_with_an_error_what_they_cannot_read(path: str) -> None:
    assert run_tool("read_file", {"path": path}).startswith("error: ")


def test_messages_are_cut_where_a_narrow_terminal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(demo, "stdout", lambda: Console(width=60, file=shown))
    messages = [{"role": "assistant", "content": "word " * 90}]
    checked = SimpleNamespace(context=SimpleNamespace(version=1, messages=messages), tokens=90)
    session: Any = SimpleNamespace(agent=SimpleNamespace(name="a"), compacted=(checked, checked))

    show_compaction(session)

    rows = [line for line in shown.getvalue().splitlines() if line.startswith("assistant ")]
    assert [(len(row), row[-1]) for row in rows] == [(60, "…")] * 2


@pytest.mark.worker
def test_a_small_demo_ends_with_zeros_and_shows_a_compaction(tmp_path: Path) -> None:
    ran = run(
        *(tmp_path, "demo", "--agents", 4, "--steps", 50, "--max-tokens", 4000),
        *("--workers", 1, "--no-flower", "--pace", 5),
    )

    assert ran.exit_code == 0, ran.stdout + ran.stderr
    assert "turns lost / doubled" in ran.stdout
    assert "before a compaction" in ran.stdout
    assert "after a compaction" in ran.stdout
