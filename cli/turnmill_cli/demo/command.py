"""``turnmill demo``: concurrent tool-using agents through the whole pipeline, without a key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill_cli.replay.command import Json, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnmill_cli.demo.agents import ScriptedAgent

__all__ = ["register"]

Agents = Annotated[int, typer.Option(min=1, help="Agents at a time.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps each of them takes, at least.")]
Pace = Annotated[
    int, typer.Option(min=0, metavar="MS", help="Pause between an agent's steps: it thinks.")
]
MaxTokens = Annotated[int, typer.Option(help="The policy's hard limit.")]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes.")]
Flower = Annotated[bool, typer.Option("--flower/--no-flower", help="Start Flower on loopback.")]
Settle = Annotated[
    float, typer.Option(min=0, metavar="S", help="Longest wait for the workers at the end.")
]
Hold = Annotated[bool, typer.Option("--hold", help="Keep everything up until Ctrl-C.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="demo")(demo)


def demo(
    *,
    agents: Agents = 50,
    steps: Steps = 200,
    pace: Pace = 200,
    max_tokens: MaxTokens = 8000,
    workers: Workers = 2,
    flower: Flower = True,
    settle: Settle = 60.0,
    hold: Hold = False,
    as_json: Json = False,
) -> None:
    """Run scripted agents that really work with tools, and check every context they read.

    They explore this Python's standard library. Exits with 1 when a promise was broken, like
    `turnmill replay`, whose checks these are.
    """
    from turnmill import Policy  # noqa: PLC0415
    from turnmill_cli.demo.agents import ScriptedAgent  # noqa: PLC0415
    from turnmill_cli.demo.before_after import most_telling, show_compaction  # noqa: PLC0415
    from turnmill_cli.local.pipeline_processes import local_pipeline  # noqa: PLC0415
    from turnmill_cli.output import print_note  # noqa: PLC0415
    from turnmill_cli.replay.performance import Performance, perform, progress  # noqa: PLC0415

    policy = Policy(max_tokens=max_tokens)
    crowd = [ScriptedAgent(index, steps=steps) for index in range(1, agents + 1)]
    print_note(f"Starting Redis and {workers} workers …")
    with local_pipeline(workers=workers, flower=flower) as running:
        if running.flower_url:
            print_note(f"Flower: {running.flower_url}")
        how = Performance(
            redis_url=running.redis_url,
            namespace="demo",
            policy=policy,
            concurrency=agents,
            pace_s=pace / 1000,
            settle_s=settle,
            keep=hold,
        )
        with progress(f"{agents} agents", agents * steps) as on_steps:
            card, runs = perform(how, crowd, on_steps=on_steps)
        report(card, title=f"demo: {agents} agents", as_json=as_json, dead=running.dead)
        if not as_json:
            show_compaction(most_telling(runs))
            _say_how_reads_were_used(crowd)
        if hold:
            _hold(running.redis_url, running.flower_url)
    raise typer.Exit(0 if card.ok else 1)


def _say_how_reads_were_used(crowd: Sequence[ScriptedAgent]) -> None:
    from turnmill_cli.output import stdout  # noqa: PLC0415

    found = sum(agent.desk.found for agent in crowd)
    again = sum(agent.desk.asked_again for agent in crowd)
    stdout().print(
        f"Agents chose what to do next from a result they read back {found:,} times; "
        f"{again:,} times it was no longer whole, and they asked the tool again."
    )


def _hold(redis_url: str, flower_url: str) -> None:
    from turnmill_cli.output import print_note  # noqa: PLC0415

    print_note(f"Redis: {redis_url}   Flower: {flower_url or 'not started'}   Ctrl-C ends both.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print_note("Ending …")
