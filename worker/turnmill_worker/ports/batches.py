"""Batches of requests at a model's endpoint, and what is remembered of one while it is awaited.

Turns pushed meanwhile are left out of a summary's plan, which is made again when the summary is
there: the same turns at the same version under the same policy lead to the same request, and
``digest`` shows that they did.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from turnmill.contract.codec import encode_json
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy
from turnmill.contract.token_counters import Counter
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
        model: who was asked.
        summarizer: the registered name of who asked; older notes have none, and were of the one
            that took batches then.
        digest: of the request.
        epoch, revision, version, counted_seq: of the session, as it was planned from.
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
    """The same for two requests exactly if they are the same."""
    return hashlib.sha256(encode_json(asdict(request))).hexdigest()


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """What a session awaits, as it is remembered.

    Attributes:
        note: the same as it is stored.
        age_s: since it was handed in.
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
        """What it has cost by now, as far as the endpoint can be asked and tells."""

    def discard(self, awaited: AwaitedSummary) -> None:
        """End it, and remove what the endpoint keeps of it, as far as the endpoint can be asked."""


class BatchNotes(Protocol):
    """Remembers what sessions await."""

    def remember(self, ref: SessionRef, awaited: AwaitedSummary) -> bool:
        """Remember it; False when there is another, or the session was forgotten meanwhile."""

    def remembered(self, ref: SessionRef) -> RememberedBatch | None:
        """What is awaited, and for how long by now."""

    def drop(self, ref: SessionRef, batch: RememberedBatch, spent: Spent = NOTHING) -> bool:
        """No longer remember it; ``spent`` on it counts for the next commit. False: it was gone."""

    def has_orphan(self, ref: SessionRef) -> bool:
        """Whether there is one that a forgotten session of this one's shard awaited."""

    def take_orphan(self, ref: SessionRef) -> AwaitedSummary | None:
        """One that a forgotten session awaited, of the sessions in this one's shard; only once."""
