"""The proof that a session is gone from the archive: its database is looked at, or a worker is."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turnmill.contract.errors import NotAnswered, Transient, UnknownSession
from turnmill_cli.archive_database import archive_file, archive_url, open_archive, shown_url
from turnmill_cli.output import CommandFailed, count

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient

__all__ = ["Proof", "known_turns", "prove"]

LOOK_EVERY_S = 0.1
PENDING = "a worker that consumes the queue archive removes it; Redis keeps the order until then"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known about a session in the archive.

    Attributes:
        gone: it was looked for, and nothing of it is there.
        found: the same in words.
        left: rows by kind where the archive's database was looked at, else None.
    """

    gone: bool
    found: str
    left: dict[str, int] | None = None


def known_turns(client: ContextClient, session: str, timeout_s: float) -> str:
    """How many turns would be forgotten, in words.

    Raises:
        UnknownSession: neither in Redis nor in the archive.
        NotAnswered: not in Redis, and no worker said whether it is in the archive.
    """
    try:
        return count(client.info(session).last_seq, "turn")
    except UnknownSession:  # expired: the archive may have it all the same
        found = client.trajectory(session, timeout_s=timeout_s)
        return f"{count(len(found.turns), 'turn')} in the archive"


def prove(
    client: ContextClient, session: str, url: str, data_dir: Path | None, *, timeout_s: float
) -> Proof:
    """Look until the archive has nothing of the session, for ``timeout_s`` at most.

    An archive that was named is believed to be the workers'; beside one that was merely found
    here, or none, a worker is asked.
    """
    if not timeout_s:
        return Proof(gone=False, found=f"not looked at: {PENDING}")
    deadline = time.monotonic() + timeout_s
    place = _reachable(url, data_dir)
    is_named = bool(place and (url or data_dir))
    while True:
        proof = _asked(client, session, deadline) if not is_named else None
        if place and (proof is None or proof.gone):
            proof = _looked_at(place, client.namespace, session)
        assert proof is not None  # noqa: S101 - one of both was done
        if proof.gone or time.monotonic() > deadline:
            return proof
        time.sleep(LOOK_EVERY_S)


def _reachable(url: str, data_dir: Path | None) -> str:
    """The URL of an archive that is here, or ``""``."""
    try:
        place = archive_url(url, data_dir)
    except CommandFailed:
        return ""
    file = archive_file(place)
    return place if file is None or file.exists() else ""


def _looked_at(place: str, namespace: str, session: str) -> Proof:
    from turnmill.contract.names import namespace as checked  # noqa: PLC0415
    from turnmill.contract.names import session_id  # noqa: PLC0415
    from turnmill_worker.ports.values import SessionRef  # noqa: PLC0415

    with open_archive(place) as archive:
        left = asdict(archive.left(SessionRef(checked(namespace), session_id(session))))
    where = shown_url(place)
    if any(left.values()):
        there = ", ".join(f"{number:,} {kind}" for kind, number in left.items() if number)
        return Proof(gone=False, found=f"{where} still has {there}: {PENDING}", left=left)
    kinds = ", ".join(f"0 {kind}" for kind in left)
    return Proof(gone=True, found=f"{kinds} left in {where}", left=left)


def _asked(client: ContextClient, session: str, deadline: float) -> Proof:
    within_s = max(deadline - time.monotonic(), LOOK_EVERY_S)
    try:
        found = client.trajectory(session, timeout_s=within_s)
    except UnknownSession:
        return Proof(gone=True, found="a worker looked, and finds nothing of it")
    except NotAnswered:
        return Proof(gone=False, found=f"no worker answered: {PENDING}")
    except Transient as error:
        return Proof(gone=False, found=f"{type(error).__name__}: {error}: {PENDING}")
    return Proof(gone=False, found=f"still {count(len(found.turns), 'turn')}: {PENDING}")
