"""Erasing turns: from Redis and the archive, with all that was made of them, which is made anew.

The archive comes first, Redis second, and only if the session is still at the commit that was
looked at: whatever read the words before is refused when it wants to write (every commit compares
version and id of the last), and whatever reads now finds none. A drain that has read them finds the
same turns, by their chains, in their place. If a worker dies midway, asking again does the rest.
The record is there before Redis is changed: no erasure goes unrecorded.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from turnmill.contract import jobs
from turnmill.contract.context import Receipt, StoredContext
from turnmill.contract.erasure import Erased
from turnmill.contract.errors import InvalidInput, SessionBusy, UnknownSession
from turnmill.contract.estimate import Counters
from turnmill.contract.names import Seq
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.erasure import Cleansed, Erasure, Gone
from turnmill_worker.ports.hints_and_waiting import Hints
from turnmill_worker.ports.past import Past
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.requests.earlier_turns import EarlierTurns
from turnmill_worker.requests.erasable import Erasable, erasable
from turnmill_worker.requests.lives import Life, Lives
from turnmill_worker.requests.sought import Sought

__all__ = ["Erasing"]

ATTEMPTS = 8
"""An attempt fails only when a commit came between reading and writing."""


class Erasing:
    """Erases turns of sessions."""

    def __init__(
        self, states: States, archive: Archive | None, counters: Counters, hints: Hints
    ) -> None:
        self._states = states
        self._archive = archive
        self._lives = Lives(states, archive)
        self._turns = EarlierTurns(states, archive, counters)
        self._hints = hints

    def erase(self, ref: SessionRef, body: Mapping[str, Any]) -> Erased:
        """Erase what ``erasing`` asked for; what was made of it is made anew.

        Raises:
            UnknownSession: neither in Redis nor in the archive.
            InvalidInput: a turn that was named is not there.
            SessionBusy: compactions came between at every attempt.
        """
        sought = Sought.of(body)
        at_ms = self._states.now_ms()
        name = secrets.token_hex(8)
        renamed = _renaming(sought)
        for _ in range(ATTEMPTS):
            lives = self._lives.of(ref, newest_only=sought.how == "turn")
            if not lives:
                raise UnknownSession(
                    f"no session {ref.session!r} in namespace {ref.namespace!r}, nor in the archive"
                )
            pushed = self._archive.pushed_memories(ref.namespace) if self._archive else []
            found = _erasable(
                lives,
                sought,
                partial(erasable, pushed=pushed, at_ms=at_ms, renamed=renamed),
            )
            told = _told(ref, sought, at_ms, found, self._from_archive(ref, found, sought))
            if sought.dry_run or not any(each.is_any for each in found):
                return told
            if self._archive is not None:
                self._archive.note_erasure(ref.namespace, _record(name, told))
            if all(self._from_redis(ref, each) for each in found):
                rewritten = None if self._archive is None else self._archive.rewrite()
                return told.model_copy(update={"rewritten": rewritten})
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def _from_archive(self, ref: SessionRef, found: Sequence[Erasable], sought: Sought) -> Gone:
        gone = Gone()
        for each in found:
            if self._archive is not None and each.is_any:
                epoch, emptied = each.life.epoch, each.emptied
                gone += self._archive.erase(ref, epoch, emptied, dry_run=sought.dry_run)
        return gone

    def _from_redis(self, ref: SessionRef, found: Erasable) -> bool:
        """Whether nothing is left there; False when a commit came between."""
        past = found.life.past
        if past is None or not found.is_any:
            return True
        if not self._states.erase(ref, past, self._cleansed(ref, past, found)):
            return False
        self._hints.send(jobs.ESTIMATE, ref)
        return True

    def _cleansed(self, ref: SessionRef, past: Past, found: Erasable) -> Cleansed:
        state = self._turns.restored(
            ref,
            past,
            _with_receipt(found.base, found.life, past),
            through=past.last_seq,
            strategy="erase",
            instead=found.tombs,
        )
        self._turns.bring_images_back(ref, past, state)
        return Cleansed(
            state=state,
            turns=found.tombs,
            contexts=found.contexts,
            checkpoints=found.checkpoints,
            remade=found.is_remade,
        )


def _erasable(
    lives: Sequence[Life], sought: Sought, one: Callable[..., Erasable]
) -> list[Erasable]:
    """Of each life, in order; what was lost of one depends on what is left of it."""
    kept = {life.epoch: one(life, sought) for life in lives if life.epoch == life.origin}
    # A seq is of the session's own turn, if it has one there.
    named = sought.turns.difference(*(each.tombs for each in kept.values()))
    lost = replace(sought, turns=named)
    found = [kept.get(life.epoch) or one(life, lost, kept=kept.get(life.origin)) for life in lives]
    if missing := sorted(named.difference(*(each.tombs for each in found))):
        raise InvalidInput(f"turns: the session has no turn {missing[0]}")
    return found


def _told(
    ref: SessionRef, sought: Sought, at_ms: int, found: Sequence[Erasable], gone: Gone
) -> Erased:
    newest = found[-1]
    return Erased(
        session=ref.session,
        dry_run=sought.dry_run,
        at_ms=at_ms,
        by=sought.by,
        how=sought.how,
        turns=tuple(Seq(seq) for seq in newest.tombs),
        earlier=sum(len(each.tombs) for each in found[:-1]),
        repeated_in=newest.repeated_in,
        contexts=sum(len(each.contexts) for each in found),
        checkpoints=len(newest.checkpoints),
        memories=gone.memories,
        images=gone.images,
        remade=newest.is_remade,
        in_system_prompt=newest.in_system_prompt,
    )


def _record(name: str, told: Erased) -> Erasure:
    return Erasure(
        id=name,
        session=told.session,
        at_ms=told.at_ms,
        by=told.by,
        how=told.how,
        turns=told.turns,
        contexts=told.contexts,
        checkpoints=told.checkpoints,
        memories=told.memories,
        images=told.images,
    )


def _renaming(sought: Sought) -> Callable[[str], str]:
    """Gives ids in which the words stand other names, which nobody can lead back to them."""
    salt = secrets.token_bytes(16)

    def renamed(name: str) -> str:
        if not sought.names(name):
            return name
        digest = hashlib.sha256(salt + name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"erased-{digest[:12]}"

    return renamed


def _with_receipt(base: StoredContext, life: Life, past: Past) -> StoredContext:
    """The context, with a receipt for turns it stood for that are nowhere any more."""
    missing = life.missing(after=base.watermark, through=past.watermark)
    if not missing:
        return base
    receipt = Receipt(
        by="erase", first_seq=missing[0], last_seq=missing[-1], turns=len(missing), tokens=0
    )
    return base.model_copy(update={"receipts": (*base.receipts, receipt)})
