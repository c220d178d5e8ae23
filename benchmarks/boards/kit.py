"""The board of compaction-conformance-kit: its sessions, its probes, its references, our rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import compaction_kit

from benchmarks.boards.common import Sheet, cell, each_shown, is_past
from benchmarks.boards.squeezed import SqueezedSession
from benchmarks.survival import BASELINES
from turnmill.contract.context import JsonMessage
from turnmill_cli.evaluate.measuring import Mean, MeteredSummarizer, Record, stems

ROUNDS: Final = 5
SEEDS: Final = (1, 2, 3, 4)
_REFERENCES: Final = ("SemanticChecklistCompactor", "UpdateAwareChecklistCompactor")
_COLUMNS: Final = (
    "round 1",
    "round 5",
    "newest",
    "resolved",
    "stale",
    "unmarked",
    "related",
    "fits",
)
_GOING_ON: Final = ("Let us go on.", "All right, going on.")
_HEADER: Final = re.compile(
    r"^(?:(?:safety rule|hard constraint|fact|goal state|user preference|quick update|update): )+",
    re.IGNORECASE,
)


class Compactor(Protocol):
    """What the kit asks of a compactor: text for turns, at most so many characters."""

    name: str

    def compact(self, turns: Sequence[Any], round_num: int = 1, budget_chars: int = 0) -> Any:
        """The context after one more round."""


class Pipeline:
    """One of our sessions: compacted whole, then again after a few more words in each round.

    The kit gives each round the text of the last one. A session is not made from its own text: it
    goes on with what it stored beside it, as a worker would.
    """

    name = "rolling"

    def __init__(self, metered: MeteredSummarizer) -> None:
        self._metered = metered
        self._session: SqueezedSession | None = None
        self._tokens = 0

    @property
    def compactions(self) -> int:
        """Rounds that were compactions."""
        return self._session.compactions if self._session else 0

    def compact(self, turns: Sequence[Any], round_num: int = 1, budget_chars: int = 0) -> Any:
        """The context after one more round."""
        session = self._session
        if session is None:
            session = self._session = SqueezedSession(self._metered, turns[0].text)
            session.extend(_messages(turns[1:]))
            self._tokens = session.squeeze_to_chars(budget_chars, session.history_tokens)
            return _compacted(session.text(), self.name, round_num)
        while not session.exceeds(self._tokens):
            session.extend(_going_on())
        session.squeeze_to_chars(budget_chars, self._tokens)
        return _compacted(session.text(), self.name, round_num)


class Baseline:
    """A method without a summarizer, over all turns so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._records: list[Record] = []

    def compact(self, turns: Sequence[Any], round_num: int = 1, budget_chars: int = 0) -> Any:
        """The context after one more round."""
        more = _going_on() if self._records else _messages(turns[1:])
        self._records += enumerate(more, len(self._records) + 1)
        most = budget_chars
        while len(text := BASELINES[self.name](self._records, most, len)) > budget_chars:
            most = most * 9 // 10
        return _compacted(text, self.name, round_num)


def kit_board(
    budgets: Sequence[float], metered: MeteredSummarizer, *, seeds: Sequence[int] = SEEDS
) -> list[Sheet]:
    """A table for each budget: survival, conflicts and stale values beside the kit's references."""
    kit: Any = compaction_kit
    makers: dict[str, Callable[[], Compactor]] = {"rolling": lambda: Pipeline(metered)}
    makers |= {name: partial(Baseline, name) for name in BASELINES}
    makers |= {f"kit: {getattr(kit, name).name}": getattr(kit, name) for name in _REFERENCES}
    plain = [kit.build_random_session(seed) for seed in seeds]
    builders = (kit.build_semantic_session, kit.build_semantic_heldout_session)
    updated = [build(seed) for build in builders for seed in seeds]
    sheets = []
    for share in each_shown("budgets of the kit", budgets):
        title = f"compaction-conformance-kit {kit.kit_version()} at {share:.0%} of the characters"
        sheet = Sheet(title, ["", *_COLUMNS])
        for name, make in makers.items():
            means = {column: Mean() for column in _COLUMNS}
            for session, canaries in plain:
                _survival(_run(session, canaries, make(), share), canaries, means)
            for session, canaries, about in updated:
                _conflicts(_run(session, canaries, make(), share), canaries, about, means)
            sheet.rows.append((name, *map(cell, means.values())))
        sheet.caption = _caption(means)
        sheets.append(sheet)
    return sheets


def _run(session: Any, canaries: Any, compactor: Compactor, share: float) -> Any:
    return compaction_kit.run_conformance(
        session, compactor, rounds=ROUNDS, canaries=canaries, budget_fraction=share
    )


def _survival(run: Any, canaries: Sequence[Any], means: Mapping[str, Mean]) -> None:
    for column, found in zip(_COLUMNS, (run.rounds[0], run.rounds[-1]), strict=False):
        means[column].add(sum(found.survived.values()), len(canaries))
    _within(run, means)


def _conflicts(
    run: Any, canaries: Sequence[Any], about: Mapping[str, Any], means: Mapping[str, Mean]
) -> None:
    text = run.rounds[-1].context.text.lower()
    for canary in (each for each in canaries if each.id in about["conflicts"]):
        newest = all(token.lower() in text for token in canary.required_tokens)
        old = [token.lower() for token in canary.superseded_tokens]
        stale = any(token in text for token in old)
        unmarked = any(
            token in line and not is_past(line) for line in text.split("\n") for token in old
        )
        means["newest"].add(newest)
        means["resolved"].add(newest and not stale)
        means["stale"].add(stale)
        means["unmarked"].add(unmarked)
        if _subject(canary.content) & _subject(about["initial_statements"][canary.id]):
            means["related"].add(unmarked)
    _within(run, means)


def _within(run: Any, means: Mapping[str, Mean]) -> None:
    means["fits"].add(all(each.within_budget for each in run.rounds))


def _subject(statement: str) -> frozenset[str]:
    """What a statement is about: its stems without its header."""
    return stems(_HEADER.sub("", statement))


def _caption(means: Mapping[str, Mean]) -> str:
    return "n: " + ", ".join(f"{name} {mean.n}" for name, mean in means.items())


def _messages(turns: Sequence[Any]) -> list[JsonMessage]:
    return [{"role": turn.role, "content": turn.text} for turn in turns]


def _going_on() -> list[JsonMessage]:
    said, answered = _GOING_ON
    return [{"role": "user", "content": said}, {"role": "assistant", "content": answered}]


def _compacted(text: str, name: str, round_num: int) -> Any:
    return compaction_kit.CompactedContext(text=text, compactor_name=name, round_num=round_num)
