"""One request to a model: what it is made from, and the way from there to what can be believed."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turnmill.contract.estimate import Counter
from turnmill.contract.job_outcomes import ASKED_AGAIN
from turnmill.contract.names import Seq
from turnmill.contract.render import without_memories
from turnmill_worker import telemetry
from turnmill_worker.compaction.items import Item, carried, fitting, still_true, told
from turnmill_worker.compaction.plan import SentContext, SummaryRequest
from turnmill_worker.errors import SummarizerMisconfigured, UnusableSummary
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.answers import SCHEMA, items_in, lines_schema, unwrapped
from turnmill_worker.summarizers.openai.behind_context import behind, can_be_sent, index_of
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
    text_of,
)
from turnmill_worker.summarizers.openai.verify import Messages, Standing, Verifier, plain
from turnmill_worker.summarizers.redaction import Redactor

_AIM: Final = 0.8
"""Share of a text's budget that a model is told: few models count their tokens well."""

_AIM_AGAIN: Final = 0.5
"""What is left of that after a text that was too long or cut off."""

_LEAST_LIMIT: Final = 32

_ITEMS_SHARE: Final = 0.5
"""What a model adds takes this part of a summary at most: the rest is for the turns' own words."""

_ITEM_TOKENS: Final = 60
_LEAST_ITEMS, _MOST_ITEMS = 3, 8
"""How many items are asked for, by what one of them takes."""

_ANSWER: Final = 2
_LEAST_ANSWER: Final = 256
"""An answer has twice the tokens of its items: for their form, their numbers and quotations."""

_FINISHED: Final = frozenset({"stop", "eos", "eos_token", "end_turn", "completed"})

_LONGER: Final = 1.25
"""A text that is over its budget by no more is cut at a line's end."""

