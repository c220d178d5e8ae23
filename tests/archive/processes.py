"""What other processes do to an archive while a test looks."""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.archive.records import EPOCH, LATER, session, turn
from turnmill.contract.names import Namespace
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, Memory


def pool(workers: int) -> ProcessPoolExecutor:
    """Processes that have inherited nothing."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def open_and_store(url: str, worker: int, at: float) -> int:
    """Open the archive at the appointed moment, store one turn; how many sessions there are."""
    time.sleep(max(0, at - time.time()))
    archive = SqlArchive.open(url)
    archive.store(session(f"agent-{worker}"), EPOCH, Batch(turns=(turn(1),)))
    there = len(archive.sessions(Namespace("shop")))
    archive.close()
    return there


def store_in_turns(url: str, worker: int, batches: int) -> None:
    """Store to a session of one's own and to one all share, and remember."""
    archive = SqlArchive.open(url)
    for at in range(batches):
        ten = tuple(map(turn, range(at * 10 + 1, at * 10 + 11)))
        archive.store(session(f"agent-{worker}"), EPOCH, Batch(turns=ten))
        archive.store(session("shared"), EPOCH, Batch(turns=ten))
        pushed = Memory(id=f"{worker}-{at}", kind="pushed", text="x")
        archive.remember(Namespace("shop"), pushed)
    archive.close()


def store_forever(url: str) -> None:
    """Store batches of 50 until killed; says when each is durable."""
    archive = SqlArchive.open(url)
    for at in range(1_000_000):
        fifty = tuple(map(turn, range(at * 50 + 1, at * 50 + 51)))
        archive.store(session("agent-7"), LATER, Batch(turns=fifty))
        sys.stdout.write(f"{at}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    store_forever(sys.argv[1])
