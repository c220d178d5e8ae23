"""Children: sessions of sub-agents that begin with what their parent's user laid down and asked.

A child has turns of its own with those words, one for each turn of the parent that they are from,
under its chain: so what is erased there is erased here, as in a fork. They are covered from the
start: the child's first context states them, as every later one does until its user ends them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.context import CHILD, JsonMessage, OpenRequest, StoredContext
from turnmill.contract.errors import UnknownSession
from turnmill.contract.estimate import Counter, Counters
from turnmill.contract.images import blobs_of
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.names import Seq, Version
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head
from turnmill.contract.results import Forked
from turnmill.contract.rules import INSTRUCTS, Rule
from turnmill.contract.turns import Turn, encode_turn, to_turn
from turnmill_worker.compaction.heard import Heard
from turnmill_worker.compaction.snapshot import Snapshot, images
from turnmill_worker.ports.protocols import Sessions
from turnmill_worker.ports.values import ArchivedTurn, Begun, Fork, Restored, SessionRef
from turnmill_worker.reading.known import Known
from turnmill_worker.reading.requests import Asked
from turnmill_worker.reading.said import Sentence
from turnmill_worker.requests.forking import Forking, Life


class Words(NamedTuple):
    """What stands of a user's words in one turn: its rules, and what was asked beside them."""

    seq: Seq
    rules: tuple[Rule, ...]
    request: OpenRequest | None

    @property
    def turn(self) -> Turn:
        """A turn that says them; what is asked has its rules in it."""
        asked = self.request
        rules = (r.text for r in self.rules if asked is None or r.text not in asked.text)
        said: list[JsonMessage] = [{"role": "user", "content": text} for text in rules]
        if asked is None:
            return to_turn(Turn(messages=said, metadata={INSTRUCTS: True}))
        parts = [{"type": "text", "text": asked.text}, *asked.images]
        content = parts if asked.images else asked.text
        return to_turn(Turn(messages=[*said, {"role": "user", "content": content}]))


class Children:
    """Begins sessions of sub-agents."""

    def __init__(
        self,
        forking: Forking,
        sessions: Sessions,
        estimate: Callable[[SessionRef], object],
        counters: Counters,
    ) -> None:
        self._forking = forking
        self._sessions = sessions
        self._estimate = estimate
        self._counters = counters

    def begin(self, ref: SessionRef, new: SessionRef, policy: Policy | None) -> Forked:
        """Begin ``new`` with what the user's words in the session lay down and ask for by now.

        As far as they have room under the ``policy`` it will have, or the session's own.

        Raises:
            UnknownSession: there is no such session.
            InvalidInput: ``new`` is there.
            SessionBusy: the session changed at every attempt.
        """
        return self._forking.begin(ref, new, partial(self._begun, new=new, policy=policy))

    def _begun(self, now: Life, *, new: SessionRef, policy: Policy | None, fork: Fork) -> Begun:
        snapshot = _with_whole_requests(self._snapshot(now.ref, policy), now.turns)
        counter = self._counters(snapshot.policy.encoding, snapshot.policy.image_formula)
        heard = Heard(snapshot, counter)
        through = snapshot.counted_seq
        rules = heard.rules(through)
        erased = {turn.seq for turn in now.turns if turn.erased_at_ms is not None}
        requests = [r for r in heard.requests(through, rules) if r.seq not in erased]
        changes = set(heard.changes(_texts(rules, requests), through).values())
        changes |= {rule.revised for rule in rules if rule.revised}
        asked = changes.union(each.seq for each in requests)
        said = ((turn.seq, decode_json(turn.messages)) for turn in now.turns if turn.seq in asked)
        pinned = [(pin.seq, pin.messages) for pin in snapshot.stored.pins]
        words = list(_words(rules, requests, _whole([*said, *pinned])))
        turns = [_turn(at, each, now, fork, counter) for at, each in enumerate(words, 1)]
        places = _Places(words)
        stored = places.context(rules, requests)
        stored = stored.model_copy(update={"tokens": counter.count_messages(render_head(stored))})
        begun = Begun(
            ref=new,
            epoch=fork.epoch,
            parent=now.ref,
            state=_state(new, stored, turns, counter),
            turns=tuple(turns),
            commits=(),
            images=(),
            ids=(),
            chain=f"{turns[-1].chain} {fork.epoch}" if turns else fork.epoch,
            history_tokens=sum(turn.tokens or 0 for turn in turns),
            until_ms=fork.until_ms,
            known=Known(through=len(turns), said=tuple(places.said(heard.lasting(through)))),
        )
        return self._forking.stored(begun)

    def _snapshot(self, ref: SessionRef, policy: Policy | None) -> Snapshot:
        """The session with all turns counted, under this policy; what is pinned is not, here.

        Its thumbnail neither: in a child, both stand among what was asked.
        """
        self._estimate(ref)
        found = self._sessions.snapshot(ref)
        if found is None:
            raise UnknownSession(f"no session {ref.session!r} in namespace {ref.namespace!r}")
        turns = tuple(replace(turn, pinned=False) for turn in found.turns)
        found = replace(found, turns=turns, images_before=max(found.images_before, 1), memo={})
        return replace(found, policy=policy, system_tokens=0, ratio=0.0) if policy else found


