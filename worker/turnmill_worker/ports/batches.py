"""Batches of requests at a model's endpoint, and what is remembered of one while it is awaited.

When the summary is there, its plan is made again without the turns pushed meanwhile: the same turns
at the same version under the same policy lead to the same request, and ``digest`` shows that they
did.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from turnmill.contract.codec import encode_json
from turnmill.contract.estimate import Counter
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy
from turnmill_worker.compaction.plan import SummaryRequest
from turnmill_worker.compaction.snapshot import Snapshot
from turnmill_worker.ports.models import Summarizer
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.spending import NOTHING, Spent

__all__ = ["AwaitedSummary", "BatchEndpoint", "BatchNotes", "RememberedBatch", "digest"]


class AwaitedSummary(BaseModel):
    """A request that was handed in at an endpoint, and how to know its answer again.

    Attributes:
        batch, file: the endpoint's names for the batch and for the file it was made from.
        nonce: the code of the request's marks.
        model: the model that was asked.
        summarizer: the registered name of the summarizer that asked; older notes have none, and
            are of the only one that took batches then.
        digest: of the request.
        epoch, revision, version, counted_seq: of the session when the request was planned.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", hide_input_in_errors=True, populate_by_name=True
    )

    batch: str
    file: str
    nonce: str
    model: str
    digest: str
    summarizer: str = "openai"
    epoch: str = ""
    revision: str = Field(default="", alias="settings")
    version: int = 0
    counted_seq: Seq = Seq(0)

    def of(self, snapshot: Snapshot) -> AwaitedSummary:
        """The same, planned from this snapshot."""
        return self.model_copy(
            update={
                "epoch": snapshot.epoch,
                "revision": snapshot.revision,
                "version": int(snapshot.version),
                "counted_seq": snapshot.counted_seq,
            }
        )

    def fits(self, snapshot: Snapshot) -> bool:
        """Whether the session is still at the version, and has the policy, it was planned for."""
        return (self.epoch, self.revision, self.version) == (
            snapshot.epoch,
            snapshot.revision,
            snapshot.version,
        )


def digest(request: SummaryRequest) -> str:
    """A digest, equal for two requests exactly if they are equal."""
    earlier = request.digest.known.stored() if request.digest else {}
    fields = asdict(replace(request, digest=None)) | {"known": earlier}
    return hashlib.sha256(encode_json(fields)).hexdigest()


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """The batch a session awaits, as it is remembered.

    Attributes:
        note: the same as it is stored.
        age_s: seconds since it was handed in.
    """

    awaited: AwaitedSummary
    note: bytes
    age_s: float


class BatchEndpoint(Protocol):
    """Where batches are handed in."""

    def submit(
        self, policy: Policy, request: SummaryRequest, counter: Counter
    ) -> AwaitedSummary | None:
        """Hand the request in; None when it cannot be asked in a batch.

        Raises:
            Transient, SummarizerFailed: the endpoint did not take it.
            SummaryRejected: there is nothing to ask.
        """

    def poll(self, policy: Policy, awaited: AwaitedSummary) -> Summarizer | None:
        """A summarizer that has the answer, or None while there is none.

        Raises:
            Transient: the endpoint cannot be asked now.
            SummarizerFailed: there will be no answer.
        """

    def cost(self, awaited: AwaitedSummary) -> Spent:
        """What it has cost by now, if the endpoint can be asked and tells."""

    def discard(self, awaited: AwaitedSummary) -> None:
        """End it, and remove what the endpoint keeps of it, if the endpoint can be asked."""


class BatchNotes(Protocol):
    """Remembers which batches sessions await."""

    def remember(self, ref: SessionRef, awaited: AwaitedSummary) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""

    def remembered(self, ref: SessionRef) -> RememberedBatch | None:
        """The awaited batch, and for how long it has been awaited."""

    def drop(self, ref: SessionRef, batch: RememberedBatch, spent: Spent = NOTHING) -> bool:
        """Drop the note; what was ``spent`` counts for the next commit. False when it was gone."""

    def has_orphan(self, ref: SessionRef) -> bool:
        """Whether a forgotten session of this session's shard awaited a batch."""

    def take_orphan(self, ref: SessionRef) -> AwaitedSummary | None:
        """Take a batch that a forgotten session of this session's shard awaited; each only once."""
