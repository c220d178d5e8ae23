"""The file of results: everything that was measured, added to from run to run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.steps.idle import Idle
from benchmarks.steps.measure import Run

__all__ = ["Results"]


@dataclass
class Results:
    """What is known of each table.

    Attributes:
        machines: date, load and speed when each was measured, by table.
        tables: label and run of each row, by table.
        rates: turns a second that were meant, and the run.
        idles: with few and with many namespaces.
    """

    machines: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, Run]]] = field(default_factory=dict)
    rates: list[tuple[int, Run]] = field(default_factory=list)
    idles: list[Idle] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """What the file holds; nothing when there is none."""
        if not path.exists():
            return cls()
        found: dict[str, Any] = json.loads(path.read_text())
        return cls(
            machines=found["machines"],
            tables={
                name: [(label, Run.from_json(run)) for label, run in rows]
                for name, rows in found["tables"].items()
            },
            rates=[(level, Run.from_json(run)) for level, run in found["rates"]],
            idles=[Idle(**each) for each in found["idles"]],
        )

    def write(self, path: Path) -> None:
        """Keep it for another run, or for the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))

    def labelled(self, name: str) -> dict[str, list[Run]]:
        """The runs of each row of a table."""
        found: dict[str, list[Run]] = {}
        for label, run in self.tables.get(name, ()):
            found.setdefault(label, []).append(run)
        return found
