"""What a person sees while a command takes its time: on stderr, and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from turnmill_cli.output import stderr


@contextmanager
def asking(within_s: float) -> Iterator[None]:
    """While a worker is asked: says so, how long that may take, and what to do if there is none."""
    with _shown(
        SpinnerColumn(), TextColumn("{task.description}", style="dim", markup=False)
    ) as line:
        line.add_task(f"asking a worker, {within_s:g} s at most; `turnmill up` starts one")
        yield


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar; the caller tells it how many steps were taken.

    More steps than foreseen make the bar longer.
    """
    with _shown(*Progress.get_default_columns()[:3], MofNCompleteColumn()) as bar:
        task = bar.add_task(what, total=total)

        def on_steps(steps: int) -> None:
            done = bar.tasks[0].completed + steps
            bar.update(task, completed=done, total=max(total, done))

        yield on_steps


def _shown(*columns: str | ProgressColumn) -> Progress:
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=stderr(),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
