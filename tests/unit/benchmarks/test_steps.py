"""The parts of the step workload that could be wrong without anybody seeing it."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.steps.agents import HOMES, PEERS
from benchmarks.steps.cases import TABLES, Case, repeated
from benchmarks.steps.idle import Idle
from benchmarks.steps.load import Load, Outcome, run
from benchmarks.steps.measure import Run, Setup, count_contexts
from benchmarks.steps.page import between_markers, section
from benchmarks.steps.plots import draw_blocked, draw_cpu
from benchmarks.steps.results import Results
from benchmarks.steps.tables import blocked, by_role, table
from benchmarks.steps.turns import Turn, mark, turns

LOAD = Load(agents=2, turns=3)


def made(name: str, *, agents_ms: float, waits: Sequence[float] = (1.0, 2.0, 3.0)) -> Run:
    notes = {"lost": 1, "over": 0} if name == "turnmill" else {}
    return Run(
        name=name,
        load=LOAD,
        setup=Setup(),
        outcome=Outcome(blocked_ms=list(waits), wall_s=1.0, reads=4, projected=1, notes=notes),
        cpu_ms={"agents": agents_ms, "redis": 0.5, "prefork": 1.0, "prefork children": 2.0},
        settled_s=0.5,
        asked=7,
    )


def test_the_same_session_says_the_same_and_no_other_does() -> None:
    assert turns(3, 20) == turns(3, 20)
    assert turns(3, 20) != turns(4, 20)


def test_turns_have_some_800_characters_and_none_is_like_the_other() -> None:
    texts = [json.dumps(turn) for session in range(20) for turn in turns(session, 100)]

    assert 700 < statistics.mean(map(len, texts)) < 1_000
    assert len(set(texts)) == len(texts)


def test_every_turn_has_its_mark_and_every_call_its_result() -> None:
    for at, turn in enumerate(turns(5, 40), 1):
        assert mark(5, at) in json.dumps(turn)
        calls = [call["id"] for message in turn for call in message.get("tool_calls", ())]
        assert calls == [m["tool_call_id"] for m in turn if m["role"] == "tool"]


class Listening:
    """A memory that remembers what it was given."""

    def __init__(self) -> None:
        self.windows: dict[str, int] = {}
        self.seen: list[tuple[str, list[Turn]]] = []

    async def open(self, session: str, window: int) -> None:
        self.windows[session] = window

    def prepare(self, turn: Turn) -> Turn:
        return turn

    async def step(self, session: str, prepared: Sequence[Turn]) -> bool:
        self.seen.append((session, list(prepared)))
        return len(self.seen) == 1

    async def finish(self, sessions: Sequence[str]) -> dict[str, Any]:
        return {"sessions": len(sessions)}


@pytest.mark.parametrize(("burst", "writers"), [(1, 1), (3, 1), (1, 2), (2, 3)])
async def test_agents_push_every_turn_once(burst: int, writers: int) -> None:
    memory = Listening()
    load = Load(agents=3, turns=7, think_s=0.0, burst=burst, writers=writers, window=4096)
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    go.set_result(None)

    outcome = await run(memory, load, go)

    for at in range(3):
        pushed = [turn for name, group in memory.seen if name == f"agent-{at}" for turn in group]
        assert sorted(map(json.dumps, pushed)) == sorted(map(json.dumps, turns(at, 7)))
    assert max(len(group) for _, group in memory.seen) == burst
    assert outcome.reads == len(outcome.blocked_ms) == len(memory.seen)
    assert outcome.projected == 1
    assert set(memory.windows.values()) == {4096}


async def test_an_agent_goes_on_after_a_step_that_failed_and_the_run_tells_of_it() -> None:
    class Failing(Listening):
        async def step(self, session: str, prepared: Sequence[Turn]) -> bool:
            await super().step(session, prepared)
            if len(self.seen) == 2:
                raise TimeoutError("slow")
            return False

    memory = Failing()
    go: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    go.set_result(None)

    outcome = await run(memory, Load(agents=1, turns=5, think_s=0.0), go)

    assert len(memory.seen) == len(outcome.blocked_ms) == 5
    assert (outcome.reads, outcome.failed) == (4, 1)
    assert outcome.errors == ["TimeoutError('slow')"]


def test_a_load_survives_its_way_to_another_process() -> None:
    assert Load.from_json(LOAD.as_json()) == LOAD


def test_percentiles_are_of_all_steps() -> None:
    assert blocked(range(101)) == (50, 95, 99, 100)


def test_cpu_is_told_apart_by_role_and_the_model_costs_nobody() -> None:
    spent = {"agents": 1.0, "redis": 2.0, "estimate": 3.0, "estimate children": 4.0}
    spent |= {"summarize": 5.0, "endpoint": 100.0}

    assert by_role(spent) == {
        "agents": 1.0,
        "worker main": 8.0,
        "worker children": 4.0,
        "redis": 2.0,
    }


def test_a_row_is_the_median_of_its_runs_against_the_floor_before_it() -> None:
    runs = [made("turnmill", agents_ms=each) for each in (1.0, 2.5, 100.0)]

    *_, row = table({"floor": [made("floor", agents_ms=0.0)], "ours": runs})

    assert "2.50 + 1.00 + 2.00 + 0.50" in row
    assert "| 6.00 | 1.0x, 1.0x, 1.7x | 25.0% |" in row
    assert row.endswith("|  | 3 | 0 | 0 |")


def test_a_turn_is_lost_that_no_context_and_no_model_was_shown() -> None:
    notes: dict[str, Any] = {
        "contexts": ["word " * 50],
        "last": [mark(0, 1), f"{mark(0, 2)}{mark(1, 3)}"],
    }

    count_contexts(notes, Load(agents=2, turns=3, window=40), [mark(0, 3), mark(1, 1)])

    assert notes == {"looked_at": 3, "over": 1, "lost": 1}


def test_rounds_are_interleaved_and_only_peers_have_their_own_interpreter() -> None:
    asked: list[tuple[str, bool]] = []

    def measure(name: str, load: Load, _setup: Setup, python: str) -> Run:
        asked.append((name, python == "peers"))
        return made(name, agents_ms=load.agents)

    cases = [Case(label=name, name=name, load=LOAD) for name in ("floor", "langmem")]
    labels = [label for label, _ in repeated(cases, 2, "peers", measure)]

    assert labels == ["floor", "langmem"] * 2
    assert asked == [("floor", False), ("langmem", True)] * 2


def test_all_that_is_compared_is_known() -> None:
    assert set(PEERS) < set(HOMES)
    assert {case.name for each in TABLES.values() for case in each.cases} <= set(HOMES)


@pytest.fixture
def results() -> Results:
    idle = Idle(namespaces=1, seconds=2.0, workers=0.01, redis=0.0, counted_ms=[1.0, 2.0])
    return Results(
        machines=dict.fromkeys(("main", "rate", "idle"), "a machine"),
        tables={"main": [(n, made(n, agents_ms=1.0)) for n in ("floor", "turnmill", "turnmill")]},
        rates=[(100, made("turnmill", agents_ms=1.0))],
        idles=[idle],
    )


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "build" / "steps.json"

    assert Results.read(path) == Results()
    results.write(path)

    assert Results.read(path) == results
    assert [len(runs) for runs in results.labelled("main").values()] == [1, 2]


def test_the_section_replaces_what_stands_between_the_markers(results: Results) -> None:
    page = "before\n<!-- steps: begin -->\nold\n<!-- steps: end -->\nafter\n"

    once = between_markers(page, "\n".join(section(results)))

    assert once.startswith("before\n<!-- steps: begin -->\n\n![")
    assert "### 32 agents, 8,192 tokens\n\na machine.\n\n| " in once
    assert once.endswith("<!-- steps: end -->\nafter\n")
    assert "old" not in once
    assert "| 100 | 6 |" in once
    assert "| 1 | 1.00% |" in once
    assert between_markers(once, "\n".join(section(results))) == once


def test_plots_are_small_and_the_same_again(results: Results, tmp_path: Path) -> None:
    for draw in (draw_blocked, draw_cpu):
        draw(results.labelled("main"), tmp_path / "one.svg")
        draw(results.labelled("main"), tmp_path / "two.svg")

        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        assert (tmp_path / "one.svg").stat().st_size < 60_000
