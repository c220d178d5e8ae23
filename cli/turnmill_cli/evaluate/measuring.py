"""What survives in a conversation's context, and what that saves: played in memory, and counted.

A conversation is pushed turn by turn through the pipeline's own stages, as if workers always kept
up. What is needed later, or asked about, is then looked for in the context that its agent reads.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from kombu.utils.functional import retry_over_time

from turnmill.contract.context import EMPTY, JsonMessage, StoredContext
from turnmill.contract.errors import Transient
from turnmill.contract.estimate import Counter
from turnmill.contract.legality import CallTracker
from turnmill.contract.log_entry import TailTurn
from turnmill.contract.names import Namespace, Seq, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.render import render, system_message
from turnmill.read.projection import project
from turnmill_cli.conversations import BadInput, json_lines
from turnmill_cli.evaluate.prompt_cache import RULES, PromptCache, Sent, beginnings
from turnmill_cli.output import CommandFailed
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.strategies.choose import plan as plan_compaction
from turnmill_worker.compaction.with_digest import known_after
from turnmill_worker.errors import InvalidSettings, SummarizerFailed, SummaryRejected
from turnmill_worker.pipeline.decide import Skip, decide, until_idle
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.ports.protocols import Summarizer
from turnmill_worker.ports.values import Summary
from turnmill_worker.settings import load_settings
from turnmill_worker.summarizers.openai.prices import Price
from turnmill_worker.summarizers.registry import Registry
from turnmill_worker.templates.loader import TemplateLoader

Record = tuple[int, Mapping[str, Any]]
"""A message and its position."""


# --- words. Fixed, so that numbers compare --------------------------------------------------------

_WORD = re.compile(r"[a-z0-9]+(?:['’][a-z]+)?")
_NUMBER_WORDS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
DIGITS: Final = {word: str(number) for number, word in enumerate(_NUMBER_WORDS)}


def _split(words: str) -> list[str]:
    return words.split()


_STOP: Final = frozenset(
    _split(
        "a about after again all am an and any are aren't as at be because been before being both "
        "but by can can't could couldn't did didn't do does doesn't doing don't down during each "
        "few for from further had has have having he he's her here hers herself him himself his "
        "how i i'd i'll i'm i've if in into is isn't it it's its itself just let's me more most "
        "my myself no nor not now of off on once only or other our ours out over own s same she "
        "she's should so some such t than that that's the their theirs them then there there's "
        "these they they're they've this those through to too under until up very was wasn't we "
        "we're we've were what what's when where which while who whom why will with won't would "
        "you you'd you'll you're you've your yours"
    )
)


def text_of(message: Mapping[str, Any]) -> str:
    """The message's own words: content text, then each call's name and arguments."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [str(part.get("text") or "[image]") for part in content]
    for call in message.get("tool_calls") or ():
        parts.append(f"{call['function']['name']} {call['function']['arguments']}")
    return "\n".join(parts)


@functools.lru_cache(maxsize=20_000)
def stems(text: str) -> frozenset[str]:
    """Lower-case words and numbers, number words as digits, stop words gone, Snowball stems."""
    words = (DIGITS.get(w, w) for w in _WORD.findall(text.lower().replace("’", "'")))
    return frozenset(_stem(w) for w in words if w not in _STOP)


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@functools.cache
def _stemmer() -> Any:
    import Stemmer  # noqa: PLC0415 - slow, and only questions need it

    return Stemmer.Stemmer("english", 0)


def stands_in(text: str, value: str) -> bool:
    """Whether `value` stands in `text` as a whole word; both are lower case."""
    start = text.find(value)
    while start >= 0:
        end = start + len(value)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and value[0].isalnum()) and not after.isalnum():
            return True
        start = text.find(value, start + 1)
    return False


# --- values that are needed later -----------------------------------------------------------------

Entity = tuple[str, str]
Find = Callable[[str], list[tuple[Entity, int]]]
Uses = Callable[[Mapping[str, Any]], set[str]]

CODE: Final = re.compile(
    r"(?P<path>(?:[\w.-]+/)+[\w.-]+\w|\b\w+\.(?:py|js|ts|c|h|go|rs|md|toml|json|txt|cfg|yml)\b)"
    r"|(?P<name>\b[a-z]+(?:_[a-z0-9]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b)"
)
"""The values of coding agents."""


