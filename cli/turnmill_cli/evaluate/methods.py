"""What stands for old turns: the ways to shorten records to a budget that are compared.

A method is given the records in the portions a session would compact them in. `rolling` makes a
new text of its last one and each portion; the others look at all records at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from turnmill.contract.context import SummaryEvent
from turnmill.contract.names import Seq
from turnmill.contract.render import event_text
from turnmill.contract.token_counters import Counter
from turnmill_cli.evaluate.word_matching import Record, text_of
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.strategies.iterations import event_tokens
from turnmill_worker.compaction.with_digest import digest_of
from turnmill_worker.errors import SummaryRejected
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.reading.known import Known

__all__ = ["BASELINES", "METHODS", "MeteredSummarizer", "Method", "Portions", "method", "portions"]

Portions = Sequence[Sequence[Record]]
Method = Callable[[Portions, int], str]
Count = Callable[[str], int]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FRAME_TOKENS: Final = 2


def portions(records: Sequence[Record], rounds: int, count: Count) -> list[list[Record]]:
    """The records in so many portions of about the same tokens, or fewer."""
    sizes = [count(text_of(message)) + 4 for _, message in records]
    share, passed = sum(sizes) / rounds or 1, 0.0
    parts: list[list[Record]] = [[] for _ in range(rounds)]
    for record, size in zip(records, sizes, strict=True):
        parts[min(int((passed + size / 2) / share), rounds - 1)].append(record)
        passed += size
    return [part for part in parts if part]


# --- without a summarizer -----------------------------------------------------------------------


def window(records: Sequence[Record], budget: int, count: Count) -> str:
    """The newest whole messages that fit, then as much of the next one's end as fits."""
    kept: list[str] = []
    for seq, message in reversed(records):
        who, words = message.get("name") or message["role"], text_of(message).split()
        low, high = 0, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            line = f"{seq} {who}: {' '.join(words[-middle:])}"
            fits = count("\n".join([line, *reversed(kept)])) <= budget
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            kept.append(f"{seq} {who}: {' '.join(words[-low:])}")
        if low < len(words):
            break
    return "\n".join(reversed(kept))


def head_tail(records: Sequence[Record], budget: int, count: Count) -> str:
    """The oldest whole messages in half of the budget, and the newest in what is left."""
    lines = [f"{seq} {m.get('name') or m['role']}: {text_of(m)}" for seq, m in records]
    at = left = 0
    for line in lines:
        cost = count(line) + 1
        if left + cost > budget // 2:
            break
        left, at = left + cost, at + 1
    head = "\n".join(lines[:at])
    tail = window(records[at:], budget - left, count)
    return "\n".join(text for text in (head, tail) if text)


def lead(records: Sequence[Record], budget: int, count: Count) -> str:
    """First sentences, oldest message first, while they fit; then second sentences, and so on."""
    sentences = [_SENTENCE_END.split(" ".join(text_of(m).split())) for _, m in records]
    depth = max(map(len, sentences), default=0)
    taken = [0] * len(records)
    left = budget
    for rank, turn in ((r, t) for r in range(depth) for t in range(len(records))):
        if rank < len(sentences[turn]):
            cost = count(f" {sentences[turn][rank]}") + (0 if rank else 6)
            if cost > left:
                break
            left -= cost
            taken[turn] += 1
    return "\n".join(
        f"{seq} {m.get('name') or m['role']}: {' '.join(s[:n])}"
        for (seq, m), s, n in zip(records, sentences, taken, strict=True)
        if n
    )


