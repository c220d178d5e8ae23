"""Erasing turns: from Redis and the archive, with all that was made of them, which is made anew.

The archive comes first, Redis second, and only if the session is still at the version that was
looked at: whatever read the words before is refused when it wants to write (every commit compares
the version), and whatever reads now finds none. A drain that has read them finds rows in their
place. If a worker dies midway, asking again does the rest.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnmill.contract import jobs
from turnmill.contract.context import Receipt, StoredContext
from turnmill.contract.erasure import Erased
from turnmill.contract.errors import InvalidInput, SessionBusy, UnknownSession
from turnmill.contract.names import Namespace, Seq
from turnmill.contract.token_counters import Counters
from turnmill_worker.ports.archive import Archive
from turnmill_worker.ports.erasure import Cleansed, Emptied, Erasure, Gone
from turnmill_worker.ports.hints_and_waiting import Hints
from turnmill_worker.ports.records import ArchivedTurn
from turnmill_worker.ports.sessions import States
from turnmill_worker.ports.values import Past, SessionRef
from turnmill_worker.requests.earlier_turns import EarlierTurns
from turnmill_worker.requests.lives import Life, Lives
from turnmill_worker.requests.sought import Sought, runs, said
from turnmill_worker.requests.tombstone import tombstone

__all__ = ["Erasing"]

ATTEMPTS = 8
"""An attempt fails only when a commit came between reading and writing."""

NEVER = 2**62
"""After every turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What an erasure is about, in one incarnation of a session.

    Attributes:
        tombs: by seq, what will stand in the turns' places.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        memories: ids of pushed ones that go.
        base: the newest context made without the turns.
    """

    life: Life
    tombs: Mapping[int, ArchivedTurn]
    repeated_in: tuple[Seq, ...]
    contexts: Mapping[int, tuple[bytes, int, bytes]]
    checkpoints: tuple[str, ...]
    memories: tuple[str, ...]
    base: StoredContext
    in_system_prompt: bool

    @property
    def emptied(self) -> Emptied:
        """What the archive is told; of turns still in the log it will hear when they leave it."""
        left = self.life.left
        return Emptied(
            turns=tuple(tomb for seq, tomb in self.tombs.items() if seq in left),
            all_turns=tuple(self.tombs),
            contexts=self.contexts,
            memories=self.memories,
        )


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
        renamed = _renaming(sought)
        for _ in range(ATTEMPTS):
            lives = self._lives.of(ref, newest_only=sought.how == "turn")
            if not lives:
                raise UnknownSession(
                    f"no session {ref.session!r} in namespace {ref.namespace!r}, nor in the archive"
                )
            found = [self._find(ref.namespace, life, sought, at_ms, renamed) for life in lives]
            gone = self._erased(ref, found, dry_run=sought.dry_run)
            if gone is not None:
                return self._told(ref, sought, at_ms, found, gone)
        raise SessionBusy(f"{ref.session!r} is being compacted again and again; try again")

    def _find(
        self,
        namespace: Namespace,
        life: Life,
        sought: Sought,
        at_ms: int,
        renamed: Callable[[str], str],
    ) -> _Found:
        seqs = {turn.seq for turn in life.copies if sought.finds(turn)}
        if missing := sorted(sought.turns - seqs):
            raise InvalidInput(f"turns: the session has no turn {missing[0]}")
        words = life.runs_of(seqs)
        others = {
            t.seq for t in life.copies if t.seq not in seqs and not words.isdisjoint(runs(said(t)))
        }
        if sought.repeats:
            seqs |= others
            words |= life.runs_of(others)
            others = set()

        def touches(text: str) -> bool:
            return sought.names(text) or not words.isdisjoint(runs(text))

        first = min(seqs, default=NEVER)
        past = life.past
        memories = self._archive.pushed_memories(namespace) if self._archive else []
        return _Found(
            life=life,
            tombs={
                seq: tombstone(life.newest_copy(seq), at_ms=at_ms, renamed=renamed)
                for seq in sorted(seqs)
            },
            repeated_in=tuple(sorted(others)),
            contexts=life.contexts_after(first),
            checkpoints=tuple(
                state.entry
                for state in (past.checkpoints if past else ())
                if state.seq >= first or touches(f"{state.id} {state.message}")
            ),
            memories=tuple(id_ for id_, text in memories if touches(text)),
            base=life.newest_before(first),
            in_system_prompt=past is not None and touches(past.system),
        )

    def _erased(self, ref: SessionRef, found: Sequence[_Found], *, dry_run: bool) -> Gone | None:
        """How much left the archive; None when a commit came between."""
        gone = Gone()
        for each in found:
            if self._archive is not None and (each.tombs or each.memories):
                gone += self._archive.erase(ref, each.life.epoch, each.emptied, dry_run=dry_run)
        for each in found:
            past = each.life.past
            if past is None or dry_run or not (each.tombs or each.checkpoints):
                continue
            if not self._states.erase(ref, past, self._cleansed(ref, past, each)):
                return None
            self._hints.send(jobs.ESTIMATE, ref)
        return gone

    def _cleansed(self, ref: SessionRef, past: Past, found: _Found) -> Cleansed:
        remade = found.base.version != past.version
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
            contexts={version: body for version, (_, _, body) in found.contexts.items()},
            checkpoints=found.checkpoints,
            remade=remade,
        )

    def _told(
        self, ref: SessionRef, sought: Sought, at_ms: int, found: Sequence[_Found], gone: Gone
    ) -> Erased:
        newest = found[-1]
        past = newest.life.past
        told = Erased(
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
            remade=bool(past and newest.tombs and newest.base.version != past.version),
            in_system_prompt=newest.in_system_prompt,
        )
        is_nothing = not (told.turns or told.earlier or told.checkpoints or told.memories)
        if self._archive is None or sought.dry_run or is_nothing:
            return told
        self._archive.note_erasure(ref.namespace, _record(told))
        return told.model_copy(update={"rewritten": self._archive.rewrite()})


def _record(told: Erased) -> Erasure:
    return Erasure(
        id=secrets.token_hex(8),
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