def by_pattern(pattern: re.Pattern[str]) -> Find:
    """Finds `((type, value), offset)`; amounts lose their `$`, paths their leading `./`."""

    def find(text: str) -> list[tuple[Entity, int]]:
        return [
            ((str(m.lastgroup), m[0].lstrip("$").removeprefix("./")), m.start())
            for m in pattern.finditer(text)
        ]

    return find


VALUES: Final[Mapping[str, Find | None]] = {
    "coding": by_pattern(CODE),
    "calls": None,
}
"""How needed values are found, by name; None: they are the arguments of the tail's calls."""


def uses(find: Find | None) -> Uses:
    """What gives the values a message uses, in lower case."""
    if find is None:
        return lambda message: set(call_values(message))
    return lambda message: {value.lower() for (_, value), _ in find(text_of(message))}


def call_values(message: Mapping[str, Any]) -> Iterator[str]:
    """The string arguments, but for flags, of a message's calls, as lower-case text."""
    for call in message.get("tool_calls") or ():
        for value in _arguments(call).values():
            if isinstance(value, str) and len(value) > 2 and value not in {"True", "False"}:  # noqa: PLR2004
                yield value.lower()


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except (ValueError, KeyError):
        return {}
    return arguments if isinstance(arguments, Mapping) else {}


HEAD_SHARE: Final = 0.6


def halves(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Record], list[Mapping[str, Any]]]:
    """Head (60 % of the non-system messages, cut moved back off tool results) and tail."""
    spoken = [m for m in messages if m["role"] != "system"]
    cut = int(HEAD_SHARE * len(spoken))
    while 0 < cut < len(spoken) and spoken[cut]["role"] == "tool":
        cut -= 1
    return list(enumerate(spoken[:cut], 1)), spoken[cut:]


def needed(head: str, tail: Sequence[Mapping[str, Any]], system: str, used: Uses) -> set[str]:
    """Values an assistant message in the tail uses that only the head has introduced."""
    wanted: set[str] = set()
    seen = system
    for message in tail:
        if message["role"] == "assistant":
            wanted |= {v for v in used(message) if stands_in(head, v) and not stands_in(seen, v)}
        seen = f"{seen}\n{text_of(message).lower()}"
    return wanted


def needed_in(messages: Sequence[Mapping[str, Any]], find: Find | None) -> set[str]:
    """The values this conversation's tail needs of its head."""
    system = "\n".join(text_of(m) for m in messages if m["role"] == "system").lower()
    head, tail = halves(messages)
    return needed("\n".join(text_of(m) for _, m in head).lower(), tail, system, uses(find))


# --- data sets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataSet:
    """The conversations of one file.

    Attributes:
        has_questions: some carry questions with evidence: then these are what is measured.
        find: names the values that are needed later; None: they are the tail's call arguments.
    """

    name: str
    conversations: tuple[Mapping[str, Any], ...]
    find: Find | None

    @property
    def has_questions(self) -> bool:
        """Whether questions can be scored; else what the tail still uses is."""
        return any(conversation.get("qa") for conversation in self.conversations)


def load(path: Path, values: str = "calls", *, limit: int | None = None) -> DataSet:
    """The data set in a JSONL file, or `.gz` of it.

    Raises:
        BadInput: names the file and the line, never the content.
    """
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    lines = islice(json_lines(path), limit)
    found = tuple(_conversation(text, f"{path}:{number}") for number, text in lines)
    if not found:
        raise BadInput(f"{path}: no conversations in it")
    return DataSet(name, found, VALUES[values])


