"""``turnmill replay``: recorded conversations through the pipeline, every context checked.

Agents move in rounds. A round first asks every agent for its next message (an agent may run tools
here), then takes all steps concurrently - each a push and a read, timed - and then checks what was
read. Only the middle part is on the clock and nothing else runs in it, so no agent's latency
contains another's tool or check; it does contain the other agents' pushes and reads, as in any
event loop they share. Workers go on through all three parts.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import json
import math
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
from rich.table import Table

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
    print_json,
    print_line,
    print_note,
    stdout,
)
from turnmill_cli.progress import progress
from turnmill_cli.promises import (
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

    @property
    def name(self) -> str:
        """Its session's name."""

    @property
    def system_prompt(self) -> str:
        """Empty for none."""

    def next(self, seen: Context | None) -> JsonMessage | None:
        """The next message, given the context read after the last one; None when it is done."""


@dataclass(slots=True)
class AgentSession:
    """One agent's session so far.

    Attributes:
        refused: its system prompt left no room under the hard limit, and nothing was pushed.
        latencies_ms: of its steps.
        projected: how many of its reads were cut to the hard limit.
        recut: how many of those did not begin with the read before, though no commit came between.
        last: its newest read, looked at.
        compacted: the last two reads with a commit between them.
        archived: how many of its turns were in the archive alone in the end.
    """

    agent: Agent
    transcript: Transcript
    refused: bool = False
    latencies_ms: list[float] = field(default_factory=list)
    projected: int = 0
    recut: int = 0
    faults: list[Fault] = field(default_factory=list)
    last: CheckedRead | None = None
    compacted: tuple[CheckedRead, CheckedRead] | None = None
    archived: int = 0

    def take(self, context: Context, *, hard_limit: int, count: TokenCache) -> None:
        """Check a read, and remember it as the last."""
        before = self.last
        now = check_context(
            context, self.transcript, hard_limit=hard_limit, count=count, previous=before
        )
        if before is not None and before.context.version < context.version:
            self.compacted = (before, now)
        self.projected += context.projection is not None
        self.recut += now.recut
        self.faults += now.faults
        self.last = now


