"""``turnmill replay``: recorded conversations through the pipeline, every context checked."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmill.connection.credentials import with_password
from turnmill.contract.context import JsonMessage
from turnmill.contract.policy import Policy
from turnmill.read.context import Context
from turnmill_cli.conversations import BadInput, Conversation, load, shape
from turnmill_cli.exit_codes import WrongUsage
from turnmill_cli.local.temporary_pipeline import LocalPipeline, local_pipeline
from turnmill_cli.options import (
    BrokerPasswordFile,
    BrokerUrl,
    Connection,
    JsonFlag,
    RedisPasswordFile,
)
from turnmill_cli.output import CommandFailed, print_json, print_line, print_note, stdout
from turnmill_cli.policy_options import PolicyOptions
from turnmill_cli.progress import progress
from turnmill_cli.replay.run import ReplaySettings, run_agents
from turnmill_cli.replay.scorecard import Scorecard, table
from turnmill_cli.setting import setting

__all__ = ["replay", "report"]


@dataclass(frozen=True, slots=True)
class RecordedOptions:
    """The sessions to play."""

    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="JSONL files, or .jsonl.gz: each line is an object with `messages`.",
            show_default=False,
        ),
    ]
    repeat: Annotated[int, typer.Option(min=1, help="Play each session this many times.")] = 1
    join: Annotated[int, typer.Option(min=1, help="Join this many sessions into a long one.")] = 1
    limit: Annotated[int | None, typer.Option(min=1, help="Play only this many sessions.")] = None

    def sessions(self) -> list[Conversation]:
        """The conversations of the files, in the shape that was asked for."""
        return shape(_loaded(self.files), limit=self.limit, join=self.join, repeat=self.repeat)


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline to replay through."""

    redis_url: Annotated[
        str,
        setting(
            "--redis-url",
            "URL",
            "Use the pipeline that runs at this Redis. Without this option, one is started, and "
            "stopped afterwards.",
            panel="Options",
        ),
    ] = ""
    redis_password_file: RedisPasswordFile = None
    broker_url: BrokerUrl = ""
    broker_password_file: BrokerPasswordFile = None
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            help="Worker processes to start. 0: contexts are only cut by reads.",
        ),
    ] = 2
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Namespace to play in. Default: a new one.")
    ] = None
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not forget the sessions; needs --redis-url.")
    ] = False

    @property
    def has_workers(self) -> bool:
        """Whether there are workers."""
        return bool(self.redis_url or self.workers)

    @property
    def broker(self) -> str:
        """The URL of its broker, with the password; empty when that is the same Redis."""
        return with_password(self.broker_url, self.broker_password_file) if self.redis_url else ""

    @contextmanager
    def running(self) -> Iterator[LocalPipeline]:
        """The pipeline at the URL, or one that lives as long as the block.

        Raises:
            WrongUsage: sessions are to stay in a Redis that does not.
        """
        if self.redis_url:
            there = Connection(self.redis_url, redis_password_file=self.redis_password_file)
            there.check()
            yield LocalPipeline(there.store)
        elif self.keep:
            raise WrongUsage("--keep needs --redis-url: a Redis that replay starts ends with it")
        else:
            with local_pipeline(workers=self.workers) as started:
                yield started


@dataclass(frozen=True, slots=True)
class PolicyFileOptions(PolicyOptions):
    """Options of a policy where there is no namespace with policies by name."""

    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="A policy as a JSON file: a path that contains a / or ends in .json.",
            show_default=False,
        ),
    ] = ""


@dataclass(slots=True)
class RecordedAgent:
    """An agent that says what was recorded, whatever it reads."""

    conversation: Conversation
    said: int = 0

    @property
    def name(self) -> str:
        """The session's name."""
        return self.conversation.name

    @property
    def system_prompt(self) -> str:
        """As recorded."""
        return self.conversation.system_prompt

    def next(self, seen: Context | None) -> JsonMessage | None:  # noqa: ARG002
        """The next recorded message."""
        if self.said == len(self.conversation.messages):
            return None
        self.said += 1
        return self.conversation.messages[self.said - 1]


def replay(
    recorded: RecordedOptions,
    *,
    pipeline: PipelineOptions,
    options: PolicyFileOptions,
    agents: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 50,
    pace: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="MS",
            help="Pause between an agent's steps; the agents' steps are spread over it. 0: all "
            "agents step at the same instant, and wait for each other.",
        ),
    ] = 0,
    settle: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Longest wait for the workers at the end."),
    ] = 30.0,
    as_json: JsonFlag = False,
) -> None:
    """Play recorded conversations through the pipeline and check every context that is read.

    Exits with 1 if a context was over its limit or invalid, or a turn was lost, doubled or altered.
    """
    policy = options.build(Policy, _no_policies_by_name)
    sessions = recorded.sessions()
    with pipeline.running() as running:
        settings = ReplaySettings(
            redis_url=running.redis_url,
            broker_url=pipeline.broker,
            namespace=pipeline.namespace or f"replay-{uuid.uuid4().hex[:8]}",
            policy=policy,
            concurrency=agents,
            pace_s=pace / 1000,
            settle_s=settle if pipeline.has_workers else 0.0,
            keep=pipeline.keep,
            has_workers=pipeline.has_workers,
        )
        steps = sum(len(session.messages) for session in sessions)
        with progress("replaying", steps) as on_steps:
            played = [RecordedAgent(session) for session in sessions]
            card, _ = run_agents(settings, played, on_steps=on_steps)
        dead = running.dead
    report(card, title=f"replay at {policy.hard_limit:,} tokens", as_json=as_json, dead=dead)
    if pipeline.keep:
        print_note(f"The sessions stay: turnmill sessions --namespace {settings.namespace}")
    raise typer.Exit(0 if card.ok else 1)


def report(card: Scorecard, *, title: str, as_json: bool, dead: list[str]) -> None:
    """Print a scorecard, and what went wrong, if anything did."""
    if as_json:
        print_json(card.to_json())
    else:
        stdout().print(table(card, title=title))
        for session, kind, where in card.examples:
            print_line(f"{kind}: {session}: {where}", "red")
    for name in dead:
        print_note(f"{name} ended before the replay did")


def _no_policies_by_name(name: str) -> Policy:
    raise CommandFailed(
        f"--policy {name}: give a file, by a path that contains a / or ends in .json"
    )


def _loaded(files: list[Path]) -> list[Conversation]:
    if found := list(load(files)):
        return found
    raise BadInput(f"{files[0]}: no conversations in it")
