"""The check of `turnmill doctor` whether Redis returned to an earlier state than the archive's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from turnmill.contract.errors import TurnmillError
from turnmill.contract.names import SessionId
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.doctor.check import Check
from turnmill_cli.options import Connection
from turnmill_cli.output import CommandFailed, count
from turnmill_cli.redis_view import Positions
from turnmill_worker.failover.branches import Tip

__all__ = ["check_positions"]

SHOWN = 3
"""Sessions named."""


def check_positions(archive: ArchiveDatabase, connection: Connection) -> Iterator[Check]:
    """Whether a session's positions in Redis are behind the archive's; nothing without both."""
    try:
        if not archive.url or archive.is_absent:
            return
        # The archive first: what it has was in Redis before.
        with archive.open() as opened:
            tips = opened.tips(connection.check())
            lost = opened.lost(connection.check())
        with connection.redis() as view:
            present = view.positions(list(tips))
    except (CommandFailed, TurnmillError):  # the checks of both say why
        return
    if lost:
        yield _branches(lost)
    behind = _behind(tips, present)
    if not behind:
        yield Check("positions", "ok", "Redis is nowhere behind the archive")
        return
    named = ", ".join(
        f"{name} (turn {present[name].last_seq:,} of {tips[name].seq:,}, version "
        f"{present[name].version} of {tips[name].version})"
        for name in islice(behind, SHOWN)
    )
    more = f" and {len(behind) - SHOWN:,} more" if len(behind) > SHOWN else ""
    yield Check(
        "positions",
        "warning",
        f"Redis returned to an earlier state: {count(len(behind), 'session')} behind the archive: "
        f"{named}{more}",
        "`turnmill history SESSION` keeps apart what was lost, and says what; see Operations, "
        "“Where Redis may lose writes”",
    )


def _branches(lost: Mapping[SessionId, int]) -> Check:
    """What was lost and is kept; it stays, so nothing is to be done about it."""
    named = ", ".join(islice(lost, SHOWN)) + (", …" if len(lost) > SHOWN else "")
    found = f"the archive keeps what Redis once lost of {count(len(lost), 'session')} ({named}): "
    return Check("lost", "ok", f"{found}`turnmill archive lost SESSION` lists it")


def _behind(
    tips: Mapping[SessionId, Tip], present: Mapping[SessionId, Positions]
) -> Sequence[SessionId]:
    return [
        name
        for name, found in present.items()
        if found.epoch == tips[name].epoch
        and (found.last_seq < tips[name].seq or found.version < tips[name].version)
    ]