class Rounds:
    """Runs agents, at most ``concurrency`` at a time, through one shared client.

    Args:
        pace_s: seconds between an agent's steps; the agents' steps are spread evenly over it.
        on_steps: told how many steps each round took.
    """

    def __init__(
        self,
        client: AsyncContextClient,
        policy: Policy,
        count: TokenCache,
        *,
        concurrency: int,
        pace_s: float = 0.0,
        on_steps: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._policy = policy
        self._count = count
        self._concurrency = concurrency
        self._pace_s = pace_s
        self._on_steps = on_steps
        self.stepping_s = 0.0
        """Seconds in which steps were being taken."""

    async def run(self, agents: Iterable[Agent]) -> list[AgentSession]:
        """Run every agent to its end; returns their sessions in order."""
        waiting = iter(agents)
        sessions: list[AgentSession] = []
        active: list[AgentSession] = []
        while True:
            opened = await self._open(waiting, self._concurrency - len(active))
            sessions += opened
            active += [session for session in opened if not session.refused]
            moves = [(session, _next_move(session)) for session in active]
            taken = [(session, message) for session, message in moves if message is not None]
            active = [session for session, _ in taken]
            if taken:
                await self._round(taken)
            elif not opened:
                return sessions

    async def _open(self, waiting: Iterator[Agent], places: int) -> list[AgentSession]:
        opened: list[AgentSession] = []
        while places > 0 and (agent := next(waiting, None)) is not None:
            session = AgentSession(agent, Transcript(agent.system_prompt))
            try:
                await self._client.open(agent.name, self._policy, agent.system_prompt or None)
                places -= 1
            except SystemPromptTooLarge:
                session.refused = True
            opened.append(session)
        return opened

    async def _round(self, moves: Sequence[tuple[AgentSession, JsonMessage]]) -> None:
        apart_s = self._pace_s / len(moves)
        begun = time.perf_counter()
        contexts = await asyncio.gather(
            *(self._step(each, message, at * apart_s) for at, (each, message) in enumerate(moves)),
            asyncio.sleep(self._pace_s),
        )
        self.stepping_s += time.perf_counter() - begun
        for (session, _), context in zip(moves, contexts[:-1], strict=True):
            assert context is not None  # noqa: S101 - the last one is the pause
            session.take(context, hard_limit=self._policy.hard_limit, count=self._count)
        self._on_steps(len(moves))

    async def _step(self, session: AgentSession, message: JsonMessage, after_s: float) -> Context:
        if after_s:
            await asyncio.sleep(after_s)
        name = session.agent.name
        begun = time.perf_counter()
        pushed = await self._client.push(name, message)
        context = await self._client.read(name)
        session.latencies_ms.append((time.perf_counter() - begun) * 1000)
        session.transcript.add(pushed.seq, message)
        return context


def _next_move(session: AgentSession) -> JsonMessage | None:
    return session.agent.next(session.last.context if session.last else None)


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


@contextmanager
def connect(url: str, namespace: str, *, broker_url: str, has_workers: bool) -> Iterator[Store]:
    """Connections for looking at a namespace, closed after the block."""
    broker = (broker_url or url) if has_workers else SilentWaker()
    with (
        closing(store_client(url, TIMEOUT_S)) as plain,
        ContextClient(url, namespace=namespace, broker=broker) as client,
    ):
        yield Store(RedisView(plain, Namespace(namespace)), client, has_workers)


def wait_for_workers(store: Store, names: Sequence[str], *, within_s: float) -> int:
    """Wait until no session waits for a worker; returns how many still do after ``within_s``.

    What is covered should be in the archive by then: it is what the last checks look at.
    """
    waiting = _wait(store, names, _is_due, within_s=within_s)
    if store.has_workers:
        _wait(store, names, _is_covered, within_s=min(within_s, ARCHIVED_WITHIN_S))
    return len(waiting)


def _wait(
    store: Store, names: Sequence[str], waits: Callable[[ContextInfo], bool], *, within_s: float
) -> list[str]:
    """The sessions that still wait after ``within_s``."""
    deadline = time.monotonic() + within_s
    waiting = [name for name in names if waits(store.client.info(name))]
    while waiting and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
        waiting = [name for name in waiting if waits(store.client.info(name))]
    return waiting


def _is_due(info: ContextInfo) -> bool:
    return info.pending_for_s is not None or info.due_in_s is not None


def _is_covered(info: ContextInfo) -> bool:
    return info.turns_covered > 0


def check_session(
    store: Store, session: AgentSession, policy: Policy, count: TokenCache
) -> Counter[str]:
    """Read and check a session a last time, and its stored turns; returns commits by strategy."""
    name = session.agent.name
    stored = store.view.stored(name)
    pushed = {seq: fingerprint([message]) for seq, message in session.transcript.turns.items()}
    urls = _urls(session.transcript.turns.values())
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


# --- the scorecard --------------------------------------------------------------------------------

MOST_EXAMPLES = 20
"""Faults named one by one; the rest are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """The numbers of one replay.

    Attributes:
        refused: sessions whose system prompt leaves no room under the limit; nothing was pushed.
        tokens_in: pushed, system prompts included; counted exactly, by ``basis``.
        tokens_final: in the contexts read in the end.
        turns_archived: in the archive and no longer in Redis, in the end.
        compactions: commits, by strategy.
        reads_projected: reads cut to the hard limit because no worker had been there in time.
        reads_recut: reads that do not begin with the one before, because a projection moved: what
            a provider's prompt cache loses beside commits.
        step_ms: push and read together: p50, p95, p99, max.
        steps_per_s: while steps were being taken, checks and tools not counted.
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
    reads: int
    reads_projected: int
    reads_recut: int
    step_ms: Mapping[str, float]
    steps_per_s: float
    seconds: float
    unsettled: int
    faults: Mapping[FaultKind, int]
    examples: Sequence[tuple[str, FaultKind, str]]
    basis: str

    @property
    def reduction(self) -> float:
        """The share of the pushed tokens that the final contexts do without."""
        return 1 - self.tokens_final / self.tokens_in if self.tokens_in else 0.0

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.faults.values())

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {"ok": self.ok, **asdict(self), "reduction": round(self.reduction, 4)}


