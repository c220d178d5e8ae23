"""Processes that are spoken to line by line: the agents, and the model's endpoint."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from benchmarks.steps.load import Load, Outcome
from benchmarks.steps.processes import ROOT

__all__ = ["Agents", "Endpoint"]


class Spoken:
    """Runs ``python -m`` a module of this package; ends with the block it was started in."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self.pid = child.pid

    @classmethod
    @contextmanager
    def _started(cls, python: Sequence[str], module: str, *words: str) -> Iterator[Self]:
        command = [*python, "-m", f"benchmarks.steps.{module}", *words]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            try:
                yield cls(child)
            finally:
                child.kill()

    def hear(self) -> str:
        """Its next line."""
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def say(self, line: str) -> None:
        """A line to it."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()


class Agents(Spoken):
    """``agents`` under a load."""

    @classmethod
    @contextmanager
    def started(cls, name: str, load: Load, python: Sequence[str]) -> Iterator[Self]:
        """Not yet warm."""
        with cls._started(python, "agents", name, load.as_json()) as made:
            yield made

    def expect(self, word: str) -> None:
        """Wait until they say it.

        Raises:
            RuntimeError: they said something else, or ended.
        """
        said = self.hear()
        if said != word:
            raise RuntimeError(f"the agents said {said!r} instead of {word!r}")

    def outcome(self) -> Outcome:
        """What they saw, when they are done."""
        self.say("")
        return Outcome(**json.loads(self.hear()))


class Endpoint(Spoken):
    """``model``, which is serving."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        super().__init__(child)
        self.url = self.hear()

    @classmethod
    @contextmanager
    def started(cls, python: str, latency_s: float) -> Iterator[Self]:
        """As soon as it has a URL."""
        with cls._started([python], "model", str(latency_s)) as made:
            yield made

    def tell(self, what: str = "") -> dict[str, Any]:
        """How often it was asked so far; with ``marks``, about which turns."""
        self.say(what)
        told: dict[str, Any] = json.loads(self.hear())
        return told
