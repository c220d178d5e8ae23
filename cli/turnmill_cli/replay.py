"""``turnmill replay``: recorded conversations through the pipeline, every context checked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, get_args

import typer

from turnmill import (
    AsyncContextClient,
    Context,
    ContextClient,
    Policy,
    SilentWaker,
    SystemPromptTooLarge,
)
from turnmill.connection.credentials import with_password
from turnmill.connection.store_client import store_client
from turnmill.contract.context import JsonMessage
from turnmill.contract.names import Namespace
from turnmill.contract.render import system_message
from turnmill.contract.results import ContextInfo
from turnmill_cli.conversations import BadInput, Conversation, load, numbered
from turnmill_cli.local.processes import LocalPipeline, local_pipeline
from turnmill_cli.options import (
    BrokerPasswordFile,
    BrokerUrl,
    Connection,
    JsonFlag,
    PolicyOptions,
    RedisPasswordFile,
    setting,
)
from turnmill_cli.output import (
    CommandFailed,
    WrongUsage,
    field_table,
    print_json,
    print_line,
    print_note,
    print_table,
)
from turnmill_cli.progress import progress
from turnmill_cli.promises import (
    FAULTS,
    CheckedRead,
    Fault,
    FaultKind,
    TokenCache,
    Transcript,
    check_context,
    check_store,
    check_trajectory,
    fingerprint,
)
from turnmill_cli.redis_view import RedisView
from turnmill_worker.tokens import count_message, counter_for

# --- agents in rounds -----------------------------------------------------------------------------


class Agent(Protocol):
    """Whoever decides what is pushed next."""

    name: str
    system_prompt: str

    def next(self, seen: Context | None) -> JsonMessage | None:
        """The next message, given the context read after the last one; None when it is done."""


@dataclass(slots=True)
class AgentSession:
    """One agent's session so far.

    Attributes:
        refused: its system prompt left no room under the hard limit, and nothing was pushed.
        projected: how many of its reads were cut to the hard limit.
        last: its newest read, looked at.
        archived: how many of its turns were in the archive alone in the end.
    """

    agent: Agent
    transcript: Transcript
    refused: bool = False
    projected: int = 0
    faults: list[Fault] = field(default_factory=list)
    last: CheckedRead | None = None
    archived: int = 0

    def take(self, context: Context, *, hard_limit: int, count: TokenCache) -> None:
        """Check a read, and remember it as the last."""
        self.last = check_context(
            context, self.transcript, hard_limit=hard_limit, count=count, previous=self.last
        )
        self.projected += context.projection is not None
        self.faults += self.last.faults


@dataclass(frozen=True, slots=True)
class Players:
    """Runs agents side by side through one client; each pushes, reads, and has its read checked.

    Attributes:
        pace_s: seconds between an agent's steps; the agents begin one after the other within it.
        on_steps: told of each step.
    """

    client: AsyncContextClient
    policy: Policy
    count: TokenCache
    pace_s: float = 0.0
    on_steps: Callable[[int], object] = lambda _: None

    async def run(self, agents: Sequence[Agent], *, at_once: int) -> list[AgentSession]:
        """Run every agent to its end; returns their sessions in order."""
        places = asyncio.Semaphore(at_once)

        async def played(at: int, agent: Agent) -> AgentSession:
            async with places:
                await asyncio.sleep(self.pace_s * at / len(agents))
                return await self._played(agent)

        return list(await asyncio.gather(*(played(*each) for each in enumerate(agents))))

    async def _played(self, agent: Agent) -> AgentSession:
        session = AgentSession(agent, Transcript(agent.system_prompt))
        try:
            await self.client.open(agent.name, self.policy, agent.system_prompt or None)
        except SystemPromptTooLarge:
            session.refused = True
            return session
        while message := agent.next(session.last.context if session.last else None):
            pushed = await self.client.push(agent.name, message)
            session.transcript.add(pushed.seq, message)
            context = await self.client.read(agent.name)
            session.take(context, hard_limit=self.policy.hard_limit, count=self.count)
            self.on_steps(1)
            await asyncio.sleep(self.pace_s)
        return session


# --- what is stored in the end --------------------------------------------------------------------

_LOOK_EVERY_S = 0.05
TIMEOUT_S = 5.0
EXPORT_WITHIN_S = 60.0
"""Longest wait for one session's trajectory: workers may still be busy with the others."""

