"""The open requests a compaction has to keep: given room before it is planned."""

from __future__ import annotations

from dataclasses import replace

from turnmill.contract.names import Seq
from turnmill.contract.render import rules_message
from turnmill.contract.token_counters import Counter
from turnmill.open_requests.fitting import fitting, requests_room
from turnmill_worker.compaction.snapshot import Snapshot

__all__ = ["with_requests"]


def with_requests(
    snapshot: Snapshot, counter: Counter, *, through: Seq, share: float = 1.0
) -> Snapshot:
    """The session with the open requests of turns up to this one in its stored context.

    They are shortened to a share of the room they may take; see ``Plan.asked``.
    """
    rules = snapshot.stored.rules
    room = requests_room(
        snapshot.limits, counter.count_messages([rules_message(rules)]) if rules else 0
    )
    # What opened the session is fitted together: the last of it asks, the rest leads up to it.
    wanted = [request for request in snapshot.requests if request.first or request.seq <= through]
    fitted = fitting(wanted, int(room * share), counter.count)
    requests = tuple(request for request in fitted if request.seq <= through)
    if requests == snapshot.stored.requests:
        return snapshot
    stored = snapshot.stored.model_copy(update={"requests": requests})
    return replace(snapshot, stored=stored, unelided=snapshot.before)
