"""What a model adds to a summary: single statements, each with the messages it rests on.

They stand before the passages, one on a line, and the next compaction finds them there again. So a
model need not write anew what was written before, and what it leaves out is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from turnmill.contract.estimate import CountText
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.reading.changes import replaces
from turnmill_worker.reading.select import DECAY
from turnmill_worker.reading.words import KIND, PLAIN, concepts

KINDS: Final = (
    "rule",
    "said",
    "decision",
    "done",
    "doing",
    "todo",
    "question",
    "error",
    "finding",
    "artifact",
)
"""In the order in which they stand in a context; what the user ``said`` is in the user's words."""

_OPEN: Final = frozenset({"doing", "todo", "question"})
"""What a later item about the same settles."""

_SAME: Final = 0.6
"""An item of which another says so much is about the same."""

_LINE = re.compile(rf"- ({'|'.join(KINDS)}): (.+) \(#(\d{{1,12}}(?:, #\d{{1,12}})*)\)")
_ENDS: Final = (".", "!", "?", "。", "！", "？")


class Item(NamedTuple):
    """A statement.

    Attributes:
        kind: one of ``KINDS``.
        text: what is stated; of a rule, the user's own words.
        seqs: the turns it rests on, oldest first.
        quote: words of one of them, as a model gave them.
    """

    kind: str
    text: str
    seqs: tuple[int, ...] = ()
    quote: str = ""

    @property
    def line(self) -> str:
        """The item as it stands in a summary."""
        where = f" ({', '.join(f'#{seq}' for seq in self.seqs)})" if self.seqs else ""
        return f"- {self.kind}: {self.text}{where}"

    @property
    def sentence(self) -> str:
        """The item as it stands in an event."""
        said = f"{self.kind}: {self.text}" if self.kind in _OPEN else self.text
        return said if said.endswith(_ENDS) else f"{said}."

    @property
    def words(self) -> frozenset[int]:
        """What it says, in numbers, but for words that everybody says."""
        return content(self.text)


def content(text: str) -> frozenset[int]:
    """What a text says, in numbers, but for words that everybody says."""
    return frozenset([own for own in concepts(text, prose=False) if own & KIND != PLAIN])


def told(items: Iterable[Item], *, brief: bool = False) -> str:
    """The items as a text: a line each, always in the same order, or a few sentences."""
    if brief:
        return " ".join(item.sentence for item in sorted(items, key=lambda item: item.seqs))
    ordered = sorted(items, key=lambda item: (KINDS.index(item.kind), item.seqs, item.text))
    return "\n".join(item.line for item in ordered)


def items_of(summary: str) -> list[Item]:
    """The items that a summary begins with: what stands further below is quoted."""
    found = []
    for line in summary.split("\n"):
        item = _LINE.fullmatch(line)
        if item is None:
            break
        found.append(Item(item[1], item[2], tuple(int(seq) for seq in item[3].split(", #"))))
    return found


def carried(request: SummaryRequest) -> list[Item]:
    """What stood before and stays: the items of a summary, or the lines of events made one."""
    if not request.brief:
        return [] if request.template else items_of(request.previous)
    return [Item("done", line) for line in request.previous.split("\n") if line.strip()]


def still_true(older: Iterable[Item], newer: Sequence[Item]) -> list[Item]:
    """The older items without those that a newer one says again, settles or replaces."""
    return [own for own in older if not any(_is_past(own, other) for other in newer)]


def _is_past(own: Item, other: Item) -> bool:
    if own.kind == "rule" or max(own.seqs, default=0) > max(other.seqs):
        return False
    settled = own.kind in _OPEN and says(other.words, own.words, least=_SAME)
    return settled or replaces(own.text, other.text)


def says(words: frozenset[int], both: frozenset[int], *, least: float) -> bool:
    """Whether so much of what ``both`` says stands among the words."""
    return bool(both) and len(both & words) >= least * len(both)


def by_worth(items: Iterable[Item], worths: Mapping[int, float], count: CountText) -> list[Item]:
    """The items, those first that say most with each token; what one says counts less in others."""
    left = dict(worths)
    waiting = [(item, item.words, count(item.line) + 1) for item in items]
    found: list[Item] = []
    while waiting:
        best = max(waiting, key=lambda each: sum(left.get(own, 0.0) for own in each[1]) / each[2])
        waiting.remove(best)
        found.append(best[0])
        for own in best[1]:
            left[own] = left.get(own, 0.0) * DECAY[own & KIND]
    return found


def fitting(items: Iterable[Item], tokens: int, count: CountText) -> list[Item]:
    """The items in their order, without those that there is no room left for."""
    found = []
    for item in items:
        cost = count(item.line) + 1
        if cost <= tokens:
            found.append(item)
            tokens -= cost
    return found
