"""The offline summarizer: from turns and a budget to a text, without model, key or network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Any, Final

from turnmill.contract.policy import OFFLINE
from turnmill.contract.token_counters import Counter, CountText
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.ports.values import Summary
from turnmill_worker.reading.earlier_summary import add_previous
from turnmill_worker.reading.messages import read_units
from turnmill_worker.reading.units import GROUP_MARK, Line, Source, Unit, Units
from turnmill_worker.summarizers.extractive.select import Selection
from turnmill_worker.summarizers.extractive.telegraph import is_english, telegraph
from turnmill_worker.summarizers.extractive.unit_worth import Worth, appraise

__all__ = ["ExtractiveSummarizer", "extract"]


class ExtractiveSummarizer:
    """The ``Summarizer`` port over ``extract``: keeps the sentences and facts worth most."""

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:
        """The most telling parts of the previous summary and the records, within the budget."""
        units = request.records.units
        if request.asked:
            units = units.without_said_in({each.seq for each in request.asked})
        text = _extract(units, request.previous, request.budget_tokens, counter.count)
        return Summary(text=text, model=OFFLINE)


def extract(
    records: Sequence[tuple[int, Mapping[str, Any]]],
    *,
    previous: str = "",
    budget_tokens: int,
    count: CountText,
) -> str:
    """What of `previous` and `records` is most likely to be needed, in at most `budget_tokens`.

    `records` are `(seq, OpenAI chat message)` in conversation order; `previous` is a summary this
    function made of the turns before them. Never raises on any content. Pure and deterministic.
    """
    return _extract(read_units(records), previous, budget_tokens, count)


def _extract(newer: Units, previous: str, budget_tokens: int, count: CountText) -> str:
    found = Units([], [])
    add_previous(found, previous)
    found.add_all(newer)
    lines, units = found.lines, found.units
    if not units or budget_tokens <= 0:
        return ""
    verbatim = [unit.text for unit in units]
    if sum(map(len, verbatim)) <= budget_tokens * _CHARS_PER_TOKEN:
        whole = _render(lines, units, verbatim, range(len(units)))
        if count(whole) <= budget_tokens:
            return whole
    spared = _spared(lines, units, budget_tokens, count)
    texts = _shortened(lines, units, spared)
    worth = appraise(lines, units, texts)
    order = _order(lines, units, worth, texts, budget_tokens, count)
    return _longest_that_fits(lines, units, texts, order, budget_tokens, count)


_CHARS_PER_TOKEN: Final = 16
"""More characters per token than any text has: past it, counting tokens only wastes time."""

_USER_SHARE: Final = 0.5
"""Up to this share of the budget, what the user said is not put into telegraph style."""

_SMALLER_TRIED: Final = 16
"""Units tried, in order, in the room that was too small for the next best one."""


def _spared(
    lines: Sequence[Line], units: Sequence[Unit], budget: int, count: CountText
) -> frozenset[Source]:
    """Whose words stay as they were said: the user's, while they are a small part of the budget."""
    said = " ".join(unit.text for unit in units if lines[unit.line].source is Source.USER)
    room = int(budget * _USER_SHARE)
    fits = len(said) <= room * _CHARS_PER_TOKEN and count(said) <= room
    return frozenset({Source.USER}) if fits else frozenset()


def _shortened(
    lines: Sequence[Line], units: Sequence[Unit], spared: AbstractSet[Source]
) -> list[str]:
    """Every unit's text, in telegraph style where somebody wrote it in English."""
    shortened = {Source.USER, Source.ASSISTANT} - spared
    texts: list[str] = []
    for line, members in groupby(units, key=lambda unit: unit.line):
        own = [unit.text for unit in members]
        may = not lines[line].settled and lines[line].source in shortened
        prose = may and is_english(own)
        texts.extend(telegraph(text) if prose else text for text in own)
    return texts


def _order(
    lines: Sequence[Line],
    units: Sequence[Unit],
    worth: Worth,
    texts: Sequence[str],
    budget: int,
    count: CountText,
) -> list[int]:
    """The units that about fill the budget, best first, by costs added up from their parts."""
    told: dict[str, Source] = {}
    line_costs = [count(f"\n{_opening(line, named=_is_told(line, told))}") for line in lines]
    group_costs = [1] * (units[-1].group + 1)
    for unit in units:
        if unit.label and group_costs[unit.group] == 1:
            group_costs[unit.group] = count(f"; {unit.label}:")
    selection = Selection(
        units,
        worth,
        costs=_costs(texts, count),
        group_costs=group_costs,
        line_costs=line_costs,
    )
    return selection.run(budget + budget // 5 + 16)


def _costs(texts: Sequence[str], count: CountText) -> list[int]:
    """The tokens of each text behind a space; the same text is counted once."""
    known = {text: count(f" {text}") for text in dict.fromkeys(texts)}
    return [known[text] for text in texts]


def _longest_that_fits(
    lines: Sequence[Line],
    units: Sequence[Unit],
    texts: Sequence[str],
    order: Sequence[int],
    budget: int,
    count: CountText,
) -> str:
    """The longest beginning of `order` whose exact count is within the budget, and small change."""
    best = ""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        candidate = _render(lines, units, texts, order[:middle])
        if count(candidate) <= budget:
            best, low = candidate, middle
        else:
            high = middle - 1
    chosen = list(order[:low])
    for position in order[low + 1 : low + 1 + _SMALLER_TRIED]:
        candidate = _render(lines, units, texts, [*chosen, position])
        if count(candidate) <= budget:
            best = candidate
            chosen.append(position)
    return best


# --- the text: one line per message, call or result that keeps anything -------------------------


def _opening(line: Line, *, named: bool = False) -> str:
    """`12 user:`; with `named`, the speaker's role was told before and the name stands for it."""
    seq = "" if line.seq is None else f"{line.seq} "
    if named and line.name:
        return f"{seq}{line.name}:"
    return f"{seq}{line.source.value}{' ' if line.name else ''}{line.name}:"


def _render(
    lines: Sequence[Line], units: Sequence[Unit], texts: Sequence[str], chosen: Iterable[int]
) -> str:
    """The chosen units, in conversation order."""
    told: dict[str, Source] = {}
    out: list[str] = []
    at_line = at_group = -1
    for index in sorted(chosen):
        unit = units[index]
        if unit.line != at_line:
            at_line, at_group = unit.line, unit.group
            line = lines[at_line]
            out += ["\n" if out else "", _opening(line, named=_is_told(line, told)), " "]
            out.append(f"{unit.label}: " if unit.label else "")
        elif unit.group != at_group:
            at_group = unit.group
            out.append(f"{GROUP_MARK}{unit.label}: " if unit.label else GROUP_MARK)
        else:
            out.append(" ")
        out.append(texts[index])
    return "".join(out)


def _is_told(line: Line, told: dict[str, Source]) -> bool:
    """Whether the name alone says who speaks; notes in `told` that it has been said."""
    if line.source not in {Source.USER, Source.ASSISTANT} or not line.name:
        return False
    if line.name in told:
        return told[line.name] is line.source
    told[line.name] = line.source
    return False
