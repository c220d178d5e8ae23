"""Keeps workers and Flower running: starts them, starts the dead again, ends them in order."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Sequence

from turnmill_cli.broker_view import BrokerView
from turnmill_cli.local.child_process import Child, ChildSpec, end
from turnmill_cli.local.stop_signals import StopSignals
from turnmill_cli.output import CommandFailed

__all__ = ["Supervisor"]

START_S = 90.0
"""How long workers and Flower may take to answer."""

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Before a dead child's next start; the last one again and again."""

STEADY_S = 60.0
"""After running so long, a child's next death counts as its first."""

FLOWER_GRACE_S = 5.0


class Supervisor:
    """The children of one `turnmill up`; call it from the main thread only (see tether).

    Args:
        flower: None for none; its port is where it is asked whether it answers.
        tell: takes a line for the person at the terminal.
    """

    def __init__(
        self,
        workers: Sequence[ChildSpec],
        flower: ChildSpec | None,
        *,
        flower_port: int,
        tell: Callable[[str], None],
    ) -> None:
        self._workers = [Child(spec) for spec in workers]
        self._flower = [Child(flower)] if flower else []
        self._flower_port = flower_port
        self._tell = tell
        self._deaths: dict[str, int] = {}
        self._again_at: dict[str, float] = {}

    @property
    def dead(self) -> list[str]:
        """The names of the children that have ended."""
        return [child.spec.name for child in self._all() if not child.alive]

    @property
    def workers_alive(self) -> tuple[int, int]:
        """How many workers run, of how many."""
        return sum(child.alive for child in self._workers), len(self._workers)

    def start(self, broker: BrokerView, signals: StopSignals) -> None:
        """Start all, and return when all answer or when told to stop.

        Raises:
            CommandFailed: one ended, or did not answer in time; says where its log is.
        """
        for child in self._all():
            child.start()
        deadline = time.monotonic() + START_S
        silent = self._silent(broker)
        while silent and not signals.stopping:
            for child in self._all():
                if not child.alive:
                    raise CommandFailed(f"{_ended(child)}: {child.last_line()}")
            if time.monotonic() > deadline:
                raise CommandFailed(f"{silent[0].spec.name} does not answer; {_log(silent[0])}")
            signals.sleep(0.2)
            silent = self._silent(broker)

    def check(self) -> None:
        """Start again what has died, a little later each time."""
        now = time.monotonic()
        for child in self._all():
            name = child.spec.name
            if child.alive:
                continue
            if name not in self._again_at:
                pause = self._pause(child, now)
                self._again_at[name] = now + pause
                self._tell(f"{_ended(child)}; starting it again in {pause:.0f} s")
            elif now >= self._again_at[name]:
                del self._again_at[name]
                child.start()

    def stop(self, *, grace_s: float, hurry: Callable[[], bool]) -> None:
        """End Flower, then the workers: warmly, and after the grace by force."""
        killed = end(self._flower, grace_s=FLOWER_GRACE_S, hurry=hurry)
        killed += end(self._workers, grace_s=grace_s, hurry=hurry)
        for name in killed:
            self._tell(f"{name} did not end in time and was killed")

    def _all(self) -> list[Child]:
        return [*self._workers, *self._flower]

    def _pause(self, child: Child, now: float) -> float:
        name = child.spec.name
        deaths = 0 if now - child.started_at > STEADY_S else self._deaths.get(name, 0)
        self._deaths[name] = deaths + 1
        return PAUSES_S[min(deaths, len(PAUSES_S) - 1)]

    def _silent(self, broker: BrokerView) -> list[Child]:
        try:
            answering = broker.answering([child.spec.node for child in self._workers])
        except Exception:  # noqa: BLE001 - any broker's any failure: asked again until the deadline
            answering = set()
        silent = [child for child in self._workers if child.spec.node not in answering]
        if self._flower and not _answers(self._flower_port):
            silent += self._flower
        return silent


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _ended(child: Child) -> str:
    code = child.exit_code or 0
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{child.spec.name} ended ({how}; {_log(child)})"


def _log(child: Child) -> str:
    return f"see the end of {child.spec.log}"
