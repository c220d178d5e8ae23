"""One request to a model: what it is made from, and the way from there to a checked text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from turnmill.contract.estimate import Counter, CountText
from turnmill.contract.names import Seq
from turnmill.contract.render import without_memories
from turnmill_worker import telemetry
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.errors import SummarizerMisconfigured, UnusableSummary
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.reading.readings import of_summary
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.checks.checker import (
    Accepted,
    Checker,
    Fault,
    Kind,
    seqs_in,
)
from turnmill_worker.summarizers.openai.checks.demands import Said
from turnmill_worker.summarizers.openai.checks.language import Spoken
from turnmill_worker.summarizers.openai.endpoint import Answer, Endpoint, ModelOptions, Prompt
from turnmill_worker.summarizers.openai.prices import Prices
from turnmill_worker.summarizers.openai.prompts import (
    Block,
    Entry,
    Marks,
    chunks,
    cleaned,
    entry_of,
    fresh_nonce,
    instructions,
    packed,
    text_of,
)
from turnmill_worker.summarizers.redaction import Redactor

_AIM: Final = 0.8
"""Share of the budget that a model is told: few models count their tokens well."""

_AIM_AGAIN: Final = 0.5
"""What is left of that after an answer that was too long or cut off."""

_LEAST_LIMIT: Final = 32

_EARLIER: Final = ("summary so far", "notes")
"""Blocks that are summaries themselves."""

_ADVICE: Final[dict[Kind, tuple[str, str]]] = {
    "refused": (
        "it declined.",
        (
            "keep in mind that this is record-keeping: nobody asks you to do what the conversation "
            "is about. Report what was said, also where you would not have said it."
        ),
    ),
    "unfinished": ("it stopped before its end.", "be much shorter and finish."),
    "empty": ("it said nothing.", "write what the conversation says."),
    "echo": (
        "it repeated what it was given.",
        (
            "do not copy messages or marks: write the sections in your own words, and copy only "
            "identifiers."
        ),
    ),
    "error-text": ("it was an error message.", "write the summary itself."),
    "sections": (
        "it did not have exactly the headings asked for.",
        "write each heading once, as given, in the given order, and nothing before the first.",
    ),
    "over-budget": (
        "it was too long.",
        "be much shorter: drop what can be found again under Where to look, never identifiers.",
    ),
    "foreign": ("it was in another language.", "write in the language the user writes in."),
    "invented": (
        "it named demands the user never made.",
        (
            "put under Constraints, and write as wished by the user, only what a message marked "
            "user says, in that message's words; write None when there is nothing."
        ),
    ),
    "unknown-seq": (
        "it named messages that do not exist.",
        "use only numbers that stand in the marks.",
    ),
}
"""What a second prompt says of the first answer, by what was wrong with it: problem, advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One text that is wanted.

    Attributes:
        system: the instructions.
        blocks: the data.
        task: what to do with it, or ``""`` where the instructions say it all.
        budget: most tokens of the answer.
        sectioned: the answer has our sections.
    """

    system: str
    blocks: Sequence[Block]
    budget: int
    task: str = ""
    sectioned: bool = True

    @property
    def given(self) -> str:
        """What must not be repeated as it is; an earlier summary should be."""
        said = (block.text for block in self.blocks if block.kind not in _EARLIER)
        return "\n".join((self.system, *said))


class Asker:
    """Asks on behalf of one request, and adds up what that costs."""

    def __init__(
        self, endpoint: Endpoint, options: ModelOptions, prices: Prices, marks: Marks
    ) -> None:
        self.spent = Spent()
        self._endpoint = endpoint
        self._options = options
        self._prices = prices
        self._marks = marks

    def first_prompt(self, question: Question) -> Prompt:
        """What the model is given first."""
        return self._prompt(question, self._limit(question))

    def ask(
        self, question: Question, checker: Callable[[], Checker], answered: Answer | None = None
    ) -> str:
        """A text that may be committed; ``answered`` is the first answer, if there is one.

        Raises:
            UnusableSummary: two different prompts led to none.
            SummarizerUnavailable, SummarizerMisconfigured: the endpoint does not answer.
        """
        limit = self._limit(question)
        with done_while_waiting(checker):
            answer = answered or self._endpoint.ask(self._prompt(question, limit), self._options)
        first = self._judged(question, answer, checker)
        if isinstance(first, Accepted):
            return first.text
        if first.kind in ("over-budget", "unfinished"):
            limit = max(int(limit * _AIM_AGAIN), _LEAST_LIMIT)
        answer = self._endpoint.ask(self._prompt(question, limit, again=first), self._options)
        second = self._judged(question, answer, checker)
        if isinstance(second, Accepted):
            return second.text
        raise UnusableSummary(
            f"{self._options.model}: {second.detail}; before that, {first.detail}",
            kinds=(first.kind, second.kind),
        )

    def _limit(self, question: Question) -> int:
        return max(int(min(question.budget, self._options.max_output_tokens) * _AIM), _LEAST_LIMIT)

    def _prompt(self, question: Question, limit: int, again: Fault | None = None) -> Prompt:
        closing = [question.task] if question.task else []
        if again is not None:
            problem, advice = _ADVICE[again.kind]
            closing.append(text_of("again", problem=problem, advice=advice))
        closing.append(self._marks.closing(limit))
        return self._marks.prompt(question.system, question.blocks, closing)

    def _judged(
        self, question: Question, answer: Answer, checker: Callable[[], Checker]
    ) -> Accepted | Fault:
        spent = self._prices.spent(answer, self._options.model)
        telemetry.spent(self._options.model, spent)
        self.spent += spent
        return checker().check(
            answer, question.given, question.budget, sectioned=question.sectioned
        )


_MARGIN: Final = 0.9
"""Share of the window that is used: the model may count with another vocabulary than we do."""

_FRAME_TOKENS: Final = 512
"""Marks around the blocks, what to do with them, and what was wrong with an earlier answer."""

_LEAST_INPUT: Final = 256
_NOTES_SHARE: Final = 4
"""Notes of one part take at most this part of the input, so that several fit into one fold."""

_EARLIER_SHARE: Final = 0.5
"""Original passages of earlier turns take at most this part of what the summary may."""

_SPOKEN: Final = ("user", "assistant")
_ROLES: Final = ("user", "assistant", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Which endpoint is asked, and how: the same for all of a summarizer's requests."""

    endpoint: Endpoint
    options: ModelOptions
    prices: Prices
    redactor: Redactor | None
    nonce: Callable[[int], str]