# --- with one -----------------------------------------------------------------------------------


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

    def text(self, records: Sequence[Record], budget: int, *, previous: str = "") -> str:
        """An event of the previous text and the records; "" when what is written is refused."""
        asked = tuple((Seq(seq), dict(message)) for seq, message in records)
        return self._asked(
            SummaryRequest(previous=previous, records=asked, budget_tokens=budget, brief=True)
        )

    def _asked(self, request: SummaryRequest) -> str:
        if request.budget_tokens <= 0:
            return ""
        self.requests += 1
        try:
            summary = self.summarizer.summarize(request, self.counter)
        except SummaryRejected as error:
            self.refused += 1
            self.pay(getattr(error, "spent", None))
            return ""
        self.pay(summary)
        if self.counter.count(summary.text) > request.whole_tokens:
            self.refused += 1
            return ""
        return summary.text

    def rolling(self, parts: Portions, budget: int) -> str:
        """One text, made anew from the last one and each portion, and the facts beside it.

        A refused text changes nothing.
        """
        count, prose = self.counter.count, ""
        known = Known()
        whole = budget - _FRAME_TOKENS if self.ledger else budget
        apart = int(self.ledger * whole)
        beside = ""
        for part in parts:
            said = tuple((Seq(seq), dict(message)) for seq, message in part)
            request = SummaryRequest(
                previous=prose, records=said, budget_tokens=whole - apart, ledger_tokens=apart
            )
            digest = digest_of(request, self.counter, known)
            prose = self._asked(replace(request, digest=digest)) or prose
            room = whole - count(prose)
            beside = digest.beside(prose, room) if room > _LEAST_TOKENS and apart else ""
            known = digest.after(whole)
        return "\n".join(text for text in (prose, beside) if text)

    def once(self, parts: Portions, budget: int) -> str:
        """One text, made of all records at once."""
        return self.rolling([list(chain.from_iterable(parts))], budget)

    def iterations(self, parts: Portions, budget: int) -> str:
        """A short text for each user request and what follows; older ones folded into one."""
        count = self.counter.count
        events = [self._event(n, own) for n, own in enumerate(_steps(parts), 1)]
        texts = [event_text(event) for event in events]
        sizes = [count(text) + 1 for text in texts]
        if sum(sizes) <= budget:
            return "\n".join(texts)
        at, left = len(texts), budget // 2
        while at and sizes[at - 1] <= left:
            at -= 1
            left -= sizes[at]
        folded = events[0].model_copy(
            update={
                "last_iteration": events[at - 1].iteration,
                "last_seq": events[at - 1].last_seq,
                "text": "",
            }
        )
        room = budget - sum(sizes[at:]) - count(event_text(folded)) - _FRAME_TOKENS
        older = self.text((), room, previous="\n".join(e.text for e in events[:at] if e.text))
        text = "\n".join([event_text(folded.model_copy(update={"text": older})), *texts[at:]])
        # Where even the frame of the older ones is too much, only the newest have room.
        return text if room > 0 and count(text) <= budget else "\n".join(texts[at:])

    def _event(self, number: int, own: Sequence[Record]) -> SummaryEvent:

        tokens = sum(self.counter.count(text_of(message)) + 4 for _, message in own)
        budget = max(event_tokens(tokens), _LEAST_TOKENS)
        return SummaryEvent(
            iteration=number,
            last_iteration=number,
            first_seq=own[0][0],
            last_seq=own[-1][0],
            text=self.text(own, budget),
        )


_LEAST_TOKENS: Final = 24


def _steps(parts: Portions) -> list[list[Record]]:
    steps: list[list[Record]] = []
    for record in chain.from_iterable(parts):
        if not steps or (record[1]["role"] == "user" and steps[-1][-1][1]["role"] != "user"):
            steps.append([])
        steps[-1].append(record)
    return steps


BASELINES: Final = {"window": window, "head+tail": head_tail, "lead": lead}
"""The strategies without a summarizer."""

METHODS: Final = ("rolling", "extract", "iterations", *BASELINES)
"""The strategies that can be compared."""


def method(name: str, metered: MeteredSummarizer) -> Method:
    """The method of this name."""
    if name in BASELINES:
        baseline, count = BASELINES[name], metered.counter.count
        return lambda parts, budget: baseline(list(chain(*parts)), budget, count)
    return {
        "rolling": metered.rolling,
        "extract": metered.once,
        "iterations": metered.iterations,
    }[name]