def _conversation(text: str, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise BadInput(f"{where}: not JSON") from None
    messages = value.get("messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list):
        raise BadInput(f"{where}: not an object with a list of `messages`")
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadInput(f"{where}: messages[{at}]: not an object with a `role`")
    for at, question in enumerate(value.get("qa") or ()):
        evidence = question.get("evidence") if isinstance(question, Mapping) else None
        if not isinstance(evidence, list) or "answer" not in question:
            raise BadInput(f"{where}: qa[{at}]: needs an `answer` and a list of `evidence`")
        if not all(isinstance(i, int) and 0 <= i < len(messages) for i in evidence):
            raise BadInput(f"{where}: qa[{at}]: evidence beyond the {len(messages)} messages")
    return dict(value)


# --- who writes -----------------------------------------------------------------------------------

RETRIES: Final = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S: Final = 30.0


class RetryingSummarizer:
    """The ``Summarizer`` port over another. A refused text goes on; any other failure ends it."""

    def __init__(self, summarizer: Summarizer, close: Callable[[], None]) -> None:
        self._summarizer = summarizer
        self.close = close

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """Its summary.

        Raises:
            SummaryRejected: its text must not be used.
            CommandFailed: it cannot be asked, or failed several times in a row for reasons that
                pass. Numbers without some of the texts would look like numbers.
        """
        try:
            written: Summary = retry_over_time(
                self._summarizer.summarize,
                Transient,
                (request, counter),
                errback=_wait_s,  # type: ignore[arg-type]  # what it answers is the pause
                max_retries=RETRIES,
                interval_max=LONGEST_WAIT_S,
            )
        except Transient as error:
            raise CommandFailed(f"gave up after {RETRIES + 1} calls: {error}") from None
        except SummarizerFailed as error:
            raise CommandFailed(str(error)) from None
        return written


def summarizer_of(name: str) -> RetryingSummarizer:
    """The one a worker with the same environment would ask first; nothing is sent yet.

    Raises:
        CommandFailed: there is none of this name, or it cannot be asked.
    """
    try:
        factory = Registry(load_settings()).factory(name)
    except (InvalidSettings, SummarizerFailed) as error:
        raise CommandFailed(str(error)) from None
    problem = factory.problem()
    if problem:
        raise CommandFailed(
            f"--summarizer {name}: {problem}. Set it as for a worker, with the TURNMILL_ settings"
        )
    return RetryingSummarizer(factory.summarizers(Policy(summarizer=name))[0], factory.close)


def _wait_s(error: Any, _intervals: Iterator[float], retries: int) -> float:
    """As long as the endpoint asks for, else twice as long each time."""
    asked: float | None = getattr(error, "retry_after_s", None)
    return FIRST_WAIT_S * 2**retries if asked is None else asked


@dataclass(slots=True)
class MeteredSummarizer:
    """A summarizer in use, and what it was asked and cost.

    Attributes:
        ledger: the share of each budget set apart for the ledger.
        refused: texts that were over their budget or could not be had; they count as empty.
        cost_usd: of all that was asked, refused texts included, as far as prices are known.
        unpriced: requests whose cost is not known.
    """

    summarizer: Summarizer
    counter: Counter
    ledger: float = 0.0
    requests: int = 0
    refused: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def pay(self, spent: Any) -> None:
        """Add what a summary or a refused one cost; an error without ``cost_usd`` cost nothing."""
        cost: float | None = getattr(spent, "cost_usd", 0.0)
        self.cost_usd += cost or 0.0
        self.unpriced += cost is None


# --- a session in memory --------------------------------------------------------------------------

POLICIES: Final = {
    "rolling": ("images", "elide", "rolling", "window"),
    "iterations": ("images", "elide", "iterations", "window"),
    "window": ("window",),
}
"""The ladder of each strategy that is one of the pipeline's."""


class InMemorySession:
    """A session whose context is brought to its target after every turn, or after a burst."""

    def __init__(self, policy: Policy, system: str, metered: MeteredSummarizer) -> None:
        self._metered = metered
        self._counter = counter = metered.counter
        self._writer = Writer(lambda _policy: [metered.summarizer], TemplateLoader())
        self._tracker = CallTracker()
        self._snapshot = Snapshot(
            namespace=Namespace("evaluate"),
            session=SessionId("evaluated"),
            epoch="",
            revision="",
            policy=policy,
            system_tokens=counter.count_messages([system_message(system)]) if system else 0,
            stored=EMPTY,
            turns=(),
            counted_seq=Seq(0),
            system=system,
        )

    @property
    def watermark(self) -> Seq:
        """The last turn that no longer stands in the context as it was pushed."""
        return self._snapshot.stored.watermark

    @property
    def stored(self) -> StoredContext:
        """What stands for the turns up to the watermark."""
        return self._snapshot.stored

    @property
    def compactions(self) -> int:
        """Commits so far."""
        return self._snapshot.compactions

    @property
    def system_tokens(self) -> int:
        """Tokens of the system prompt."""
        return self._snapshot.system_tokens

    @property
    def history_tokens(self) -> int:
        """Tokens of all that was ever pushed."""
        return self._snapshot.history_tokens

    def push(self, message: JsonMessage) -> bool:
        """One more turn; whether a compaction followed."""
        self.add(message)
        return self.compact()

    def add(self, message: JsonMessage) -> None:
        """One more turn, before any worker looks."""
        before = self._snapshot
        tokens = self._counter.count_messages(self._tracker.repair((message,)))
        turn = LoggedTurn(Seq(before.counted_seq + 1), (message,), (message,), tokens)
        self._snapshot = replace(
            before,
            turns=(*before.turns, turn),
            counted_seq=turn.seq,
            history_tokens=before.history_tokens + turn.tokens,
        )

    def compact(self) -> bool:
        """Whether a compaction was due and came about."""
        draft = self._draft()
        if draft is not None:
            self._commit(draft)
        return draft is not None

    def rest(self, quiet_s: float) -> bool:
        """Nothing is pushed for so long; whether it was compacted meanwhile."""
        self._snapshot = replace(self._snapshot, quiet_s=quiet_s)
        done = self.compact()
        self._snapshot = replace(self._snapshot, quiet_s=0.0)
        return done

    def settle(self) -> None:
        """Compact as long as that is due."""
        while self.compact():
            pass

    def read(self) -> list[JsonMessage]:
        """The context, projected when it is over the hard limit."""
        seen = self._snapshot
        tracker = CallTracker()
        tail = [
            TailTurn(t.seq, tracker.repair(t.shown), t.tokens, exact=True, pushed=t.original)
            for t in seen.turns
        ]
        if seen.usage.total <= seen.limits.hard:
            return render(seen.system, seen.stored, tail)
        usage = seen.usage
        return project(
            seen.system,
            seen.stored,
            tail,
            seen.limits,
            self._counter.count_messages,
            fixed_tokens=usage.system + usage.summary + usage.REPLY,
            head_tokens=usage.summary,
        ).messages

    def _draft(self) -> Draft | None:
        """The first rung's draft that is good enough, else the best when there is no more room."""
        seen = self._snapshot
        is_within = isinstance(decide(seen.usage, seen.limits, seen.exceeded), Skip)
        if is_within and until_idle(seen) != 0:
            return None
        rejected: list[str] = []
        poor: list[Draft] = []
        while plan := plan_compaction(seen, self._counter, below=rejected[-1] if rejected else ""):
            if plan.strategy in rejected:
                break
            try:
                draft = self._writer.best(plan, self._counter)
            except SummaryRejected as error:
                self._metered.requests += 1
                self._metered.refused += 1
                self._metered.pay(getattr(error, "spent", None))
            else:
                self._metered.requests += len(plan.requests)
                self._metered.pay(draft.record)
                if draft.is_good_enough:
                    return draft
                poor.append(draft)
            rejected.append(plan.strategy)
        if poor and seen.usage.total > seen.limits.urgent:
            return max(poor, key=lambda draft: draft.score)
        return None

    def _commit(self, draft: Draft) -> None:
        context: StoredContext = draft.context
        kept = tuple(t for t in draft.plan.snapshot.turns if t.seq > context.watermark)
        self._snapshot = replace(
            self._snapshot,
            stored=context,
            turns=kept,
            compactions=self.compactions + 1,
            known=known_after(draft.plan, self._counter),
        )


def usable(messages: Sequence[Any]) -> list[JsonMessage]:
    """The messages as an agent pushes them."""
    return [dict(message) for message in messages if message["role"] != "system"]


# --- what survives --------------------------------------------------------------------------------


@dataclass(slots=True)
class Mean:
    """A running mean."""

    total: float = 0.0
    n: int = 0

    def add(self, value: float, weight: int = 1) -> None:
        """Counts `value`, out of `weight`."""
        self.total += value
        self.n += weight

    @property
    def value(self) -> float | None:
        """The mean, or None of nothing."""
        return self.total / self.n if self.n else None

    def __str__(self) -> str:
        return f"{self.total / self.n:.3f}" if self.n else "  -  "


@dataclass(slots=True)
class Survival:
    """What survives under one strategy.

    Attributes:
        compacted: conversations that had to be compacted.
        means: by what is looked for: ``answers``, or ``values`` and ``all`` of a conversation's.
    """

    means: dict[str, Mean]
    compacted: int = 0

    def to_json(self) -> dict[str, Any]:
        """Each mean as its value and size."""
        means = {name: {"value": each.value, "n": each.n} for name, each in self.means.items()}
        return {"compacted": self.compacted, **means}


def survival(data: DataSet, strategy: str, max_tokens: int, metered: MeteredSummarizer) -> Survival:
    """What of a data set's conversations is still there under this strategy and limit.

    Of questions where there are any: of those whose answer is mostly in its evidence, the share
    whose evidence still says it. Else of the values that the last two fifths of a conversation use
    and only what is before introduced: the share that stands in the context at that point.
    """
    found = Survival({name: Mean() for name in _LOOKED_FOR[data.has_questions]})
    for conversation in data.conversations:
        messages = conversation["messages"]
        head, _ = halves(messages)
        wanted = set() if data.has_questions else needed_in(messages, data.find)
        if not data.has_questions and not wanted:
            continue
        session = InMemorySession(policy_of(strategy, max_tokens, metered), "", metered)
        for message in usable(messages if data.has_questions else [each for _, each in head]):
            session.push(message)
        found.compacted += session.compactions > 0
        text = "\n".join(map(text_of, session.read()))
        if data.has_questions:
            _add_answers(conversation, text, found.means["answers"])
        else:
            kept = sum(stands_in(text.lower(), value) for value in wanted)
            found.means["values"].add(kept, len(wanted))
            found.means["all"].add(kept == len(wanted))
    return found


_LOOKED_FOR: Final = {True: ("answers",), False: ("values", "all")}
_ELIGIBLE: Final = 0.5
_CATEGORIES: Final = frozenset({1, 2, 3, 4})


def _add_answers(conversation: Mapping[str, Any], text: str, mean: Mean) -> None:
    """Of each turn of evidence, the turn or one line must state what it says of the answer."""
    lines = [stems(line) for line in text.split("\n")]
    for question in conversation.get("qa") or ():
        said = [text_of(conversation["messages"][at]) for at in question["evidence"]]
        answer = stems(str(question["answer"]))
        stated = [answer & stems(each) for each in said]
        present = frozenset[str]().union(*stated)
        if question.get("category", 1) not in _CATEGORIES or not present:
            continue
        if len(present) >= _ELIGIBLE * len(answer):
            mean.add(
                all(
                    not own or each in text or any(own <= line for line in lines)
                    for own, each in zip(stated, said, strict=True)
                )
            )


def policy_of(strategy: str, max_tokens: int, metered: MeteredSummarizer) -> Policy:
    """The policy whose ladder the strategy is."""
    return Policy(
        max_tokens=max_tokens,
        strategies=POLICIES[strategy],
        quality_threshold=0.0 if strategy == "window" else Policy().quality_threshold,
        ledger_ratio=metered.ledger,
    )


# --- what it saves --------------------------------------------------------------------------------

_STEP_S: Final = 10.0
"""Between two calls of an agent that works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Economy:
    """The numbers of one strategy over joined sessions; a model call before each assistant message.

    Attributes:
        calls: model calls an agent made.
        compactions: commits.
        tokens: sent in all calls; ``full_tokens`` had nothing ever been taken out.
        prefix: mean share of a context that is, byte for byte, the beginning of the one before.
        pooled: the same over all tokens.
        usd: the calls' input and the summarizer, without prompt caching.
        full_usd: of the calls' input, had nothing been taken out.
        billed, full_billed: the same by each provider's rules of caching, at the same list price.
        summarizer_usd: part of ``usd`` that went to the summarizer.
    """

    calls: int
    compactions: int
    tokens: int
    full_tokens: int
    prefix: float
    pooled: float
    usd: float
    full_usd: float
    billed: Mapping[str, float]
    full_billed: Mapping[str, float]
    summarizer_usd: float

    @property
    def saved(self) -> float:
        """The share of tokens not sent."""
        return 1 - self.tokens / self.full_tokens if self.full_tokens else 0.0


def joined(data: DataSet, least_tokens: int, count: Any) -> list[tuple[str, list[JsonMessage]]]:
    """Conversations one after the other in sessions of at least so many tokens: prompt, messages.

    One shorter session when all together have fewer.
    """
    found: list[tuple[str, list[JsonMessage]]] = []
    system, messages, tokens = "", list[JsonMessage](), 0
    for conversation in data.conversations:
        if not messages:
            first = conversation["messages"][0] if conversation["messages"] else {}
            is_prompt = first.get("role") == "system" and isinstance(first.get("content"), str)
            system = str(first["content"]) if is_prompt else ""
        own = usable(conversation["messages"])
        messages += own
        tokens += count(own)
        if tokens >= least_tokens:
            found.append((system, messages))
            system, messages, tokens = "", [], 0
    return found or [(system, messages)]


def economy(
    sessions: Iterable[tuple[str, Sequence[JsonMessage]]],
    strategy: str,
    max_tokens: int,
    metered: MeteredSummarizer,
    price: Price,
    pause_s: float = 0.0,
) -> Economy:
    """What the pipeline's ladder of this name sends and costs over these sessions.

    Users take ``pause_s`` longer than agents to go on.
    """
    policy = policy_of(strategy, max_tokens, metered)
    totals = _Totals(metered.counter.count_messages)
    before_usd = metered.cost_usd
    for system, messages in sessions:
        session = InMemorySession(policy, system, metered)
        totals.begin(system)
        for at, message in enumerate(messages):
            session.push(message)
            totals.at_s += _STEP_S + pause_s * (message["role"] == "user")
            totals.step(session.read(), message, called=_is_asked(messages, at))
        totals.compactions += session.compactions
    return totals.economy(price, metered.cost_usd - before_usd)


def _is_asked(messages: Sequence[JsonMessage], at: int) -> bool:
    return at + 1 < len(messages) and messages[at + 1]["role"] == "assistant"


class _Totals:
    """Adds up contexts as they are read."""

    def __init__(self, count: Any) -> None:
        self._count = count
        self._known: dict[bytes, int] = {}
        self.calls = self.compactions = self.tokens = self.full_tokens = 0
        self.at_s = 0.0
        self._billed = dict.fromkeys(RULES, 0.0)
        self._full_billed = dict.fromkeys(RULES, 0.0)
        self._shares: list[float] = []
        self._shared = self._total = 0
        self.begin("")

    def begin(self, system: str) -> None:
        """A session begins."""
        self._before: list[Sent] = []
        self._whole = [self._sent(system_message(system))] if system else []
        self._caches = {name: PromptCache(rules) for name, rules in RULES.items()}
        self._full_caches = {name: PromptCache(rules) for name, rules in RULES.items()}

    def step(self, context: Sequence[JsonMessage], newest: JsonMessage, *, called: bool) -> None:
        """A turn was pushed and the context read; ``called`` when a model call followed."""
        sent = [self._sent(message) for message in context]
        total = sum(tokens for _, tokens in sent)
        if self._before:
            shared = _shared(sent, self._before)
            self._shares.append(shared / total)
            self._shared += shared
            self._total += total
        self._before = sent
        self._whole.append(self._sent(newest))
        if called:
            self.calls += 1
            self.tokens += total
            self.full_tokens += sum(tokens for _, tokens in self._whole)
            ends, whole = beginnings(sent), beginnings(self._whole)
            for name in RULES:
                self._billed[name] += self._caches[name].bill(ends, self.at_s)
                self._full_billed[name] += self._full_caches[name].bill(whole, self.at_s)

    def _sent(self, message: JsonMessage) -> Sent:
        text = json.dumps(message, ensure_ascii=False).encode(errors="surrogatepass")
        if text not in self._known:
            self._known[text] = self._count([message])
        return text, self._known[text]

    def economy(self, price: Price, summarizer_usd: float) -> Economy:
        """The totals."""
        return Economy(
            calls=self.calls,
            compactions=self.compactions,
            tokens=self.tokens,
            full_tokens=self.full_tokens,
            prefix=sum(self._shares) / len(self._shares) if self._shares else 0.0,
            pooled=self._shared / self._total if self._total else 0.0,
            usd=price.cost(self.tokens) + summarizer_usd,
            full_usd=price.cost(self.full_tokens),
            billed={
                name: tokens * price.cost(1) + summarizer_usd
                for name, tokens in self._billed.items()
            },
            full_billed={name: n * price.cost(1) for name, n in self._full_billed.items()},
            summarizer_usd=summarizer_usd,
        )


def _shared(now: Sequence[Sent], before: Sequence[Sent]) -> int:
    """Tokens of the messages at the beginning that were there before, byte for byte."""
    tokens = 0
    for (text, size), (was, _) in zip(now, before, strict=False):
        if text != was:
            break
        tokens += size
    return tokens
