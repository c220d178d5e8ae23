"""The proof that a session is gone from the archive: its database says so, or a worker does."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from turnmill.contract.errors import NotAnswered, Transient, UnknownSession
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.output import CommandFailed, count
from turnmill_cli.progress import asking
from turnmill_worker.ports.values import SessionRef

if TYPE_CHECKING:
    from turnmill.client._sync.client import ContextClient

__all__ = ["Proof", "known_turns", "prove"]

LOOK_EVERY_S = 0.1
PENDING = "a worker of the queue archive will remove it; until then, Redis keeps the order to do so"


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
        UnknownSession: neither Redis nor the archive has it.
        NotAnswered: Redis does not have it, and no worker said whether the archive does.
    """
    try:
        return count(client.info(session).last_seq, "turn")
    except UnknownSession:  # expired: the archive may have it all the same
        with asking(timeout_s):
            found = client.trajectory(session, timeout_s=timeout_s)
        return f"{count(len(found.turns), 'turn')} in the archive"


def prove(
    client: ContextClient, session: str, archive: ArchiveDatabase, *, timeout_s: float
) -> Proof:
    """Look until the archive has nothing of the session, for ``timeout_s`` at most.

    An archive that was named is believed to be the workers'. If it was only found here, or there is
    none, a worker is asked.
    """
    if not timeout_s:
        return Proof(gone=False, found=f"not looked at: {PENDING}")
    deadline = time.monotonic() + timeout_s
    is_here = _is_here(archive)
    is_named = is_here and bool(archive.archive_url or archive.data_dir)
    while True:
        proof = None if is_named else _asked(client, session, deadline)
        if proof is None or (proof.gone and is_here):
            proof = _looked_at(archive, client.namespace, session)
        if proof.gone or time.monotonic() > deadline:
            return proof
        time.sleep(LOOK_EVERY_S)


def _is_here(archive: ArchiveDatabase) -> bool:
    try:
        return bool(archive.url) and not archive.is_absent
    except CommandFailed:  # the workers' packages are not installed
        return False


def _looked_at(archive: ArchiveDatabase, namespace: str, session: str) -> Proof:
    ref = SessionRef(Namespace(namespace), SessionId(session))  # the client has checked both
    with archive.open() as opened:
        left = asdict(opened.left(ref))
    if any(left.values()):
        there = ", ".join(f"{number:,} {kind}" for kind, number in left.items() if number)
        return Proof(gone=False, found=f"{archive} still has {there}: {PENDING}", left=left)
    kinds = ", ".join(f"0 {kind}" for kind in left)
    return Proof(gone=True, found=f"{kinds} left in {archive}", left=left)


def _asked(client: ContextClient, session: str, deadline: float) -> Proof:
    within_s = max(deadline - time.monotonic(), LOOK_EVERY_S)
    try:
        found = client.trajectory(session, timeout_s=within_s)
    except UnknownSession:
        return Proof(gone=True, found="a worker looked and found nothing of it")
    except NotAnswered:
        return Proof(gone=False, found=f"no worker answered: {PENDING}")
    except Transient as error:
        return Proof(gone=False, found=f"{type(error).__name__}: {error}: {PENDING}")
    return Proof(gone=False, found=f"it still has {count(len(found.turns), 'turn')}: {PENDING}")
