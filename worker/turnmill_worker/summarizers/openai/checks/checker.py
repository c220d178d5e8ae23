"""Whether a model's answer may stand for a conversation: accepted, or what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from turnmill_worker.summarizers.openai.checks.demands import (
    LEAST_GOAL_SUPPORT,
    Said,
    attributed,
    constraints,
    goals,
)
from turnmill_worker.summarizers.openai.checks.language import Spoken
from turnmill_worker.summarizers.openai.checks.section_parser import (
    SECTIONS,
    WHERE,
    Parsed,
    lines_of,
    parse,
    rendered,
    unwrapped,
)
from turnmill_worker.summarizers.openai.endpoint import Answer

Kind = Literal[
    "refused",
    "unfinished",
    "empty",
    "echo",
    "error-text",
    "sections",
    "over-budget",
    "foreign",
    "invented",
    "unknown-seq",
]

_FINISHED: Final = frozenset({"stop", "eos", "eos_token", "end_turn", "completed"})

_REFUSAL = re.compile(
    r"\W*(?:i['’]?m sorry|i am sorry|sorry,|i apologi[sz]e|unfortunately, i|as an ai\b"
    r"|i (?:can(?:not|['’]t)|am unable|['’]?m unable|won['’]t|will not|must decline)\b"
    r".{0,60}\b(?:help|assist|comply|summari[sz]e|provide|fulfil|do that|request)"
    r"|i (?:must|have to) (?:respectfully |politely )?decline"
    r"|i(?: am|['’]m) not (?:able|comfortable)"
    r"|this (?:request|content) (?:violates|cannot be|is not allowed)"
    r"|(?:es )?tut mir (?:sehr )?leid|leider kann ich|ich kann (?:dabei|das|dies\w*) nicht"
    r"|(?:je suis )?désolée?\b|je ne peux pas|lo siento|no puedo|mi dispiace|non posso"
    r"|desculpe|lamento\b|sinto muito|não posso|het spijt me|ik kan (?:dit|dat|u|je) .{0,20}niet"
    r"|извините|простите|к сожалению, я|я не могу"
    r"|(?:非常|很)?抱歉|[对對]不起|我(?:无法|無法|不能)|申し訳|죄송)",
    re.IGNORECASE,
)
_ERROR_TEXT = re.compile(
    r"\W*(?:error\b|traceback \(most|exception\b|http(?:/1\.1)? ?[45]\d\d\b|internal server error"
    r"|rate limit|\{\s*\"(?:error|detail)\")",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:[-*•]\s*)?#(\d{1,12})(?:\s{0,3}(?:[-–—]|to)\s{0,3}#?(\d{1,12}))?")

_ECHO_WORDS: Final = 40
_ECHO_SHARE: Final = 0.7
_LEAST_ECHOES: Final = 3

_LEAST_TOKENS: Final = 32
_CHARS_PER_LEAST: Final = 200
_BUDGET_PER_LEAST: Final = 8
"""An answer has at least 32 tokens, or fewer where little was said, or little may be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an answer was thrown away; ``detail`` quotes none of it."""

    kind: Kind
    detail: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A text that may be committed."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """Checks answers to one request.

    Attributes:
        said: what the user said.
        spoken: by user and assistant, and in the previous summary: the language to keep.
        last_seq: the newest message there is.
        count: tokens of a text.
        nonce: the code of the request's marks.
    """

    said: Said
    spoken: Spoken = field(repr=False)
    last_seq: int
    count: Callable[[str], int]
    nonce: str

    def check(
        self, answer: Answer, given: str, budget: int, *, sectioned: bool = True
    ) -> Accepted | Fault:
        """The answer's text, or the first fault found.

        ``given`` is what must not come back as it is: instructions and messages, but not earlier
        summaries, which should. ``sectioned`` asks for our sections; what a managed template asks
        for is its own matter.
        """
        if answer.refused:
            return Fault("refused", "the model refused")
        if answer.finish == "content_filter":
            return Fault("refused", "held back by the endpoint's filter")
        if answer.finish not in _FINISHED:
            # Only the API's own words: what a strange server says is not repeated.
            known = answer.finish if answer.finish in ("length", "unknown") else "other"
            return Fault("unfinished", f"not complete, finish reason {known}")
        text = unwrapped(answer.text)
        if not text:
            return Fault("empty", "empty")
        fault = self._echo(text, given)
        if fault is None and _REFUSAL.match(text):
            fault = Fault("refused", "words of refusal")
        if fault is None and _ERROR_TEXT.match(text):
            fault = Fault("error-text", "an error message instead of a summary")
        if fault is not None:
            return fault
        return self._sections(text, budget) if sectioned else self._free(text, budget)

    def _sections(self, text: str, budget: int) -> Accepted | Fault:
        parsed = parse(text)
        if parsed.missing or parsed.extra:
            missing = ", ".join(parsed.missing) or "none"
            detail = f"sections missing: {missing}; {parsed.extra} unknown or twice"
            return Fault("sections", detail)
        if parsed.is_empty:
            return Fault("empty", "no section says anything")
        whole = rendered(parsed)
        return (
            self._size(whole, budget)
            or _refusing(parsed)
            or self._hollow("\n".join(_said_in(parsed)), budget)
            or self._foreign([body for body in parsed.bodies.values() if lines_of(body)])
            or self._invented(parsed)
            or self._unknown(parsed)
            or Accepted(whole)
        )

    def _free(self, text: str, budget: int) -> Accepted | Fault:
        found = Parsed(bodies={"": text})
        return (
            self._size(text, budget)
            or self._hollow(text, budget)
            or self._foreign([text])
            or self._invented(found)
            or Accepted(text)
        )

    def _size(self, text: str, budget: int) -> Fault | None:
        tokens = self.count(text)
        return (
            Fault("over-budget", f"{tokens} tokens, allowed {budget}") if tokens > budget else None
        )

    def _hollow(self, text: str, budget: int) -> Fault | None:
        """Whether it says next to nothing: with the ledger beside it, such a text scores well."""
        said = self.spoken.characters // _CHARS_PER_LEAST
        least = min(_LEAST_TOKENS, said, budget // _BUDGET_PER_LEAST)
        tokens = self.count(text)
        return (
            Fault("empty", f"{tokens} tokens for a whole conversation") if tokens < least else None
        )

    def _foreign(self, bodies: Sequence[str]) -> Fault | None:
        if self.spoken.is_foreign("\n".join(bodies)):
            return Fault("foreign", "not in the conversation's language")
        return None

    def _invented(self, parsed: Parsed) -> Fault | None:
        demands, wishes, told = constraints(parsed), goals(parsed), attributed(parsed)
        invented = self.said.unsupported(demands) + self.said.invented(told)
        invented += self.said.unsupported(wishes, LEAST_GOAL_SUPPORT)
        if invented:
            total = len(demands) + len(wishes) + len(told)
            detail = f"{invented} of {total} demands of the user are in no message of theirs"
            return Fault("invented", detail)
        return None

    def _unknown(self, parsed: Parsed) -> Fault | None:
        seqs = seqs_in(parsed.bodies.get(WHERE, ""))
        wrong = sum(not 1 <= seq <= self.last_seq for seq in seqs)
        return Fault("unknown-seq", f"{wrong} message numbers that do not exist") if wrong else None

    def _echo(self, text: str, given: str) -> Fault | None:
        """Marks of ours, or long runs of words that stand in the prompt as they are."""
        if self.nonce in text:
            return Fault("echo", "marks of the prompt")
        words = text.split()
        runs = [
            " ".join(words[at : at + _ECHO_WORDS])
            for at in range(0, len(words) - _ECHO_WORDS + 1, _ECHO_WORDS)
        ]
        if len(runs) < _LEAST_ECHOES:
            return None
        plain = " ".join(given.split())
        same = sum(run in plain for run in runs)
        if same >= _LEAST_ECHOES and same / len(runs) >= _ECHO_SHARE:
            return Fault("echo", f"{same} of {len(runs)} runs of {_ECHO_WORDS} words copied")
        return None


def seqs_in(text: str) -> list[int]:
    """The numbers of messages that lines begin with, such as ``- #12–#18: the exchange``."""
    ranges = filter(None, map(_RANGE.match, text.split("\n")))
    return [int(seq) for found in ranges for seq in found.groups() if seq]


def _said_in(parsed: Parsed) -> list[str]:
    return [body for title, body in parsed.bodies.items() if title != WHERE and lines_of(body)]


def _refusing(parsed: Parsed) -> Fault | None:
    """A refusal spread over the sections; one line of it may be what somebody said."""
    opening = [lines[0] for title in SECTIONS if (lines := lines_of(parsed.bodies[title]))]
    refusals = sum(bool(_REFUSAL.match(line)) for line in opening)
    if refusals * 2 > len(opening):
        return Fault("refused", f"words of refusal in {refusals} sections")
    return None
