"""What an erasure reads of the archive and writes into it."""

from __future__ import annotations

from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import erase as erasing
from turnmill_worker.archive import scrub
from turnmill_worker.archive.database import Database
from turnmill_worker.archive.rows import epoch_number
from turnmill_worker.ports.erasure import Emptied, Erasure, Gone
from turnmill_worker.ports.values import SessionRef

__all__ = ["Erasures"]


class Erasures(Database):
    """The part of the archive that words leave by."""

    def epochs(self, ref: SessionRef) -> dict[str, str]:
        """The session's incarnations, oldest first, each after what Redis lost of it.

        By epoch; for what was lost, the epoch it was taken from.
        """
        with self._read() as connection:
            return erasing.epochs(connection, ref)

    def pushed_memories(self, namespace: Namespace) -> list[tuple[str, str]]:
        """Ids and texts of the memories that agents pushed to the namespace."""
        with self._read() as connection:
            return erasing.pushed(connection, namespace)

    def erase(
        self, ref: SessionRef, epoch: str, emptied: Emptied, *, dry_run: bool = False
    ) -> Gone:
        """Erase turns of one incarnation, and what was made of them; ``dry_run`` only counts.

        What a drain has read of Redis already is stored by it no more.
        """
        number = epoch_number(epoch)
        with self._write() as connection:
            gone = erasing.erase(connection, ref, number, emptied)
            if dry_run:
                connection.rollback()
        return gone

    def note_erasure(self, namespace: Namespace, erasure: Erasure) -> None:
        """Keep the record of an erasure; once more replaces it."""
        with self._write() as connection:
            erasing.note(connection, namespace, erasure)

    def erasures(self, namespace: Namespace, session: SessionId | None = None) -> list[Erasure]:
        """The records of erasures, oldest first, of one session or all."""
        with self._read() as connection:
            return erasing.recorded(connection, namespace, session)

    def rewrite(self) -> bool:
        """Write the database's files anew, without old bytes; False if it could not be done now."""
        return scrub.rewrite(self._engine)
