"""The rules a compaction has to keep: found before it is planned, so that every plan has room."""

from __future__ import annotations

from dataclasses import replace

from turnmill.contract.token_counters import Counter
from turnmill.rules.standing import fitting, rules_room
from turnmill_worker.compaction.snapshot import Snapshot

__all__ = ["with_rules"]


def with_rules(snapshot: Snapshot, counter: Counter) -> Snapshot:
    """The session with all rules in force in its stored context, as far as they have room.

    What a plan covers or shortens takes its rules along from there; see ``Plan.rules``.
    """
    rules = fitting(snapshot.rules, rules_room(snapshot.limits), counter.count)
    if rules == snapshot.stored.rules:
        return snapshot
    stored = snapshot.stored.model_copy(update={"rules": rules})
    return replace(snapshot, stored=stored, unelided=snapshot.before)