def _with_whole_requests(snapshot: Snapshot, turns: Sequence[ArchivedTurn]) -> Snapshot:
    """The snapshot with requests as they were said: a child may have more room than its parent."""
    stored = snapshot.stored
    asked = {each.seq for each in stored.requests}
    said = ((turn.seq, decode_json(turn.messages)) for turn in turns if turn.seq in asked)
    whole = {each.seq: each for each in _whole(said)}
    requests = tuple(
        each.model_copy(update={"text": found.text, "images": found.images, "images_gone": 0})
        if (found := whole.get(each.seq))
        else each
        for each in stored.requests
    )
    return replace(snapshot, stored=stored.model_copy(update={"requests": requests}))


def _texts(rules: Sequence[Rule], requests: Sequence[OpenRequest]) -> str:
    return "\n".join([*(rule.text for rule in rules), *(each.text for each in requests)])


def _whole(turns: Iterable[tuple[int, Sequence[JsonMessage]]]) -> Iterator[OpenRequest]:
    """All that the user says in these turns, where the parent's context may have cut it."""
    asked = (Asked(seq, messages, ()).request for seq, messages in turns)
    return (each for each in asked if each.text.strip())


def _words(
    rules: Sequence[Rule], requests: Sequence[OpenRequest], whole: Iterable[OpenRequest]
) -> Iterator[Words]:
    """All that stands, by the turn it is from."""
    asked = {each.seq: each for each in (*requests, *whole)}
    for seq in sorted({*asked, *(rule.seq for rule in rules)}):
        own = tuple(rule for rule in rules if rule.seq == seq)
        beside = asked[seq].text if seq in asked else ""
        for rule in own:
            beside = beside.replace(rule.text, "")
        yield Words(seq, own, asked[seq] if beside.strip() else None)


class _Places:
    """Where the words are in the child."""

    def __init__(self, words: Sequence[Words]) -> None:
        self._words = words
        self._of: Mapping[int, int] = {each.seq: at for at, each in enumerate(words, 1)}
        self._rules: Mapping[tuple[int, str], tuple[int, int]] = {
            (rule.seq, rule.text): (at, place)
            for at, each in enumerate(words, 1)
            for place, rule in enumerate(each.rules, 1)
        }

    def context(self, rules: Sequence[Rule], fitted: Sequence[OpenRequest]) -> StoredContext:
        """The child's first context, with requests as they fit."""
        fits = {each.seq: each for each in fitted}
        requests = [fits.get(each.seq, each.request) for each in self._words if each.request]
        return StoredContext(
            version=Version(1),
            watermark=Seq(len(self._words)),
            rules=tuple(sorted(map(self._rule, rules), key=lambda one: (one.seq, one.place))),
            requests=tuple(map(self._request, requests)),
            strategy=CHILD,
        )

    def said(self, sentences: Sequence[Sentence]) -> Iterator[Sentence]:
        """Those of the words that a later one may change."""
        for each in sentences:
            at, place = self._rules.get((each.seq, each.text), (self._of.get(each.seq, 0), 0))
            if at:
                yield each._replace(seq=at, place=place, past=self._of.get(each.past, 0))

    def _rule(self, rule: Rule) -> Rule:
        at, place = self._rules[rule.seq, rule.text]
        revised = self._of.get(rule.revised or 0)
        return Rule(seq=Seq(at), place=place, text=rule.text, revised=revised and Seq(revised))

    def _request(self, request: OpenRequest) -> OpenRequest:
        update: Mapping[str, Any] = {
            "seq": Seq(self._of[request.seq]),
            "text": _CHANGED.sub(self._changed, request.text),
            "first": True,
        }
        return request.model_copy(update=update)

    def _changed(self, found: re.Match[str]) -> str:
        at = self._of.get(int(found[1]))
        return found[0] if at is None else f" (changed in turn {at})"


_CHANGED = re.compile(r" \(changed in turn (\d+)\)")


def _turn(at: int, words: Words, now: Life, fork: Fork, counter: Counter) -> ArchivedTurn:
    """A turn of the child; it has the chain of the one it is from."""
    turn = words.turn
    messages, fields = encode_turn(turn)
    said: list[JsonMessage] = decode_json(messages)
    origin = next((each for each in now.turns if each.seq == words.seq), None)
    return ArchivedTurn(
        seq=Seq(at),
        messages=messages,
        turn_id=f"{fork.epoch}-{at}",
        fields=fields,
        at_ms=origin.at_ms if origin else fork.until_ms,
        tokens=counter.count_messages(said),
        blobs=tuple(blobs_of(said)),
        chain=(origin.chain if origin else "") or f"{fork.epoch}-{at}",
    )


def _state(
    new: SessionRef, stored: StoredContext, turns: Sequence[ArchivedTurn], counter: Counter
) -> Restored:
    record = Compaction(
        session=new.session,
        version=stored.version,
        strategy=CHILD,
        from_watermark=Seq(0),
        watermark=stored.watermark,
        turns=0,
        elided=0,
        tokens_before=0,
        tokens_after=stored.tokens,
        last_seq=stored.watermark,
        rules_added=len(stored.rules),
    )
    return Restored(
        seq=stored.watermark,
        stored=stored,
        turns=(),
        open_calls=(),
        basis=counter.basis,
        images_before=sum(images(decode_json(turn.messages)) for turn in turns),
        quality=None,
        record=record,
        used="",
        due=False,
    )
