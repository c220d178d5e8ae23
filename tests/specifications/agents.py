"""What the tests of the specifications share: a worker with an archive, and how to wait for it."""

from __future__ import annotations

from pathlib import Path

from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, ContextInfo, ContextManager
from turnmill.connection.embedded import EmbeddedRedis

__all__ = ["archive_url", "settle", "settled", "worker_with_archive"]


def worker_with_archive(server: EmbeddedRedis, folder: Path, **env: str) -> WorkerProcess:
    """A worker that keeps its archive in ``folder``, not started yet."""
    own = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data"), **env}
    return WorkerProcess(server.url, folder, env=own)


def archive_url(folder: Path) -> str:
    """Where such a worker keeps its archive."""
    return f"sqlite:///{folder / 'data' / 'archive.db'}"


def settle(session: ContextManager, *, within_s: float = 30.0) -> None:
    """Wait until workers have counted every turn and have nothing left to do for the session."""

    def settled() -> bool:
        info = session.info()
        return info.counted_seq == info.last_seq and info.due_in_s is None

    wait_until(settled, within_s=within_s, what="session settled")


def settled(client: ContextClient, session: str, *, within_s: float = 30.0) -> ContextInfo:
    """The session's numbers once no worker has anything left to do for it."""

    def nothing_left() -> bool:
        info = client.info(session)
        is_counted = info.counted_seq == info.last_seq and info.pending_for_s is None
        return is_counted and info.due_in_s is None

    wait_until(nothing_left, within_s=within_s, what="session settled")
    return client.info(session)