def score(
    sessions: Sequence[AgentSession],
    compactions: Mapping[str, int],
    count: TokenCache,
    *,
    stepping_s: float,
    seconds: float,
    unsettled: int,
    basis: str,
) -> Scorecard:
    """Add up what the sessions saw."""
    live = [each for each in sessions if not each.refused]
    latencies = sorted(ms for each in live for ms in each.latencies_ms)
    found = [(each.agent.name, *fault) for each in live for fault in each.faults]
    times = Counter(kind for _, kind, _ in found)
    return Scorecard(
        sessions=len(live),
        refused=len(sessions) - len(live),
        turns=len(latencies),
        tokens_in=sum(_pushed_tokens(each, count) for each in live),
        tokens_final=sum(each.last.tokens for each in live if each.last),
        turns_archived=sum(each.archived for each in live),
        compactions=dict(sorted(compactions.items())),
        reads=len(latencies) + len(live),
        reads_projected=sum(each.projected for each in live),
        reads_recut=sum(each.recut for each in live),
        step_ms={
            "p50": percentile(latencies, 0.50),
            "p95": percentile(latencies, 0.95),
            "p99": percentile(latencies, 0.99),
            "max": percentile(latencies, 1.0),
        },
        steps_per_s=round(len(latencies) / stepping_s, 1) if stepping_s else 0.0,
        seconds=round(seconds, 2),
        unsettled=unsettled,
        faults={kind: times[kind] for kind in get_args(FaultKind)},
        examples=found[:MOST_EXAMPLES],
        basis=basis,
    )