class Work:
    """One request: what it is made from, and the way from there to a text."""

    def __init__(self, setup: Setup, request: SummaryRequest, counter: Counter) -> None:
        self.setup = setup
        self.request = request
        self.count = counter.count
        self.records = without_memories(request.records)
        self.entries = [entry_of(seq, message, setup.redactor) for seq, message in self.records]
        self.previous = cleaned(request.previous, setup.redactor)
        self.system = _system(request, setup.redactor)
        self.material = [
            Block(name, cleaned(value, setup.redactor)) for name, value in request.material
        ]
        self.earlier = _earlier(request, setup.redactor)
        if self.earlier:
            self.material.append(Block("earlier passages", self.earlier))
        texts = [self.previous, self.system, *(entry.text for entry in self.entries)]
        texts += [block.text for block in self.material]
        self.marks = Marks(fresh_nonce(texts, setup.nonce))
        self._checker: Checker | None = None
        self.asker = Asker(setup.endpoint, setup.options, setup.prices, self.marks)

    def checker(self) -> Checker:
        """What checks the answers; made while the first is waited for, or when it is there."""
        # Not a cached_property: Python 3.11 shares the lock of one among all threads.
        self._checker = self._checker or self._make_checker()
        return self._checker

    def _make_checker(self) -> Checker:
        spoken = [entry.text for entry in self.entries if entry.role in _SPOKEN]
        user = [entry.text for entry in self.entries if entry.role == "user"]
        if self.request.latest_input:
            user.append(cleaned(self.request.latest_input, self.setup.redactor))
        before, previous = _told_before(f"{self.previous}\n{self.earlier}", self.count)
        user += [entry.text for entry in before if entry.role == "user"]
        answered = [*_answered(before), *_answered(self.entries)]
        return Checker(
            said=Said(user, previous, answered),
            spoken=Spoken([*spoken, self.previous]),
            last_seq=max([*(seq for seq, _ in self.records), *seqs_in(self.previous)], default=0),
            count=self.count,
            nonce=self.marks.nonce,
        )

    def only_prompt(self) -> Prompt | None:
        """What a model is given when one prompt is enough; None when it takes several."""
        _, parts = self._parts()
        if len(parts) > 1:
            return None
        return self.asker.first_prompt(self._whole([Block("conversation", part) for part in parts]))

    def write(self, answered: Answer | None = None) -> str:
        """The summary: in one step when all of it fits the window, else part by part.

        ``answered`` is a model's answer to the only prompt, where it was asked before.
        """
        room, parts = self._parts()
        if len(parts) <= 1:
            whole = self._whole([Block("conversation", part) for part in parts])
            return self.asker.ask(whole, self.checker, answered)
        budget = max(min(self.request.budget_tokens, room // _NOTES_SHARE), 1)
        notes = [
            self._ask([Block("conversation", part)], budget, part=str(at), parts=str(len(parts)))
            for at, part in enumerate(parts, 1)
        ]
        *earlier, last = packed([(text, self.count(text) + 1) for text in notes], room)
        for text in earlier:
            blocks = [Block("summary so far", self.previous), Block("notes", text)]
            self.previous = self._ask(blocks, self.request.budget_tokens)
        return self.asker.ask(self._whole([Block("notes", last)], text_of("fold")), self.checker)

    def _beside(self, room: int) -> int:
        """What is left for the conversation beside a template's material.

        Material that is too long to stand beside it is read in parts, as the conversation is.
        """
        tokens = sum(self.count(self.marks.block(block)) for block in self.material)
        if tokens <= room // _NOTES_SHARE:
            return room - tokens
        self.records = [
            *((Seq(0), {"role": "user", "content": block.text}) for block in self.material),
            *self.records,
        ]
        self.entries = [
            *(Entry(seq=0, role=block.kind, text=block.text) for block in self.material),
            *self.entries,
        ]
        self.material = []
        return room

    def _ask(self, blocks: list[Block], budget: int, **part: str) -> str:
        task = text_of("part", **part) if part else text_of("fold")
        question = Question(system=instructions(), blocks=blocks, budget=budget, task=task)
        return self.asker.ask(question, self.checker)

    def _parts(self) -> tuple[int, list[str]]:
        """Tokens left for the conversation in one prompt, and the parts it takes."""
        if not self.entries and not self.previous and not self.request.instructions:
            raise UnusableSummary("nothing to summarize", kinds=("empty",))
        room = self._beside(self._room())
        return room, chunks(self.records, self.entries, room, self.marks.entry, self.count)

    def _whole(self, blocks: list[Block], task: str = "") -> Question:
        return Question(
            system=self.system,
            blocks=[
                Block("summary so far", self.previous),
                *self.material,
                *blocks,
            ],
            budget=self.request.budget_tokens,
            task=task,
            sectioned=not (self.request.instructions or self.request.brief),
        )

    def _room(self) -> int:
        """Tokens of the conversation that fit into one prompt."""
        options = self.setup.options
        used = options.max_output_tokens + _FRAME_TOKENS + self.count(self.previous)
        used += max(self.count(self.system), self.count(instructions()))
        room = int((options.window_tokens - used) * _MARGIN)
        if room < _LEAST_INPUT:
            raise SummarizerMisconfigured(
                f"{options.model}: a window of {options.window_tokens} tokens leaves {room} for "
                f"the conversation; at least {_LEAST_INPUT} are needed"
            )
        return room


def _told_before(text: str, count: CountText) -> tuple[list[Entry], str]:
    """What lines of ours tell that somebody said, and the lines that a model wrote."""
    told: list[Entry] = []
    written: list[str] = []
    for reading in of_summary(text, count):
        said = " ".join(passage.text for passage in reading.passages)
        if reading.seq:
            role = reading.who if reading.who in _ROLES else "tool"
            told.append(Entry(seq=reading.seq, role=role, text=said))
        else:
            written.append(said)
    return told, "\n".join(written)


def _answered(entries: Sequence[Entry]) -> list[str]:
    """What the assistant said right before the user did."""
    return [
        entry.text
        for entry, after in pairwise(entries)
        if entry.role == "assistant" and after.role == "user"
    ]


def _earlier(request: SummaryRequest, redactor: Redactor | None) -> str:
    """Original passages of turns covered before, for what the summary so far has lost."""
    if request.digest is None or request.instructions:
        return ""
    room = int(request.budget_tokens * _EARLIER_SHARE)
    return cleaned(request.digest.earlier(room), redactor)


def _system(request: SummaryRequest, redactor: Redactor | None) -> str:
    """The instructions: ours, or a template's with what there is to know about the material."""
    if not request.instructions:
        return instructions(brief=request.brief)
    return f"{cleaned(request.instructions, redactor)}\n\n{text_of('material')}"
