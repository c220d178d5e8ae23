"""The telephone game: the same turns in one compaction and in many, at one budget."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from turnmill_cli.evaluate.boards.squeezed import SqueezedSession
from turnmill_cli.evaluate.methods import BASELINES, MeteredSummarizer, Portions, method
from turnmill_cli.evaluate.metrics import Mean
from turnmill_cli.evaluate.sheet import Sheet
from turnmill_cli.evaluate.survival import DataSet, survival
from turnmill_cli.output import each_shown

__all__ = ["ROUNDS", "telephone_board"]

ROUNDS: Final = (1, 2, 5, 10, 20, 50, 100)

_METRICS: Final = ("ECR", "AER", "FUR")
_LINE: Final = re.compile(r"^#?(\d+) ", re.MULTILINE)


def telephone_board(
    data: DataSet,
    share: float,
    metered: MeteredSummarizer,
    rounds: Sequence[int] = ROUNDS,
) -> Sheet:
    """Survival by how many compactions the turns went through; baselines know only one."""
    rows: dict[str, list[Mean]] = {}
    made = []
    count = metered.counter.count
    for n in each_shown(f"rounds of {data.name}", rounds):
        played = Played(metered)
        # Nothing is compacted before there are more turns than the budget has room for.
        parts = n if n == 1 else math.ceil(n / (1 - share))
        for metric, mean in survival(data, played, share, count, rounds=parts).items():
            rows.setdefault(f"rolling {metric}", []).append(mean)
        made.append(f"{played.compactions.value or 0:.0f}")
    for name in BASELINES:
        for metric, mean in survival(data, method(name, metered), share, count).items():
            rows[f"{name} {metric}"] = [mean] * len(rounds)
    sheet = Sheet(f"{data.name}: survival at {share:.0%} by compactions", ["", *map(str, rounds)])
    sheet.rows += [(name, *means) for name, means in rows.items() if name.endswith(_METRICS)]
    sheet.caption = f"compactions there were, mean: {', '.join(made)}"
    return sheet


class Played:
    """A method that pushes each portion into one session and compacts it, all stages included.

    Attributes:
        compactions: of each conversation.
    """

    def __init__(self, metered: MeteredSummarizer) -> None:
        self._metered = metered
        self.compactions = Mean()

    def __call__(self, parts: Portions, budget: int) -> str:
        """The last context; nothing when it has no room in the budget."""
        session = SqueezedSession(self._metered)
        seqs = [0]
        for part in parts:
            said = [(seq, message) for seq, message in part if message["role"] != "system"]
            seqs += (seq for seq, _ in said)
            session.extend(dict(message) for _, message in said)
            session.squeeze(budget)
        self.compactions.add(session.compactions)
        text = _LINE.sub(lambda found: f"{seqs[int(found[1])]} ", session.text())
        return text if self._metered.counter.count(text) <= budget else ""