def _pushed_tokens(session: AgentSession, count: TokenCache) -> int:
    prompt = (
        [system_message(session.transcript.system_prompt)]
        if session.transcript.system_prompt
        else []
    )
    messages = [*prompt, *session.transcript.turns.values()]
    return count.of(messages, [fingerprint(message) for message in messages])


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values, 0 for none."""
    if not ordered:
        return 0.0
    return round(ordered[max(math.ceil(share * len(ordered)), 1) - 1], 3)


_MUST_BE_ZERO: tuple[tuple[str, tuple[FaultKind, ...]], ...] = (
    ("contexts over the limit", ("over-limit",)),
    ("invalid contexts", ("illegal",)),
    ("contexts missing or doubling a turn", ("incomplete",)),
    ("contexts with wrong token counts", ("miscounted",)),
    ("prefixes changed between commits", ("unstable",)),
    ("turns lost / doubled", ("lost", "doubled")),
    ("turns altered / misplaced", ("altered", "misplaced")),
)


def table(card: Scorecard, *, title: str) -> Table:
    """The scorecard for a terminal; what must be 0 and is not stands out."""
    made = Table(title=title, title_justify="left", show_header=False, pad_edge=False)
    made.add_column()
    made.add_column(justify="right")
    for name, value in _measured(card):
        made.add_row(name, value)
    made.add_section()
    for name, kinds in _MUST_BE_ZERO:
        numbers = [card.faults[kind] for kind in kinds]
        made.add_row(
            f"{name} [dim](must be 0)[/]",
            " / ".join(map(str, numbers)),
            style="bold red" if any(numbers) else None,
        )
    return made


def _measured(card: Scorecard) -> list[tuple[str, str]]:
    ms = card.step_ms
    by = ", ".join(f"{name} {n:,}" for name, n in card.compactions.items())
    commits = f"{sum(card.compactions.values()):,}" + (f" ({by})" if by else "")
    return [
        ("sessions", f"{card.sessions:,}"),
        ("sessions refused (system prompt too large)", f"{card.refused:,}"),
        ("turns", f"{card.turns:,}"),
        ("tokens pushed", f"{card.tokens_in:,}"),
        ("tokens in the final contexts", f"{card.tokens_final:,}"),
        ("reduction", f"{card.reduction:.1%}"),
        ("compactions", commits),
        ("turns in the archive", f"{card.turns_archived:,}"),
        ("reads projected", f"{card.reads_projected:,} of {card.reads:,}"),
        ("reads whose prefix a projection changed", f"{card.reads_recut:,}"),
        (
            "step (push + read), ms: p50 / p95 / p99 / max",
            f"{ms['p50']:.2f} / {ms['p95']:.2f} / {ms['p99']:.2f} / {ms['max']:.2f}",
        ),
        ("steps per second", f"{card.steps_per_s:,.0f}"),
        ("seconds in all", f"{card.seconds:.1f}"),
        ("sessions still waiting for a worker", f"{card.unsettled:,}"),
    ]


# --- a whole replay -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How agents are to be run.

    Attributes:
        redis_url, broker_url: of the pipeline; the broker is the same Redis when ``""``.
        namespace: whose sessions these become.
        concurrency: agents at a time.
        pace_s: seconds between an agent's steps.
        settle_s: how long to wait for the workers after the last step.
        keep: leave the sessions where they are.
        has_workers: the pipeline has workers.
    """

    redis_url: str
    broker_url: str = ""
    namespace: str
    policy: Policy
    concurrency: int
    pace_s: float = 0.0
    settle_s: float = 30.0
    keep: bool = False
    has_workers: bool = True


def run_agents(
    settings: ReplaySettings, agents: Sequence[Agent], *, on_steps: Callable[[int], object]
) -> tuple[Scorecard, list[AgentSession]]:
    """Run the agents, wait for the workers, check everything, forget the sessions.

    Raises:
        CommandFailed: a session of that name exists already; nothing was pushed.
        TurnmillError: what the pipeline raised.
    """
    counter = counter_for(settings.policy.encoding, settings.policy.image_formula)
    count = TokenCache(partial(count_message, counter))
    names = [agent.name for agent in agents]
    begun = time.perf_counter()
    with (
        connect(
            settings.redis_url,
            settings.namespace,
            broker_url=settings.broker_url,
            has_workers=settings.has_workers,
        ) as store,
        _forgotten_afterwards(store, names, keep=settings.keep),
    ):
        sessions, stepping_s = asyncio.run(_run(settings, agents, count, on_steps))
        live = [each for each in sessions if not each.refused]
        live_names = [each.agent.name for each in live]
        unsettled = wait_for_workers(store, live_names, within_s=settings.settle_s)
        commits: Counter[str] = Counter()
        for each in live:
            commits += check_session(store, each, settings.policy, count)
    card = score(
        sessions,
        commits,
        count,
        stepping_s=stepping_s,
        seconds=time.perf_counter() - begun,
        unsettled=unsettled,
        basis=counter.basis,
    )
    return card, sessions


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
) -> tuple[list[AgentSession], float]:
    """Every agent's session, and the seconds in which steps were being taken."""
    broker = settings.broker_url or None
    gc.freeze()  # what was loaded is no garbage, and a real agent would not carry all of it
    try:
        async with AsyncContextClient(
            settings.redis_url, namespace=settings.namespace, broker=broker
        ) as client:
            rounds = Rounds(
                client,
                settings.policy,
                count,
                concurrency=settings.concurrency,
                pace_s=settings.pace_s,
                on_steps=on_steps,
            )
            return await rounds.run(agents), rounds.stepping_s
    finally:
        gc.unfreeze()


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
