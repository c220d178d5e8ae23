"""A table as a value: shown on a terminal, written as Markdown, or given to a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from rich.table import Table

from turnmill_cli.evaluate.metrics import Mean

__all__ = ["Cell", "Sheet", "cell", "plain"]

Cell = str | int | Mean


@dataclass(slots=True)
class Sheet:
    """A table.

    Attributes:
        columns: the first one names the rows.
        caption: a line below it, or ``""``.
        lost: what was looked for in vain, in the user's own words; only for a file.
    """

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    caption: str = ""
    lost: list[str] = field(default_factory=list)

    def table(self) -> Table:
        """For a terminal."""
        made = Table(title=self.title, title_justify="left", pad_edge=False)
        for at, column in enumerate(self.columns):
            made.add_column(column, justify="right" if at else "left", no_wrap=True)
        for row in self.rows:
            made.add_row(*map(_shown, row))
        if self.caption:
            made.caption, made.caption_justify = self.caption, "left"
        return made

    def markdown(self) -> Iterator[str]:
        """The lines of it in Markdown."""
        yield f"**{self.title}**"
        yield ""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|---|{'--:|' * (len(self.columns) - 1)}"
        for row in self.rows:
            yield f"| {' | '.join(map(_shown, row))} |"
        if self.caption:
            yield ""
            yield self.caption

    def to_json(self) -> dict[str, Any]:
        """Rows by their names."""
        names = self.columns[1:]
        rows = {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in self.rows}
        return {"title": self.title, "rows": plain(rows), "caption": self.caption}


def plain(value: Any) -> Any:
    """The value with each mean as its value and size, and what has fields as an object."""
    match value:
        case Mean():
            return {"value": value.value, "n": value.n}
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def cell(mean: Mean) -> str:
    """A mean in two digits."""
    if mean.value is None:
        return "-"
    return "1.0" if mean.value > 0.995 else f"{mean.value:.2f}"[1:]  # noqa: PLR2004 - as it rounds


def _shown(value: Cell) -> str:
    if isinstance(value, Mean):
        return cell(value)
    return f"{value:,}" if isinstance(value, int) else value
