"""A summary that is awaited for long: pure, and safe whatever happens to the session meanwhile.

Turns pushed meanwhile are left out of its plan, which is made again when the summary is there:
the same turns at the same version under the same policy lead to the same request, and ``digest``
shows that they did.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace

from pydantic import BaseModel, ConfigDict

from turnmill.contract.codec import encode_json
from turnmill.contract.names import Seq
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.snapshot import Snapshot

__all__ = ["Awaited", "as_of", "digest"]


class Awaited(BaseModel):
    """A request that was handed in at an endpoint, and how to know its answer again.

    Attributes:
        batch, file: the endpoint's names for the batch and for the file it was made from.
        nonce: the code of the request's marks.
        model: who was asked.
        summarizer: the registered name of who asked; older notes have none, and were of the one
            that took batches then.
        digest: of the request.
        epoch, settings, version, counted_seq: of the session, as it was planned from.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    batch: str
    file: str
    nonce: str
    model: str
    digest: str
    summarizer: str = "openai"
    epoch: str = ""
    settings: str = ""
    version: int = 0
    counted_seq: Seq = Seq(0)

    def of(self, snapshot: Snapshot) -> Awaited:
        """The same, planned from this snapshot."""
        return self.model_copy(
            update={
                "epoch": snapshot.epoch,
                "settings": snapshot.settings,
                "version": int(snapshot.version),
                "counted_seq": snapshot.counted_seq,
            }
        )

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the session is still at the version, and has the policy, it was planned for."""
        return (self.epoch, self.settings, self.version) == (
            snapshot.epoch,
            snapshot.settings,
            snapshot.version,
        )


def as_of(snapshot: Snapshot, seq: Seq) -> Snapshot:
    """The session as if nothing had been pushed after this turn, which has been counted."""
    return replace(
        snapshot,
        turns=tuple(turn for turn in snapshot.turns if turn.seq <= seq),
        counted_seq=seq,
        pending=0,
        pending_messages=(),
    )


def digest(request: SummaryRequest) -> str:
    """The same for two requests exactly if they are the same."""
    asked = asdict(replace(request, read=None, ranked=()))
    del asked["read"], asked["ranked"]  # they follow from the others
    return hashlib.sha256(encode_json(asked)).hexdigest()
