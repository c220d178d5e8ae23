"""``turnmill demo``: concurrent tool-using agents through the whole pipeline, without a key."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmill.contract.policy import Policy
from turnmill_cli.archive_database import UP_DATA_DIR
from turnmill_cli.demo.agents import ScriptedAgent
from turnmill_cli.demo.before_after import most_telling, show_compaction
from turnmill_cli.local.lock import running_in
from turnmill_cli.local.temporary_pipeline import LocalPipeline, local_pipeline
from turnmill_cli.options import JsonFlag
from turnmill_cli.output import count, print_line, print_note
from turnmill_cli.progress import progress
from turnmill_cli.replay.command import report
from turnmill_cli.replay.concurrent_agents import AgentSession
from turnmill_cli.replay.run import ReplaySettings, run_agents
from turnmill_cli.replay.scorecard import Scorecard
from turnmill_cli.setting import setting

__all__ = ["demo"]

SETTLE_S = 60.0
"""Longest wait for the workers at the end."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline that the agents work with."""

    workers: Annotated[int, typer.Option(min=1, help="Worker processes to start.")] = 2
    flower: Annotated[bool, typer.Option(help="Run Flower, which shows the jobs.")] = True
    data_dir: Annotated[
        Path, setting("--data-dir", "DIR", "Of the `turnmill up` to join.", panel="", shown=True)
    ] = UP_DATA_DIR
    alone: Annotated[
        bool, typer.Option("--alone", help="Join no `turnmill up`: start everything anew.")
    ] = False

    @contextmanager
    def running(self) -> Iterator[LocalPipeline]:
        """That of a `turnmill up`, or one for as long as the block."""
        joined = None if self.alone else running_in(self.data_dir)
        if joined:
            print_note(f"Joining the `turnmill up` at {joined.redis_url} …")
            yield LocalPipeline(joined.redis_url, flower_url=joined.flower_url)
            return
        print_note(f"Starting Redis and {count(self.workers, 'worker')} …")
        with local_pipeline(workers=self.workers, flower=self.flower) as running:
            yield running


def demo(
    *,
    pipeline: PipelineOptions,
    agents: Annotated[int, typer.Option(min=1, help="Agents at a time.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each agent, at least.")] = 200,
    pace: Annotated[
        int,
        typer.Option(min=0, metavar="MS", help="Pause between an agent's steps, as if it thought."),
    ] = 200,
    max_tokens: Annotated[int, typer.Option(help="The policy's hard limit.")] = 8000,
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Keep the sessions, and what it started until Ctrl-C."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run scripted agents that really work with tools, and check every context they read.

    They explore the standard library of this Python. Exits with 1 if a promise was broken; the
    checks are those of `turnmill replay`. Where `turnmill up` runs in the same folder, its workers
    do the work and its Flower shows it; else the demo starts all it needs.
    """
    crowd = [ScriptedAgent(index, steps=steps) for index in range(1, agents + 1)]
    with pipeline.running() as running:
        if running.flower_url:
            print_note(f"Flower: {running.flower_url}")
        settings = ReplaySettings(
            redis_url=running.redis_url,
            namespace=_namespace(stays=hold and not running.supervisor),
            policy=Policy(max_tokens=max_tokens),
            concurrency=agents,
            pace_s=pace / 1000,
            settle_s=SETTLE_S,
            keep=hold,
        )
        with progress(count(agents, "agent"), agents * steps) as on_steps:
            card, sessions = run_agents(settings, crowd, on_steps=on_steps)
        _report(card, sessions, crowd, as_json=as_json, dead=running.dead)
        if hold:
            _hold(running, f"--namespace {settings.namespace}")
    raise typer.Exit(0 if card.ok else 1)


def _namespace(*, stays: bool) -> str:
    """Sessions that stay at a `turnmill up` must not be in the way of its next demo."""
    return f"demo-{os.getpid()}" if stays else "demo"


def _report(
    card: Scorecard,
    sessions: Sequence[AgentSession],
    crowd: Sequence[ScriptedAgent],
    *,
    as_json: bool,
    dead: list[str],
) -> None:
    report(card, title=f"demo: {count(len(crowd), 'agent')}", as_json=as_json, dead=dead)
    if not as_json:
        show_compaction(most_telling(sessions))
        _say_how_reads_were_used(crowd)


def _say_how_reads_were_used(crowd: Sequence[ScriptedAgent]) -> None:
    found = sum(agent.workbench.found for agent in crowd)
    again = sum(agent.workbench.asked_again for agent in crowd)
    print_line(
        f"{found:,} times an agent chose its next step by a tool result that it read back. "
        f"{again:,} times the result was no longer whole, and the agent asked the tool again."
    )


def _hold(running: LocalPipeline, options: str) -> None:
    """Say how to look at the sessions; what the demo started stays until Ctrl-C."""
    if running.supervisor:
        options += f" --redis-url {running.redis_url}"
    print_note(f"The sessions stay. List them: turnmill sessions {options}")
    print_note(f"Make a page of one: turnmill visualize agent-01 {options}")
    if not running.supervisor:
        return
    print_note(f"Redis: {running.redis_url}   Flower: {running.flower_url or 'not started'}")
    print_note("Ctrl-C ends both.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print_note("Ending …")