_ECHO_WORDS: Final = 40
_ECHO_SHARE: Final = 0.7
_LEAST_ECHOES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Which endpoint is asked, and how: the same for all of a summarizer's requests."""

    endpoint: Endpoint
    options: ModelOptions
    prices: Prices
    redactor: Redactor | None
    nonce: Callable[[int], str]
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One answer that is wanted.

    Attributes:
        system: the instructions.
        blocks: the data.
        budget: most tokens of the text, or of the items.
        context: what it is asked behind, or None.
        free: the instructions are a template's, and the answer is a text; else it has items.
    """

    system: str
    blocks: Sequence[Block]
    budget: int
    context: SentContext | None = None
    free: bool = False

    @property
    def given(self) -> str:
        """What must not be repeated as it is; an earlier summary should be."""
        said = (block.text for block in self.blocks if block.kind != "summary so far")
        return "\n".join((self.system, *said))


class Asker:
    """Asks on behalf of one request, and adds up what that costs.

    Attributes:
        faults: what was wrong with answers that led to nothing.
    """

    def __init__(
        self,
        setup: Setup,
        marks: Marks,
        count: Callable[[str], int],
        verifier: Callable[[], Verifier],
    ) -> None:
        """``verifier`` says which items can be believed; it is made while a model writes."""
        self.spent = Spent()
        self.faults: list[str] = []
        self._setup = setup
        self._marks = marks
        self._count = count
        self._verifier = verifier

    def first_prompt(self, question: Question) -> Prompt:
        """What the model is given first."""
        return self._prompt(question, self._limit(question))

    def text(self, question: Question, answered: Answer | None = None) -> str:
        """A text that may be committed; ``answered`` is the first answer, if there is one.

        Raises:
            UnusableSummary: two different prompts led to none.
            SummarizerUnavailable, SummarizerMisconfigured: the endpoint does not answer.
        """
        for answer in self._answers(question, answered):
            text = self._fitted(unwrapped(answer.text), question.budget)
            fault = _stopped(answer) or self._unfit(text, question)
            if not fault:
                return text
            self.faults.append(fault)
        raise self.unusable()

    def items(self, question: Question, answered: Answer | None = None) -> list[Item]:
        """The items that can be believed; none if two different prompts led to none.

        ``answered`` and errors are as above.
        """
        for answer in self._answers(question, answered):
            found = items_in(answer.text)
            kept = self._verifier().verified(found)
            if kept:
                return kept
            self.faults.append("none-holds" if found else _stopped(answer) or "no-items")
        return []

    def unusable(self) -> UnusableSummary:
        """Why nothing was made of the answers."""
        return UnusableSummary(
            f"{self._setup.options.model}: {', '.join(self.faults)}",
            kinds=tuple(self.faults),
        )

    def _answers(self, question: Question, answered: Answer | None) -> Iterator[Answer]:
        """What the first prompt led to, and then what one led to that names its last fault.

        A text that was too long, or cut off, is asked for again with a lower limit.
        """
        limit = self._limit(question)
        yield self._answer(self._prompt(question, limit), answered)
        if question.free and self.faults[-1] in ("over-budget", "unfinished"):
            limit = max(int(limit * _AIM_AGAIN), _LEAST_LIMIT)
        yield self._answer(self._prompt(question, limit, again=True), None)

    def _answer(self, prompt: Prompt, answered: Answer | None) -> Answer:
        with done_while_waiting(self._verifier):
            answer = answered or self._setup.endpoint.ask(prompt, self._setup.options)
        spent = self._setup.prices.spent(answer, self._setup.options.model)
        telemetry.spent(self._setup.options.model, spent)
        self.spent += spent
        return answer

    def _limit(self, question: Question) -> int:
        """Most tokens of the text or of the items, as a model is told."""
        share = _AIM if question.free else 1.0
        most = min(question.budget, self._setup.options.max_output_tokens)
        return max(int(most * share), _LEAST_LIMIT)

    def _prompt(self, question: Question, limit: int, *, again: bool = False) -> Prompt:
        if question.free:
            closing = [text_of("again", problem=self._problem())] if again else []
            closing.append(self._marks.closing("closing", limit))
            return self._marks.prompt(question.system, question.blocks, closing)
        closing, schema = self._items_closing(question, limit, again=again)
        prompt = self._marks.prompt(question.system, question.blocks, closing)
        prompt = replace(prompt, schema=schema, limit=max(_ANSWER * limit, _LEAST_ANSWER))
        api = self._setup.options.api
        return behind(question.context, prompt, api) if question.context else prompt

    def _items_closing(
        self, question: Question, limit: int, *, again: bool
    ) -> tuple[list[str], Mapping[str, Any]]:
        """What is to be done, and the answer's schema.

        A model of which no item could be believed is asked for less: a sentence of each of the
        messages that say most. A small one can do that, and whose words they are is known.
        """
        many = min(max(limit // _ITEM_TOKENS, _LEAST_ITEMS), _MOST_ITEMS)
        if not again:
            return [self._marks.closing("items_closing", limit, many=str(many))], SCHEMA
        shown = "\n".join(block.text for block in question.blocks)
        problem, seqs = self._problem(), self._verifier().messages.telling(shown, many)
        if seqs:
            names = ", ".join(f'"{seq}"' for seq in seqs)
            closing = self._marks.closing("lines_closing", limit, problem=problem, numbers=names)
            return [closing], lines_schema(seqs)
        closing = self._marks.closing("items_closing", limit, many=str(many))
        return [text_of("again", problem=problem), closing], SCHEMA

    def _problem(self) -> str:
        """What was wrong with an answer: reasons and counts, and nothing it said."""
        dropped = self._verifier().dropped.items()
        return ", ".join((self.faults[-1], *(f"{many} {why}" for why, many in dropped)))

    def _fitted(self, text: str, budget: int) -> str:
        """The text, without its last lines if it is a little over its budget."""
        tokens = self._count(text)
        while budget < tokens <= budget * _LONGER and "\n" in text:
            text = text.rpartition("\n")[0].rstrip()
            tokens = self._count(text)
        return text

    def _unfit(self, text: str, question: Question) -> str:
        """Why a template's text must not be committed; ``""`` if it may."""
        if not text.strip():
            return "empty"
        if self._marks.nonce in text or _is_echo(text, question.given):
            return "echo"
        return "over-budget" if self._count(text) > question.budget else ""


