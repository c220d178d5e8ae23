"""What Redis has is what the archive calls the session's own, also after Redis went back."""

from __future__ import annotations

import structlog

from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.past import Past
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import SessionRef

__all__ = ["past_agreed"]

log = structlog.get_logger()


def past_agreed(
    states: States, archive: Archive | None, ref: SessionRef, *, thoroughly: bool = False
) -> Past | None:
    """All of the session in Redis; what else the archive has is kept as a lost branch.

    That is what comes after Redis' newest turn and commit. ``thoroughly``: where it has more, or
    has as much, every turn and commit is compared as well.
    """
    # The archive first: what it has by now was in Redis before.
    tip = archive.tip(ref) if archive else None
    past = states.past(ref)
    if archive is None or past is None or tip is None or tip.epoch != past.epoch:
        return past
    other = tip.version == past.version and bool(tip.commit_id) and tip.commit_id != past.commit_id
    if thoroughly or other or tip.is_ahead_of(past.tip):
        version = past.version - 1 if other else past.version
        lost = archive.lose(ref, tip, past.seen, last_seq=past.last_seq, version=version)
        if lost is not None:
            log.warning("redis went back", session=ref.session, **lost.numbers)
    return past
