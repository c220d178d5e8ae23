"""``turnmill replay``: real conversations through the pipeline, every context checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from turnmill_cli.policy_options import Fields, MaxTokens, PolicyOptions, PresetName, no_names

if TYPE_CHECKING:
    from turnmill import Context, Policy
    from turnmill.contract.context import JsonMessage
    from turnmill_cli.conversations import Conversation
    from turnmill_cli.local.pipeline_processes import LocalPipeline
    from turnmill_cli.replay.scorecard import Scorecard

__all__ = ["Reader", "register", "report"]

WRONG_USAGE = 2

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…", help="JSONL, or .gz of it: an object with `messages` in each line."
    ),
]
RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis-url",
        metavar="URL",
        envvar="TURNMILL_REDIS_URL",
        help="A running pipeline; without it, one is started and ended afterwards.",
        show_default=False,
    ),
]
BrokerUrl = Annotated[
    str,
    typer.Option(
        "--broker-url",
        metavar="URL",
        envvar="TURNMILL_BROKER_URL",
        help="That pipeline's Celery broker, when it is not the same Redis.",
        show_default=False,
    ),
]
Workers = Annotated[
    int, typer.Option(min=0, help="Worker processes to start when there is no URL.")
]
NoWorkers = Annotated[bool, typer.Option("--no-workers", help="Start none: every cut is a read's.")]
Agents = Annotated[int, typer.Option(min=1, help="Sessions at a time.")]
Pace = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="MS",
        help="Pause between an agent's steps, which are spread over it; 0: all step at one instant "
        "and wait for one another.",
    ),
]
Repeat = Annotated[int, typer.Option(min=1, help="Play each session so many times.")]
Join = Annotated[int, typer.Option(min=1, help="Join so many sessions into one long one.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Play only the first so many sessions.")]
Namespace = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose sessions; by default a fresh namespace.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the sessions where they are.")]
PolicyFile = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="A policy as a JSON object: a path with a / or ending in .json.",
        show_default=False,
    ),
]
Settle = Annotated[
    float, typer.Option(min=0, metavar="S", help="Longest wait for the workers at the end.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]


@dataclass(slots=True)
class Reader:
    """An agent that says what somebody said before, whatever it reads."""

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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="replay")(replay)


def replay(
    files: Files,
    *,
    redis_url: RedisUrl = "",
    broker_url: BrokerUrl = "",
    workers: Workers = 2,
    no_workers: NoWorkers = False,
    agents: Agents = 50,
    pace: Pace = 0,
    repeat: Repeat = 1,
    join: Join = 1,
    limit: Limit = None,
    namespace: Namespace = None,
    keep: Keep = False,
    policy: PolicyFile = "",
    preset: PresetName = None,
    max_tokens: MaxTokens = None,
    fields: Fields = None,
    settle: Settle = 30.0,
    as_json: Json = False,
) -> None:
    """Play recorded conversations through the pipeline and check every context that is read.

    Exits with 1 when a context was over its limit or invalid, or a turn lost, doubled or altered.
    """
    from turnmill_cli.conversations import shape  # noqa: PLC0415
    from turnmill_cli.replay.performance import Performance, perform, progress  # noqa: PLC0415

    chosen = _policy(
        PolicyOptions(
            policy=policy, preset=preset, max_tokens=max_tokens, fields=tuple(fields or ())
        )
    )
    sessions = shape(_loaded(files), limit=limit, join=join, repeat=repeat)
    steps = sum(len(session.messages) for session in sessions)
    with _pipeline(redis_url, 0 if no_workers else workers) as running:
        how = Performance(
            redis_url=running.redis_url,
            broker_url=broker_url if redis_url else "",
            namespace=namespace,
            policy=chosen,
            concurrency=agents,
            pace_s=pace / 1000,
            settle_s=settle if running.children or redis_url else 0.0,
            keep=keep,
            served=bool(running.children or redis_url),
        )
        with progress("replaying", steps) as on_steps:
            card, _ = perform(how, [Reader(session) for session in sessions], on_steps=on_steps)
        dead = running.dead
    report(card, title=f"replay at {chosen.hard_limit:,} tokens", as_json=as_json, dead=dead)
    raise typer.Exit(0 if card.ok else 1)


def _policy(options: PolicyOptions) -> Policy:
    """The policy, made of the built-in default where nothing else is given.

    Raises:
        InvalidPolicy: names the field.
    """
    from turnmill import Policy  # noqa: PLC0415

    return options.build(Policy, no_names)


def report(card: Scorecard, *, title: str, as_json: bool, dead: list[str]) -> None:
    """Print a scorecard, and what went wrong, if anything did."""
    from turnmill_cli.output import print_json, print_note, stdout  # noqa: PLC0415
    from turnmill_cli.replay.scorecard import table  # noqa: PLC0415

    if as_json:
        print_json(card.to_json())
    else:
        stdout().print(table(card, title=title))
        for session, kind, where in card.examples:
            stdout().print(f"{kind}: {session}: {where}", style="red", markup=False)
    for name in dead:
        print_note(f"{name} ended before the replay did")


@contextmanager
def _pipeline(redis_url: str, workers: int) -> Iterator[LocalPipeline]:
    """The pipeline at this URL, or one that lives as long as the block."""
    from turnmill_cli.local.pipeline_processes import LocalPipeline, local_pipeline  # noqa: PLC0415
    from turnmill_cli.options import check_redis_url  # noqa: PLC0415

    if redis_url:
        check_redis_url(redis_url)
        yield LocalPipeline(redis_url)
    else:
        with local_pipeline(workers=workers) as running:
            yield running


def _loaded(files: list[Path]) -> list[Conversation]:
    from turnmill_cli.conversations import BadInput, load  # noqa: PLC0415

    try:
        found = list(load(files))
    except BadInput as error:
        _refuse(str(error))
    if not found:
        _refuse(f"{files[0]}: no conversations in it")
    return found


def _refuse(why: str) -> NoReturn:
    from turnmill_cli.output import CommandFailed, print_error  # noqa: PLC0415

    print_error(CommandFailed(why))
    raise typer.Exit(WRONG_USAGE)
