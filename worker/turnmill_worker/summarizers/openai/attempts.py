"""Asking a model for one text: at most twice, and never the same question again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnmill_worker.errors import UnusableSummary
from turnmill_worker.ports.work_while_waiting import done_while_waiting
from turnmill_worker.spending import Spent
from turnmill_worker.summarizers.openai.answers import Answer
from turnmill_worker.summarizers.openai.checks.checker import Accepted, Checker, Fault, Kind
from turnmill_worker.summarizers.openai.endpoint import ModelOptions, Prompt
from turnmill_worker.summarizers.openai.gated_endpoint import Endpoint
from turnmill_worker.summarizers.openai.prices import Prices
from turnmill_worker.summarizers.openai.prompts import Block, Marks, text_of

__all__ = ["Asker", "Question"]

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
        self.spent += self._prices.spent(answer, self._options.model)
        return checker().check(
            answer, question.given, question.budget, sectioned=question.sectioned
        )
