"""What users said up to a turn, given room before a compaction is planned: rules and requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from turnmill.contract.context import JsonMessage, OpenCall, OpenRequest
from turnmill.contract.estimate import Counter
from turnmill.contract.marks import author
from turnmill.contract.names import Seq
from turnmill.contract.render import requests_message, rules_message
from turnmill.contract.rules import Rule
from turnmill_worker.compaction.snapshot import LoggedTurn, Snapshot
from turnmill_worker.compaction.waiting import dead_calls
from turnmill_worker.compaction.waiting import fitting as fitting_calls
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.passages import Reading
from turnmill_worker.reading.readings import Readings, of_summary
from turnmill_worker.reading.requests import (
    Asked,
    fitting,
    is_whole,
    open_requests,
    opening_turns,
    requests_room,
    with_images,
)
from turnmill_worker.reading.said import Said, Sentence, marked, rules_room

_LAST: Final = 2
"""So many of the user's newest messages say what is spoken of now."""


class Heard:
    """A session's turns as they are read: each once, however often a compaction is planned."""

    def __init__(self, snapshot: Snapshot, counter: Counter) -> None:
        """Listens to what users say; what others say is read when a turn is to be covered."""
        self._snapshot = snapshot = snapshot.before
        self._counter = counter
        self._readings = Readings(counter.count, counter.basis)
        self._said = Said(snapshot.known.said)
        self._begins = snapshot.stored.begins
        self._before = dict(_lasts(snapshot.turns))
        opening = self._opening()
        self._turns: list[Asked] = []
        self._asked: tuple[OpenRequest, ...] | None = None
        for at, turn in enumerate(snapshot.turns):
            own = self._of_user(turn)
            self._said.hear(turn.seq, own, turn.original, turn.mark, opens=at < opening)
            self._turns.append(Asked(turn.seq, turn.original, own))

    def is_of(self, loaded: Snapshot) -> bool:
        """Whether this is what a session's users said as it was loaded then."""
        mine = self._snapshot
        return (
            loaded.turns is mine.turns
            and loaded.stored is mine.stored
            and loaded.policy is mine.policy
            and loaded.pending_messages is mine.pending_messages
        )

    def given_room(self, snapshot: Snapshot, *, through: Seq, share: float = 1.0) -> Snapshot:
        """The snapshot with rules, open requests and calls of turns up to this one in its context.

        As far as they have room; requests are shortened to a share of theirs. What a plan covers or
        shortens takes them along from there; see ``Plan.rules``, ``asked`` and ``calls``.
        """
        rules = self.rules(through)
        requests = self.requests(through, rules, share=share)
        calls = self._calls(through)
        before = snapshot.stored
        if (rules, requests, calls) == (before.rules, before.requests, before.calls):
            return snapshot
        update = {"rules": rules, "requests": requests, "calls": calls}
        stored = snapshot.stored.model_copy(update=update)
        return replace(snapshot, stored=stored, unelided=snapshot.before)

    def rules(self, through: Seq) -> tuple[Rule, ...]:
        """The rules of turns up to this one, as far as they have room."""
        stored, limits = self._snapshot.stored, self._snapshot.limits
        standing = self._said.standing(stored.rules, through)
        return self._said.fitting(standing, rules_room(limits), self._counter.count)

    def requests(
        self, through: Seq, rules: Sequence[Rule] = (), *, share: float = 1.0
    ) -> tuple[OpenRequest, ...]:
        """The open requests of turns up to this one, beside rules; pinned turns stand anyway."""
        snapshot = self._snapshot
        pinned = {turn.seq for turn in snapshot.turns if turn.pinned}
        pinned |= {snapshot.thumbnail} if snapshot.thumbnail else set()
        if self._asked is None:
            self._asked = open_requests(
                snapshot.stored.requests, self._heard_later(), begins=self._begins
            )
        changed = self._said.changed_by(through)
        wanted = [
            each.model_copy(update={"text": marked(each.text, changed)})
            for each in self._asked
            if each.seq not in pinned and (each.first or each.seq <= through)
        ]
        beside = self._counter.count_messages([rules_message(rules)]) if rules else 0
        room = requests_room(snapshot.limits, beside)
        # What opened the session is fitted together: the last of it asks, the rest leads up to it.
        fitted = fitting(wanted, int(room * share), self._counter.count)
        stated = tuple(each for each in fitted if each.seq <= through)
        if not any(each.images for each in stated):
            return stated
        room = int(requests_room(snapshot.limits, beside, images=True) * share)
        taken = self._counter.count_messages(
            [requests_message(with_images(stated, 0, self._counter))]
        )
        return with_images(stated, room - taken, self._counter)

    def _calls(self, through: Seq) -> tuple[OpenCall, ...]:
        """The calls that turns up to this one leave without a result, as far as they have room."""
        snapshot = self._snapshot
        turns = [turn for turn in snapshot.turns if turn.seq <= through]
        found = dead_calls(snapshot.stored, turns)
        return fitting_calls(found, snapshot.limits, self._counter.count) if found else ()

    def digest(
        self,
        covered: Sequence[LoggedTurn],
        *,
        through: Seq,
        rules: Sequence[Rule],
        requests: Sequence[OpenRequest],
        previous: str = "",
    ) -> Digest:
        """What may stand for turns that are to be covered, beside these rules and requests.

        ``previous``: the summary so far, which counts only where nothing else is known.
        """
        known = self._snapshot.known
        if previous and not known.readings:
            readings = of_summary(previous, self._counter.count)
            known = replace(known, readings=tuple(readings))
        digest = Digest(
            known,
            [each for turn in covered for each in self._of(turn)],
            self._counter.count,
            through=through,
            said=self._said,
            stated={rule.text for rule in rules},
            stated_in={each.seq for each in requests if is_whole(each)},
        )
        if digest.has_lists:
            later = [turn for turn in self._snapshot.turns if turn.seq > through]
            digest.see_later(each for turn in later for each in self._of(turn, stays=True))
        return digest

    @property
    def spoken_last(self) -> set[int]:
        """What users spoke of last, in numbers."""
        told = [turn.own_words for turn in self._turns if turn.readings]
        return set().union(*told[-_LAST:])

    def changed_sentences(self, through: Seq) -> dict[str, str]:
        """Sentences that a turn up to this one changed, each with the text that changed it."""
        texts = {turn.seq: turn.text for turn in self._turns}
        changed = self._said.changed_by(through)
        return {older: texts[seq] for older, seq in changed.items() if seq in texts}

    def changes(self, text: str, through: Seq) -> dict[str, int]:
        """Sentences of a text that a turn up to this one changed, with that turn."""
        changed = self._said.changed_by(through)
        return {older: seq for older, seq in changed.items() if older in text}

    def lasting(self, through: Seq) -> list[Sentence]:
        """What users said up to this turn that a later sentence may change."""
        return list(self._said.up_to(through))

    def _opening(self) -> int:
        turns = self._snapshot.turns
        return opening_turns([turn.original for turn in turns]) if self._begins else 0

    def _heard_later(self) -> list[Asked]:
        """The turns, and those that nobody has counted yet: an answer there tells of a request."""
        pending = enumerate(self._snapshot.pending_messages, self._snapshot.counted_seq + 1)
        return [*self._turns, *(Asked(seq, messages, ()) for seq, messages in pending)]

    def _of_user(self, turn: LoggedTurn) -> list[Reading]:
        spoken = any(author(message) == "user" for message in turn.original)
        return self._of(turn, stays=True) if spoken else []

    def _of(self, turn: LoggedTurn, *, stays: bool = False) -> list[Reading]:
        before = self._before.get(turn.seq)
        return self._readings.of_turn(turn.seq, turn.original, before, stays=stays)


def heard_in(snapshot: Snapshot, counter: Counter) -> Heard:
    """What users said in a session; listened to once for all snapshots made of it."""
    found = snapshot.memo.get("heard")
    if not isinstance(found, Heard) or not found.is_of(snapshot.before):
        found = snapshot.memo["heard"] = Heard(snapshot, counter)
    return found


def _lasts(turns: Sequence[LoggedTurn]) -> Iterator[tuple[Seq, JsonMessage | None]]:
    """The last message before each turn."""
    before = None
    for turn in turns:
        yield turn.seq, before
        before = turn.original[-1] if turn.original else before