def _stopped(answer: Answer) -> str:
    """Why the answer is not whole; ``""`` if it is. Nothing a strange server says is repeated."""
    if answer.refused or answer.finish == "content_filter":
        return "refused"
    return "" if answer.finish in _FINISHED else "unfinished"


def _is_echo(text: str, given: str) -> bool:
    """Whether most of a text stands in the prompt as it is, in long runs of words."""
    words, given = plain(text).split(), plain(given)
    starts = range(0, len(words) - _ECHO_WORDS + 1, _ECHO_WORDS)
    runs = [" ".join(words[at : at + _ECHO_WORDS]) for at in starts]
    same = sum(run in given for run in runs)
    return same >= max(_LEAST_ECHOES, _ECHO_SHARE * len(runs))


_MARGIN: Final = 0.9
"""Share of the window that is used: the model may count with another vocabulary than we do."""

_FRAME_TOKENS: Final = 512
"""Marks around the blocks, what to do with them, and what was wrong with an earlier answer."""

_LEAST_INPUT: Final = 256
_BESIDE: Final = 4
"""A template's material that takes more than this part of the input is read in parts, too."""

_SHOWN: Final = 300
"""Characters of a rule or request that stands beside the summary, as a model is shown it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was made of a model's answers.

    Attributes:
        items: those that stood before and still hold, and those that were added.
        added: how many were.
        dropped: how many were not, by reason; and how many answers were asked for again.
    """

    text: str
    items: tuple[Item, ...] = ()
    added: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class Work:
    """One request: what it is made from, and the way from there to what stands for it."""

    def __init__(self, setup: Setup, request: SummaryRequest, counter: Counter) -> None:
        self.setup = setup
        self.request = request
        self.count = counter.count
        self.free = bool(request.instructions)
        self.records = without_memories(request.records)
        self.entries = [entry_of(seq, message, setup.redactor) for seq, message in self.records]
        self.known = carried(request)
        previous = request.previous if self.free else self._stands_anyway()
        self.previous = cleaned(previous, setup.redactor)
        self.system = _system(request, setup.redactor)
        self.material = [
            Block(name, cleaned(value, setup.redactor)) for name, value in request.material
        ]
        texts = [self.previous, self.system, *(entry.text for entry in self.entries)]
        texts += [block.text for block in self.material]
        self.marks = Marks(fresh_nonce(texts, setup.nonce))
        self._verifier: Verifier | None = None
        self.asker = Asker(setup, self.marks, self.count, self.verifier)

    def verifier(self) -> Verifier:
        """What says which items can be believed."""
        # Not a cached_property: Python 3.11 shares the lock of one among all threads.
        self._verifier = self._verifier or self._make_verifier()
        return self._verifier

    def _make_verifier(self) -> Verifier:
        request = self.request
        return Verifier(
            Messages(self.entries, request.digest.covered if request.digest else ()),
            prompt=instructions(),
            nonce=self.marks.nonce,
            known=self.known,
            stated=_stated(request),
            standing=self.setup.standing,
        )

    def only_prompt(self) -> Prompt | None:
        """What a model is given when one prompt is enough; None when it takes several."""
        parts = self._parts()
        if len(parts) > 1:
            return None
        return self.asker.first_prompt(self._text_of(parts) if self.free else self._items_of(parts))

    def write(self, answered: Answer | None = None) -> Written:
        """What stands for the request; a long conversation is read part by part.

        ``answered`` is a model's answer to the only prompt, where it was asked before.
        """
        behind_context = self._behind_context()
        parts = [] if behind_context else self._parts()
        if self.free and len(parts) <= 1:
            text = self.asker.text(self._text_of(parts), answered)
            return Written(text=text, dropped=self._asked_again())
        questions = [self._items_of([part]) for part in parts] or [self._items_of([])]
        added: list[Item] = []
        for question in [behind_context] if behind_context else questions:
            added += self.asker.items(question, answered)
        if self.free:
            text = self.asker.text(self._text_of([told(added)], "notes"))
            return Written(text=text, dropped=self._asked_again())
        if not added:
            raise self.asker.unusable()
        items = (*still_true(self.known, added), *added)
        fit = fitting(items, self.request.budget_tokens, self.count)
        return Written(
            text=told(fit, brief=self.request.brief),
            items=items,
            added=len(added),
            dropped={**self.dropped, **self._asked_again()},
        )

    def _asked_again(self) -> Mapping[str, int]:
        """How many answers failed a check, by the check."""
        return Tally(f"{ASKED_AGAIN}{fault}" for fault in self.asker.faults)

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many items could not be believed so far, by reason."""
        return dict(self._verifier.dropped) if self._verifier else {}

    def _behind_context(self) -> Question | None:
        """The same asked behind the agent's context, where it is wanted, can be sent and fits."""
        context, options = self.request.context, self.setup.options
        if context is None or self.setup.redactor or not can_be_sent(context, options.api):
            return None
        index = index_of(self.entries)
        used = context.tokens + self.count(instructions()) + self.count(index.text)
        if used + options.max_output_tokens + _FRAME_TOKENS > options.window_tokens * _MARGIN:
            return None
        return replace(self._items_of([]), blocks=[index], context=context)

    def _stands_anyway(self) -> str:
        """What a model need not say again: what the user laid down and asked for, and items."""
        lines = (f"- {' '.join(text.split())[:_SHOWN]}" for text in _stated(self.request))
        return "\n".join((*lines, *(item.line for item in self.known)))

    def _text_of(self, parts: Sequence[str], kind: str = "conversation") -> Question:
        """What a template asks."""
        blocks = [Block("summary so far", self.previous), *self.material]
        return Question(
            system=self.system,
            blocks=[*blocks, *(Block(kind, part) for part in parts)],
            budget=self.request.budget_tokens,
            free=True,
        )

    def _items_of(self, parts: Sequence[str]) -> Question:
        """What is asked about the conversation, or about a part of it."""
        share = 1.0 if self.request.brief else _ITEMS_SHARE
        return Question(
            system=instructions(),
            blocks=[
                Block("summary so far", self.previous),
                *(Block("conversation", part) for part in parts),
            ],
            budget=max(int(self.request.budget_tokens * share), 1),
        )

    def _parts(self) -> list[str]:
        """The conversation in as many parts as prompts are needed for it."""
        if not self.entries and not self.free:
            self.asker.faults.append("empty")
            raise self.asker.unusable()
        room = self._beside(self._room())
        return chunks(self.records, self.entries, room, self.marks.entry, self.count)

    def _beside(self, room: int) -> int:
        """What is left for the conversation beside a template's material.

        Material that is too long to stand beside it is read in parts, as the conversation is.
        """
        tokens = sum(self.count(self.marks.block(block)) for block in self.material)
        if tokens <= room // _BESIDE:
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


def _stated(request: SummaryRequest) -> list[str]:
    """What stands beside the summary in the user's words."""
    return [*(rule.text for rule in request.rules), *(each.text for each in request.asked)]


def _system(request: SummaryRequest, redactor: Redactor | None) -> str:
    """The instructions: ours, or a template's with what there is to know about the material."""
    if not request.instructions:
        return instructions()
    return f"{cleaned(request.instructions, redactor)}\n\n{text_of('material')}"
