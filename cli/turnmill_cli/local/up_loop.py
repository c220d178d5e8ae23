"""The loop of `turnmill up`: look after the children, and show the state."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

from rich.live import Live
from rich.text import Text

from turnmill_cli.local.status import StatusReader
from turnmill_cli.local.stop_signals import StopSignals
from turnmill_cli.local.supervisor import Supervisor
from turnmill_cli.output import stdout

__all__ = ["watch"]

TICK_S = 1.0
PLAIN_EVERY_S = 10.0
"""Between two lines, if the output is not a terminal, where one line is rewritten."""


def watch(
    reader: StatusReader,
    supervisor: Supervisor,
    signals: StopSignals,
    check_redis: Callable[[], None],
) -> None:
    """Supervise until told to stop, or until ``check_redis`` raises."""
    console = stdout()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    shown_at = -PLAIN_EVERY_S
    with live or nullcontext():
        while not signals.stopping:
            check_redis()
            supervisor.check()
            now = time.monotonic()
            if live:
                line = Text(_line(reader, supervisor))
                # Room for the ^C a terminal echoes: a line it breaks could not be rewritten.
                line.truncate(console.width - len("^C "), overflow="ellipsis")
                live.update(line, refresh=True)
            elif now - shown_at >= PLAIN_EVERY_S:
                console.print(_line(reader, supervisor), markup=False, soft_wrap=True)
                shown_at = now
            signals.sleep(TICK_S)


def _line(reader: StatusReader, supervisor: Supervisor) -> str:
    alive, of = supervisor.workers_alive
    return f"{alive}/{of} workers · {reader.line()}"
