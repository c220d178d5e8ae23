"""What each namespace may use: the operator's file, read again when it changes.

    [default]
    pushes_per_second = 50

    [namespaces.acme]
    sessions = 1000
    bytes = 500_000_000
    memories = 10_000

A namespace has what its own table says, and for the rest what ``default`` says; what neither says
has no limit.

The sweep measures what namespaces use, and tells their clients which quotas are used up.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from turnmill.contract.names import Namespace
from turnmill_worker.errors import InvalidSettings
from turnmill_worker.store.reports import RedisUsage

log = structlog.get_logger()


class Quota(BaseModel):
    """What one namespace may use; None is no limit.

    Attributes:
        sessions: how many there are at once.
        bytes: memory of Redis for its sessions without their images, estimated from a sample.
        pushes_per_second: turns, over all clients together; more for a moment is made up later.
        memories: those that agents pushed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions: PositiveInt | None = None
    bytes: PositiveInt | None = None
    pushes_per_second: Annotated[float, Field(gt=0, le=1e6)] | None = None
    memories: PositiveInt | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    default: Quota = Quota()
    namespaces: dict[str, Quota] = {}


class Quotas:
    """The quotas of a file, or none at all without one."""

    def __init__(self, file: Path | None) -> None:
        """Read the file.

        Raises:
            InvalidSettings: it cannot be read, or is not what the module says.
        """
        self._path = file
        self._changed_ns = 0
        self._file = _File()
        if file is not None:
            self._changed_ns, self._file = _read(file)

    def of(self, name: Namespace) -> Quota:
        """What the namespace may use."""
        own = self._file.namespaces.get(name, Quota())
        return self._file.default.model_copy(update=own.model_dump(exclude_unset=True))

    def read_again(self) -> None:
        """Take over a changed file; one that is wrong changes nothing, and the log says so."""
        if self._path is None:
            return
        try:
            if self._path.stat().st_mtime_ns != self._changed_ns:
                self._changed_ns, self._file = _read(self._path)
        except (OSError, InvalidSettings) as error:
            log.warning("quotas not read again", why=str(error))


def _read(path: Path) -> tuple[int, _File]:
    try:
        changed_ns = path.stat().st_mtime_ns
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        return changed_ns, _File.model_validate(told)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSettings(f"TURNMILL_QUOTAS_FILE {path}: {error}") from None
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
        raise InvalidSettings(f"TURNMILL_QUOTAS_FILE {path}: {wrong}") from None


EVERY = 5
"""Sweeps between two measurements."""


class QuotaWatch:
    """Part of one sweeper's passes; without a file of quotas it costs nothing."""

    def __init__(self, quotas: Quotas, usage: RedisUsage) -> None:
        self._quotas = quotas
        self._usage = usage
        self._passes = 0
        self._told: dict[Namespace, set[str]] = {}

    def run(self, names: Sequence[Namespace]) -> None:
        """Measure these namespaces, now and then."""
        self._passes += 1
        if self._passes % EVERY != 1:
            return
        self._quotas.read_again()
        # Where pushes are refused, nothing is listed that would let a sweep visit the namespace.
        refused = {name for name, over in self._told.items() if over}
        for name in sorted(refused.union(names)):
            quota = self._quotas.of(name)
            if quota != Quota():
                self._look(name, quota)

    def _look(self, name: Namespace, quota: Quota) -> None:
        measured = (
            ("sessions", quota.sessions, self._usage.sessions),
            ("bytes", quota.bytes, self._usage.bytes),
        )
        over = {
            kind: (used, most)
            for kind, most, measure in measured
            if most is not None and (used := measure(name)) >= most
        }
        self._usage.tell(name, over, quota.pushes_per_second)
        if over.keys() != self._told.get(name, set()):
            log.warning("quota used up" if over else "quota free again", namespace=name, over=over)
        self._told[name] = set(over)