ARCHIVED_WITHIN_S = 10.0
"""Longest wait for the archive, of which workers think every third sweep; there may be none."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where the sessions of a replay are stored.

    Attributes:
        has_workers: there are workers, who move turns to the archive and tell what is there.
    """

    view: RedisView
    client: ContextClient
    has_workers: bool

    def settle(self, names: Sequence[str]) -> int:
        """Wait until no session waits for a worker; returns how many still do when time is up.

        What is covered should be in the archive by then: it is what the last checks look at.
        """
        within_s = SETTLE_S if self.has_workers else 0.0
        waiting = self._wait(names, _is_due, within_s)
        if self.has_workers:
            self._wait(names, lambda info: info.turns_covered > 0, ARCHIVED_WITHIN_S)
        return len(waiting)

    def _wait(
        self, names: Sequence[str], waits: Callable[[ContextInfo], bool], within_s: float
    ) -> Sequence[str]:
        """The sessions that still wait after ``within_s``."""
        deadline = time.monotonic() + within_s
        while names := [name for name in names if waits(self.client.info(name))]:
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_EVERY_S)
        return names


def _is_due(info: ContextInfo) -> bool:
    if info.policy.compact_when_idle_s and info.wait is None and (info.due_in_s or 0) > 0:
        return False  # only if it stays quiet
    return info.pending_for_s is not None or info.due_in_s is not None


@contextmanager
def connect(settings: ReplaySettings) -> Iterator[Store]:
    """Connections for looking at a namespace, closed after the block."""
    url, name, has_workers = settings.redis_url, settings.namespace, settings.has_workers
    broker = (settings.broker_url or url) if has_workers else SilentWaker()
    with (
        closing(store_client(url, TIMEOUT_S)) as plain,
        ContextClient(url, namespace=name, broker=broker) as client,
    ):
        yield Store(RedisView(plain, Namespace(name)), client, has_workers)


def check_session(
    store: Store, session: AgentSession, policy: Policy, count: TokenCache
) -> Counter[str]:
    """Read and check a session a last time, and its stored turns; returns commits by strategy."""
    name = session.agent.name
    stored = store.view.stored(name)
    pushed = {
        seq: fingerprint(list(messages)) for seq, messages in session.transcript.turns.items()
    }
    urls = _urls(session.transcript.messages)
    log = [(_seq(entry), _body(entry[1], urls)) for entry in stored.log]
    covered = [(int(fields[b"seq"]), _body(fields, urls)) for _, fields in stored.covered]
    if store.has_workers:
        # Asked after Redis was looked at: a turn that moves meanwhile is seen twice, never missed,
        # and the covered stream and the archive are one place to be in.
        whole = _trajectory(store, name)
        session.faults += check_trajectory(pushed, whole)
        there = {seq for seq, _ in (*log, *covered)}
        archived = [(seq, body) for seq, body in whole if seq not in there]
        session.archived = len(archived)
        covered += archived
    session.faults += check_store(pushed, log, covered, watermark=stored.watermark)
    session.take(store.client.read(name), hard_limit=policy.hard_limit, count=count)
    return Counter(record["strategy"] for record in stored.records)


def _trajectory(store: Store, name: str) -> list[tuple[int, bytes]]:
    """The session's turns as a worker tells them, from the log and the archive."""
    found = store.client.trajectory(name, timeout_s=EXPORT_WITHIN_S)
    return [
        (turn.seq, fingerprint(list(turn.messages))) for turn in found.turns if turn.state == "kept"
    ]


def _seq(entry: tuple[bytes, object]) -> int:
    return int(entry[0].partition(b"-")[0])


def _body(fields: Mapping[bytes, bytes], urls: Mapping[str, str]) -> bytes:
    messages = json.loads(fields[b"messages"])
    for part in _images(messages):
        stored = part["image_url"]["url"]
        # blob:<sha256>;<media type>;…
        sha256 = stored.removeprefix("blob:").partition(";")[0]
        part["image_url"]["url"] = urls.get(sha256, stored)
    return fingerprint(messages)


