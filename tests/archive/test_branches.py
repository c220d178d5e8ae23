"""What contradicts the archive is kept apart and never dropped: Redis went back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.archive.records import EPOCH, compaction, image, turn
from turnmill_worker.archive import SqlArchive
from turnmill_worker.failover.branches import LostBranch
from turnmill_worker.ports.protocols import ArchiveDiverged
from turnmill_worker.ports.values import ArchivedTurn, Batch, Drain, Mark, Removed, SessionRef


def said(
    seqs: Iterable[int], history: str, *, blobs: tuple[str, ...] = ()
) -> tuple[ArchivedTurn, ...]:
    """Turns of one history: other turns than those of another."""
    made = [turn(seq, {"role": "user", "content": f"{history} {seq}"}, blobs=blobs) for seq in seqs]
    return tuple(replace(each, chain=f"{history}-{each.seq}") for each in made)


def drain(*steps: Batch | Mark) -> Drain:
    """What Redis has."""
    return Drain(epoch=EPOCH, steps=steps, turns_through="", commits_through="")


def lose(archive: SqlArchive, ref: SessionRef, now: Drain) -> LostBranch | None:
    """Keep apart what contradicts this, as far as it goes."""
    tip = archive.tip(ref)
    assert tip is not None
    seen = next(step for step in now.steps if isinstance(step, Batch))
    lost: LostBranch | None = archive.lose(ref, tip, seen, last_seq=tip.seq, version=tip.version)
    return lost


def texts(archive: SqlArchive, ref: SessionRef) -> list[str]:
    return [each.messages.decode().split('"')[-2] for each in archive.turns(ref)]


def test_a_turn_at_an_archived_position_is_not_dropped(
    archive: SqlArchive, ref: SessionRef
) -> None:
    archive.store(ref, EPOCH, Batch(turns=said(range(1, 5), "old")))

    with pytest.raises(ArchiveDiverged):
        archive.store(ref, EPOCH, Batch(turns=said(range(3, 6), "new")))

    assert texts(archive, ref) == ["old 1", "old 2", "old 3", "old 4"]


def test_what_redis_lost_is_a_branch_and_what_it_has_is_the_session(
    archive: SqlArchive, ref: SessionRef
) -> None:
    first = said([1, 2], "first")
    archive.store(ref, EPOCH, Batch(turns=first + said([3, 4], "old")))
    now = drain(Batch(turns=first + said([3], "new")))

    lost = lose(archive, ref, now)
    archive.drain({ref: now})

    assert texts(archive, ref) == ["first 1", "first 2", "new 3"]
    assert lost is not None
    assert (lost.branch, lost.turns, lost.first_seq, lost.last_seq) == (1, 2, 3, 4)
    assert archive.branches(ref) == [lost]
    assert tuple(archive.turns(ref, epoch=lost.epoch)) == said([3, 4], "old")


@pytest.mark.parametrize("ids", [("a", "b"), ("", "")], ids=["with ids", "without"])
def test_versions_are_compared_too_and_the_summary_is_of_what_is_left(
    archive: SqlArchive, ref: SessionRef, ids: tuple[str, str]
) -> None:
    def commit(version: int, summary: str, commit_id: str, at_ms: int = 1) -> Any:
        made = compaction(version, summary=summary)
        return replace(made, commit_id=commit_id, at_ms=at_ms)

    archive.store(ref, EPOCH, Batch(compactions=(commit(1, "one", "x"), commit(2, "old", ids[0]))))
    now = drain(Batch(compactions=(commit(2, "new", ids[1], at_ms=2),)))
    with pytest.raises(ArchiveDiverged):
        archive.drain({ref: now})

    lose(archive, ref, now)
    remembered = [memory.text for _, memory in archive.memories(ref.namespace)]
    archive.drain({ref: now})

    assert remembered == ["[context-summary] one"]
    assert [memory.text for _, memory in archive.memories(ref.namespace)] == [
        "[context-summary] new"
    ]
    assert [each.commit_id for each in archive.compactions(ref)] == ["x", ids[1]]


def test_a_lost_branch_keeps_its_images_and_is_forgotten_with_its_session(
    archive: SqlArchive, ref: SessionRef
) -> None:
    shown = image(b"seen by what was lost")
    old = said([1], "old", blobs=(shown.sha256,))
    archive.store(ref, EPOCH, Batch(turns=old, blobs=(shown,)))
    now = drain(Batch(turns=said([1], "new")))

    lost = lose(archive, ref, now)
    archive.drain({ref: now})

    assert lost is not None
    assert tuple(archive.turns(ref, epoch=lost.epoch)) == old
    assert archive.blobs(ref.namespace, [shown.sha256])
    removed = archive.forget_epochs(ref, through_epoch=EPOCH)
    assert (removed.turns, removed.blobs) == (2, 1)
    assert archive.left(ref) == Removed()
    assert archive.branches(ref) == []


def test_a_tip_that_has_moved_on_loses_nothing(archive: SqlArchive, ref: SessionRef) -> None:
    """A worker was stopped between looking at Redis and writing: others went on."""
    archive.store(ref, EPOCH, Batch(turns=said([1, 2], "one")))
    tip = archive.tip(ref)
    assert tip is not None
    archive.store(ref, EPOCH, Batch(turns=said([3], "one")))

    lost: LostBranch | None = archive.lose(ref, tip, Batch(), last_seq=1, version=0)

    assert lost is None
    assert len(archive.turns(ref)) == 3
