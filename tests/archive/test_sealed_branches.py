"""What Redis lost can still be read where the archive is encrypted."""

from __future__ import annotations

from contextlib import closing

from tests.archive.records import EPOCH, compaction, session, turn
from tests.plain_cipher import cipher
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch


def test_a_lost_branch_can_be_decrypted(empty_url: str) -> None:
    ref = session("s")
    told = Batch(turns=(turn(1), turn(2), turn(3)), compactions=(compaction(1),))
    with closing(SqlArchive.open(empty_url, cipher)) as archive:
        archive.store(ref, EPOCH, told)
        tip = archive.tip(ref)
        assert tip
        lost = archive.lose(ref, tip, Batch(), last_seq=1, version=0)

        assert lost
        assert [each.messages for each in archive.turns(ref, epoch=EPOCH)] == [turn(1).messages]
        found = archive.turns(ref, epoch=lost.epoch)
        assert [each.messages for each in found] == [turn(2).messages, turn(3).messages]
        assert archive.compactions(ref, epoch=lost.epoch)[0].context == compaction(1).context