def _urls(messages: Iterable[JsonMessage]) -> dict[str, str]:
    """The data URLs of all images pushed, by the SHA-256 of their bytes."""
    found = {}
    for part in _images(messages):
        head, comma, data = part["image_url"]["url"].partition(";base64,")
        if head.startswith("data:") and comma:
            sha256 = hashlib.sha256(base64.b64decode(data)).hexdigest()
            found[sha256] = part["image_url"]["url"]
    return found


def _images(messages: Iterable[JsonMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                yield part


# --- what came of it ------------------------------------------------------------------------------

AT_ONCE = 50
SETTLE_S = 60.0
"""Longest wait for the workers after the last step."""

MOST_EXAMPLES = 20
"""Faults named one by one; the rest are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What came of running agents.

    Attributes:
        sessions: that were played; ``refused`` ones' system prompts leave no room under the limit.
        tokens_in: pushed, system prompts included; counted exactly.
        tokens_final: in the contexts read in the end.
        turns_archived: in the archive and no longer in Redis, in the end.
        compactions: commits, by strategy.
        reads_projected: reads cut to the hard limit because no worker had been there in time.
        unsettled: sessions that still waited for a worker at the end.
        faults: how many of each kind; every one of them must be 0.
        examples: the first faults as (session, kind, where), without content.
    """

    sessions: int
    refused: int
    turns: int
    tokens_in: int
    tokens_final: int
    turns_archived: int
    compactions: Mapping[str, int]
    reads_projected: int
    unsettled: int
    faults: Mapping[FaultKind, int]
    examples: Sequence[tuple[str, FaultKind, str]]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.faults.values())


def _findings(
    sessions: Sequence[AgentSession], commits: Mapping[str, int], count: TokenCache, unsettled: int
) -> Findings:
    live = [each for each in sessions if not each.refused]
    found = [(each.agent.name, *fault) for each in live for fault in each.faults]
    times = Counter(kind for _, kind, _ in found)
    return Findings(
        sessions=len(live),
        refused=len(sessions) - len(live),
        turns=sum(len(each.transcript.turns) for each in live),
        tokens_in=sum(_pushed_tokens(each.transcript, count) for each in live),
        tokens_final=sum(each.last.tokens for each in live if each.last),
        turns_archived=sum(each.archived for each in live),
        compactions=dict(sorted(commits.items())),
        reads_projected=sum(each.projected for each in live),
        unsettled=unsettled,
        faults={kind: times[kind] for kind in get_args(FaultKind)},
        examples=found[:MOST_EXAMPLES],
    )


def _pushed_tokens(transcript: Transcript, count: TokenCache) -> int:
    system = transcript.system_prompt
    messages = [*([system_message(system)] if system else []), *transcript.messages]
    return count.of(messages, [fingerprint(message) for message in messages])


def report(found: Findings, *, title: str, as_json: bool, dead: Sequence[str]) -> None:
    """Print what came of it, and what went wrong, if anything did."""
    if as_json:
        print_json({"ok": found.ok, **asdict(found)})
    else:
        print_line(title, "bold")
        table = field_table()
        for name, value in asdict(found).items():
            if name not in ("faults", "examples"):
                table.add_row(name.replace("_", " "), _shown(value))
        for kind, times in found.faults.items():
            style = "bold red" if times else None
            table.add_row(f"{FAULTS[kind]} (must be 0)", f"{times:,}", style=style)
        print_table(table)
        if found.refused:
            print_note("refused: the system prompt leaves no room under the limit")
        for session, kind, where in found.examples:
            print_line(f"{kind}: {session}: {where}", "red")
    for name in dead:
        print_note(f"{name} ended before the replay did")


def _shown(value: int | Mapping[str, int]) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(f"{name} {times:,}" for name, times in value.items()) or "0"


# --- a whole replay -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How agents are to be run.

    Attributes:
        redis_url, broker_url: of the pipeline; the broker is the same Redis when ``""``.
        namespace: whose sessions these become.
        pace_s: seconds between an agent's steps.
        keep: leave the sessions where they are.
        has_workers: the pipeline has workers.
    """

    redis_url: str
    broker_url: str = ""
    namespace: str
    policy: Policy
    at_once: int = AT_ONCE
    pace_s: float = 0.0
    keep: bool = False
    has_workers: bool = True


def run_agents(
    settings: ReplaySettings, agents: Sequence[Agent], *, on_steps: Callable[[int], object]
) -> Findings:
    """Run the agents, wait for the workers, check everything, forget the sessions.

    Raises:
        CommandFailed: a session of that name exists already; nothing was pushed.
        TurnmillError: what the pipeline raised.
    """
    policy = settings.policy
    counter = counter_for(policy.encoding, policy.image_formula)
    count = TokenCache(partial(count_message, counter))
    names = [agent.name for agent in agents]
    with connect(settings) as store, _forgotten_afterwards(store, names, keep=settings.keep):
        sessions = asyncio.run(_run(settings, agents, count, on_steps))
        live = [each for each in sessions if not each.refused]
        unsettled = store.settle([each.agent.name for each in live])
        commits: Counter[str] = Counter()
        for each in live:
            commits += check_session(store, each, policy, count)
    return _findings(sessions, commits, count, unsettled)


@contextmanager
def _forgotten_afterwards(store: Store, names: Sequence[str], *, keep: bool) -> Iterator[None]:
    """Sessions that must not exist before the block, and do not after it unless they are kept."""
    taken = set(names) & set(store.client.sessions())
    if taken:
        raise CommandFailed(
            f"namespace {store.client.namespace!r} already has {len(taken)} of these sessions, "
            f"such as {min(taken)!r}: forget them, or use another --namespace"
        )
    try:
        yield
    finally:
        for name in () if keep else names:
            store.client.forget(name)


async def _run(
    settings: ReplaySettings,
    agents: Sequence[Agent],
    count: TokenCache,
    on_steps: Callable[[int], object],
) -> list[AgentSession]:
    broker, namespace = settings.broker_url or None, settings.namespace
    async with AsyncContextClient(settings.redis_url, namespace=namespace, broker=broker) as client:
        players = Players(client, settings.policy, count, settings.pace_s, on_steps)
        return await players.run(agents, at_once=settings.at_once)


# --- the command ----------------------------------------------------------------------------------


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
    limit: Annotated[int | None, typer.Option(min=1, help="Play only this many sessions.")] = None

    def sessions(self) -> list[Conversation]:
        """The conversations of the files, as many as were asked for."""
        return numbered(_loaded(self.files), limit=self.limit)


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
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Namespace to play in. Default: a new one."
        ),
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


class RecordedAgent:
    """An agent that says what was recorded, whatever it reads."""

    def __init__(self, recorded: Conversation) -> None:
        self.name = recorded.name
        self.system_prompt = recorded.system_prompt
        self.steps = len(recorded.messages)
        self._messages = iter(recorded.messages)

    def next(self, seen: Context | None) -> JsonMessage | None:  # noqa: ARG002
        """The next recorded message."""
        return next(self._messages, None)


def replay(
    recorded: RecordedOptions,
    *,
    pipeline: PipelineOptions,
    options: PolicyFileOptions,
    as_json: JsonFlag = False,
) -> None:
    """Play recorded conversations through the pipeline and check every context that is read.

    Exits with 1 if a context was over its limit or invalid, or a turn was lost, doubled or altered.
    """
    policy = options.build(Policy, _no_policies_by_name)
    played = [RecordedAgent(session) for session in recorded.sessions()]
    with pipeline.running() as running:
        settings = ReplaySettings(
            redis_url=running.redis_url,
            broker_url=pipeline.broker,
            namespace=pipeline.namespace or f"replay-{uuid.uuid4().hex[:8]}",
            policy=policy,
            keep=pipeline.keep,
            has_workers=pipeline.has_workers,
        )
        with progress("replaying", sum(agent.steps for agent in played)) as on_steps:
            found = run_agents(settings, played, on_steps=on_steps)
        dead = running.dead
    report(found, title=f"replay at {policy.hard_limit:,} tokens", as_json=as_json, dead=dead)
    if pipeline.keep:
        print_note(f"The sessions stay: turnmill sessions --namespace {settings.namespace}")
    raise typer.Exit(0 if found.ok else 1)


def _no_policies_by_name(name: str) -> Policy:
    raise CommandFailed(
        f"--policy {name}: give a file, by a path that contains a / or ends in .json"
    )


def _loaded(files: list[Path]) -> list[Conversation]:
    if found := list(load(files)):
        return found
    raise BadInput(f"{files[0]}: no conversations in it")
