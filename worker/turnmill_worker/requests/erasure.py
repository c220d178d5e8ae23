"""Erasing turns: from Redis and the archive, with all that was made of them, which is made anew.

The archive comes first, Redis second, and only if the session is still at the commit that was
looked at: whatever read the words before is refused when it wants to write (every commit compares
version and id of the last), and whatever reads now finds none. A drain that has read them finds the
same turns, by their chains, in their place. If a worker dies midway, asking again does the rest.
The record is there before Redis is changed: no erasure goes unrecorded.

A tombstone takes an erased turn's place. It
has the shape the turn had - as many messages, of the same roles, with the same calls and results
- and none of its words, nor blocks of a provider: so whatever was legal before is legal still, and
every turn keeps its seq and its chain.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self

from turnmill.contract import jobs
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import EMPTY, JsonMessage, Receipt, StoredContext
from turnmill.contract.erasure import Erased, How
from turnmill.contract.errors import InvalidInput, SessionBusy, UnknownSession
from turnmill.contract.estimate import Counters
from turnmill.contract.formats import FIRST, stamp
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.log_entry import ERASED_AT
from turnmill.contract.names import Seq, SessionId, Version
from turnmill.contract.turns import ROLES
from turnmill_worker.failover.noticing import session_agreed
from turnmill_worker.ports.protocols import Archive, Hints, States
from turnmill_worker.ports.values import (
    ArchivedCompaction,
    ArchivedTurn,
    Cleansed,
    Emptied,
    Erasure,
    Gone,
    SessionInRedis,
    SessionRef,
)
from turnmill_worker.requests.earlier_turns import EarlierTurns

RUN: Final = 5
"""As many words in a row as say whose they are."""

_STRUCTURE: Final = frozenset({"role", "type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What is to be erased.

    Attributes:
        turns: their seqs, when they were named.
        words: what the turns must have in them, when it was not.
        chains: of turns to erase in a session that was forked from theirs.
        repeats: erase turns that repeat ``RUN`` words in a row of those, too.
    """

    how: How
    turns: frozenset[int]
    words: re.Pattern[str] | None
    repeats: bool
    by: str
    dry_run: bool
    chains: frozenset[str] = frozenset()

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """What ``erasing`` asked for."""
        how: How = "turn"
        words = None
        if body["matching"] is not None:
            how, words = "matching", re.compile(re.escape(_plain(body["matching"])))
        elif body["subject"] is not None:
            name = re.escape(_plain(body["subject"]))
            how, words = "subject", re.compile(rf"(?<!\w){name}(?!\w)")
        return cls(
            how=how,
            turns=frozenset(body["turns"]),
            words=words,
            repeats=body["repeats"],
            by=body["by"],
            dry_run=body["dry_run"],
        )

    def names(self, text: str) -> bool:
        """Whether the text has the words that are looked for."""
        return self.words is not None and bool(self.words.search(_plain(text)))

    def finds(self, turn: ArchivedTurn) -> bool:
        """Whether the turn was named, or has these words in it."""
        return turn.seq in self.turns or turn.chain in self.chains or self.names(said(turn))


def said(turn: ArchivedTurn) -> str:
    """All text of a turn: what was said, names, ids, arguments, metadata."""
    texts = [*_texts(_decoded(turn.messages)), *_texts(_decoded(turn.fields), keys=True)]
    return " ".join([turn.turn_id, *texts])


def runs(text: str) -> set[tuple[str, ...]]:
    """Every ``RUN`` words in a row."""
    words = re.findall(r"\w+", _plain(text))
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def _plain(text: str) -> str:
    """Without what differs between two ways to write the same words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _texts(value: object, *, keys: bool = False) -> Iterator[str]:
    """Every text in a JSON value, in order; also in JSON that a text holds, as arguments do."""
    waiting = [(value, keys)]
    while waiting:
        one, keys = waiting.pop()
        if isinstance(one, str):
            yield one
            if one.lstrip()[:1] in ("{", "["):  # where characters may be escaped
                waiting.append((_decoded(one.encode("utf-8", "surrogatepass")), True))
        elif isinstance(one, Mapping):
            if keys:
                yield from one
            inner = [item for name, item in one.items() if keys or name not in _STRUCTURE]
            waiting += [(item, keys) for item in reversed(inner)]
        elif isinstance(one, list):
            waiting += [(item, keys) for item in reversed(one)]
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield str(one)


def _decoded(body: bytes) -> Any:
    try:
        return decode_json(body) if body else None
    except (RecursionError, ValueError):
        return None


ERASED = "erased"
"""The strategy that a context names which was made of erased turns, and is empty now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One incarnation of a session, or what Redis lost of one when it went back.

    Attributes:
        origin: the incarnation's epoch; ``epoch`` is another for what was lost.
        past: what Redis has of it, or None.
        archived: turns in the archive.
        commits: contexts by version, from both.
    """

    epoch: str
    origin: str
    past: SessionInRedis | None
    archived: Sequence[ArchivedTurn]
    commits: Sequence[ArchivedCompaction]

    @property
    def copies(self) -> list[ArchivedTurn]:
        """Every copy of every turn: one may have been erased, and another not."""
        return [*self.archived, *self._leaving, *(self.past.log if self.past else ())]

    @property
    def left(self) -> set[int]:
        """Turns that left the log, by seq."""
        return {turn.seq for turn in (*self.archived, *self._leaving)}

    @property
    def _leaving(self) -> list[ArchivedTurn]:
        left = self.past.left if self.past else ()
        return [each for each in left if isinstance(each, ArchivedTurn)]

    def newest_copy(self, seq: int) -> ArchivedTurn:
        """The turn as it is now."""
        return [turn for turn in self.copies if turn.seq == seq][-1]

    def runs_of(self, seqs: Collection[int]) -> set[tuple[str, ...]]:
        """The words in a row of these turns; of those erased before nothing is known."""
        known = (turn for turn in self.copies if turn.seq in seqs and turn.erased_at_ms is None)
        return {run for turn in known for run in runs(said(turn))}

    @property
    def half_erased(self) -> set[Seq]:
        """Turns erased in the archive by a worker that died before it came to Redis."""
        if self.past is None:
            return set()
        records = ((each.at_ms, Compaction.parse(each.record)) for each in self.commits)
        done_ms = max((at for at, each in records if each.strategy == "erase"), default=0)
        return {turn.seq for turn in self.copies if (turn.erased_at_ms or 0) > done_ms}

    def contexts_after(self, seq: int) -> tuple[ArchivedCompaction, ...]:
        """Commits made when this turn was known, each with an empty context."""
        found = []
        for commit in self.commits:
            record = Compaction.parse(commit.record)
            stored = StoredContext.parse(commit.context)
            if _end(record, stored) >= seq:
                empty = StoredContext(
                    version=commit.version, watermark=record.watermark, strategy=ERASED
                )
                found.append(replace(commit, context=empty.encode(), detail=b""))
        return tuple(found)

    def newest_before(self, seq: int) -> StoredContext:
        """The newest context of the conversation made before this turn was known; or none."""
        commit = next(self.commits_before(seq), None)
        return StoredContext() if commit is None else StoredContext.parse(commit.context)

    def commits_before(self, seq: int) -> Iterator[ArchivedCompaction]:
        """The conversation's commits made before this turn was known, newest first."""
        left_from = float("inf")
        for commit in sorted(self.commits, key=lambda each: -each.version):
            record = Compaction.parse(commit.record)
            stored = StoredContext.parse(commit.context)
            if stored.strategy == ERASED:
                continue
            if _end(record, stored) < min(seq, left_from):
                yield commit
            if record.strategy == "clear":
                break  # all contexts before stand for turns that were set aside
            if record.strategy == "rollback":
                left_from = min(left_from, record.last_seq + 1)

    def missing(self, *, after: int, through: int) -> list[int]:
        """Turns of which there is no copy: they were pruned, or there is no archive."""
        there = {turn.seq for turn in self.copies}
        return [seq for seq in range(after + 1, through + 1) if seq not in there]


class Incarnations:
    """Finds all there is of sessions."""

    def __init__(self, states: States, archive: Archive | None) -> None:
        self._states = states
        self._archive = archive

    def of(self, ref: SessionRef, *, newest_only: bool) -> list[Incarnation]:
        """The session's incarnations, the newest last, each after what Redis lost of it.

        None for an unknown session.
        """
        past = session_agreed(self._states, self._archive, ref, thoroughly=True)
        epochs = dict(self._archive.epochs(ref)) if self._archive else {}
        if past is not None:
            epochs.pop(past.epoch, None)
            epochs[past.epoch] = past.epoch
        newest = list(epochs.values())[-1:]
        return [
            self._life(ref, epoch, origin, past if past and epoch == past.epoch else None)
            for epoch, origin in epochs.items()
            if origin in newest or not newest_only
        ]

    def _life(
        self, ref: SessionRef, epoch: str, origin: str, past: SessionInRedis | None
    ) -> Incarnation:
        archived: Sequence[ArchivedTurn] = ()
        commits: dict[Version, ArchivedCompaction] = {}
        if self._archive is not None:
            archived = self._archive.turns(ref, epoch=epoch)
            commits = {each.version: each for each in self._archive.compactions(ref, epoch=epoch)}
        # The archive is erased first: what Redis has may be whole still.
        commits |= {each.version: each for each in (past.commits if past else ())}
        return Incarnation(
            epoch=epoch,
            origin=origin,
            past=past,
            archived=archived,
            commits=[commits[version] for version in sorted(commits)],
        )


def _end(record: Compaction, stored: StoredContext) -> int:
    """The newest turn that was known when the context was made; 0 if there is nothing in it."""
    beside = {"version": 0, "watermark": 0, "strategy": "", "tokens": 0, "recall": False}
    if stored.model_copy(update=beside) == EMPTY:
        return 0
    return max(record.last_seq, record.watermark)


FUNCTION: Final = "erased"
"""What an erased call is of."""


def tombstone(turn: ArchivedTurn, *, at_ms: int, renamed: Callable[[str], str]) -> ArchivedTurn:
    """The turn without its words; its ids are ``renamed``, each to the same wherever it stands."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = f"[erased {at:%Y-%m-%d}]"
    messages = [_emptied(message, text, renamed) for message in _messages(turn.messages)]
    known = _fields(turn.fields)
    fields = {ERASED_AT: at_ms, **stamp(known.get("format", FIRST))}
    iteration = known.get("iteration")
    if isinstance(iteration, int):
        fields["iteration"] = iteration
    return replace(
        turn,
        messages=encode_json(messages or [{"role": "user", "content": text}]),
        fields=encode_json(fields),
        turn_id=renamed(turn.turn_id),
        tokens=None,
        blobs=(),
    )


def _emptied(message: Mapping[str, Any], text: str, renamed: Callable[[str], str]) -> JsonMessage:
    role = message.get("role")
    empty: JsonMessage = {"role": role if role in ROLES else "user", "content": text}
    if role == "tool":
        empty["tool_call_id"] = renamed(str(message.get("tool_call_id")))
    calls = message.get("tool_calls")
    if calls:
        function = {"name": FUNCTION, "arguments": "{}"}
        empty["tool_calls"] = [
            {"id": renamed(str(call.get("id"))), "type": "function", "function": function}
            for call in calls
        ]
    return empty


def _messages(body: bytes) -> list[Mapping[str, Any]]:
    found = _decoded(body)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _fields(body: bytes) -> Mapping[str, Any]:
    found = _decoded(body)
    return found if isinstance(found, dict) else {}


NEVER = 2**62
"""After every turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasable:
    """What is to be erased of one incarnation of a session, or of what Redis lost of it.

    Attributes:
        tombs: by seq, what will stand in the turns' places.
        words: theirs, in a row.
        contexts: as of ``Emptied``.
        checkpoints: entries of those that go.
        memories: ids of pushed ones that go.
        base: the newest context made without the turns.
    """

    life: Incarnation
    tombs: Mapping[int, ArchivedTurn]
    repeated_in: tuple[Seq, ...]
    words: AbstractSet[tuple[str, ...]]
    contexts: tuple[ArchivedCompaction, ...]
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

    @property
    def chains(self) -> set[str]:
        """Of the turns, and of those erased before."""
        erased = {each.chain for each in self.life.copies if each.erased_at_ms is not None}
        return (erased | {each.chain for each in self.tombs.values()}) - {""}

    @property
    def bodies(self) -> set[bytes]:
        """The messages of the turns, as they were said."""
        copies = (turn for turn in self.life.copies if turn.seq in self.tombs)
        return {turn.messages for turn in copies if turn.erased_at_ms is None}

    @property
    def is_any(self) -> bool:
        """Whether there is anything to erase."""
        return bool(self.tombs or self.contexts or self.checkpoints or self.memories)

    @property
    def is_remade(self) -> bool:
        """Whether the context was made of the turns, so that an earlier one takes its place."""
        past = self.life.past
        return past is not None and self.base.version != past.version


def erasable(
    life: Incarnation,
    sought: Sought,
    pushed: Iterable[tuple[str, str]],
    *,
    at_ms: int,
    renamed: Callable[[str], str],
    kept: Erasable | None = None,
) -> Erasable:
    """What is sought, and what has its words; ``pushed`` are memories by id.

    ``kept`` is of the incarnation that this life was lost from: contexts lost may be made of its
    turns, and turns lost may be its own, which were pushed again.
    """
    seqs, words, repeated = _turns(life, sought, kept)

    def touches(text: str) -> bool:
        return sought.names(text) or not words.isdisjoint(runs(text))

    first = min((*seqs, *(kept.tombs if kept else ())), default=NEVER)
    past = life.past
    checkpoints = past.checkpoints if past else ()
    return Erasable(
        life=life,
        tombs={
            seq: tombstone(life.newest_copy(seq), at_ms=at_ms, renamed=renamed)
            for seq in sorted(seqs)
        },
        repeated_in=tuple(sorted(repeated)),
        words=words,
        contexts=life.contexts_after(first),
        checkpoints=tuple(
            state.entry
            for state in checkpoints
            if state.seq >= first or touches(f"{state.id} {state.message}")
        ),
        memories=tuple(name for name, text in pushed if touches(text)),
        base=life.newest_before(first),
        in_system_prompt=past is not None and touches(f"{past.system} {past.tools.decode()}"),
    )


def _turns(
    life: Incarnation, sought: Sought, kept: Erasable | None
) -> tuple[set[Seq], AbstractSet[tuple[str, ...]], set[Seq]]:
    """The turns to erase, their words, and those that repeat some of them and are left."""
    again = kept.bodies if kept else set()
    seqs = {turn.seq for turn in life.copies if sought.finds(turn) or turn.messages in again}
    seqs |= life.half_erased
    words = life.runs_of(seqs) | (kept.words if kept else set())
    others = [turn for turn in life.copies if turn.seq not in seqs] if words else []
    repeated = {turn.seq for turn in others if not words.isdisjoint(runs(said(turn)))}
    if not sought.repeats:
        return seqs, words, repeated
    seqs |= repeated
    return seqs, words | life.runs_of(repeated), set()


ATTEMPTS = 8
"""An attempt fails only when a commit came between reading and writing."""


class Erasing:
    """Erases turns of sessions."""

    def __init__(
        self, states: States, archive: Archive | None, counters: Counters, hints: Hints
    ) -> None:
        self._states = states
        self._archive = archive
        self._lives = Incarnations(states, archive)
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
        told, chains = self._erase(ref, sought, at_ms, renamed)
        shared = replace(sought, how="turn", turns=frozenset(), words=None, chains=chains)
        forks = self._in_forks(ref, shared, at_ms, renamed) if chains else ()
        return told.model_copy(update={"forks": forks})

    def _in_forks(
        self, ref: SessionRef, sought: Sought, at_ms: int, renamed: Callable[[str], str]
    ) -> tuple[SessionId, ...]:
        """Erase the turns in sessions that were forked from theirs; returns which had some.

        Raises:
            SessionBusy: one is being forked at this moment.
        """
        known, found = [ref], []
        for parent in known:  # it grows
            noted = self._archive.forks(parent) if self._archive else self._states.forks(parent)
            for fork in noted:
                child = SessionRef(ref.namespace, fork.session)
                if child in known:
                    continue
                known.append(child)
                try:
                    told, _ = self._erase(child, sought, at_ms, renamed)
                except UnknownSession:
                    if fork.until_ms < self._states.now_ms():
                        continue
                    raise SessionBusy(
                        f"erased in {ref.session!r}, but not in a session that is being forked "
                        "from it at this moment; erase again in a minute"
                    ) from None
                if told.turns or told.earlier:
                    found.append(fork.session)
        return tuple(found)

    def _erase(
        self, ref: SessionRef, sought: Sought, at_ms: int, renamed: Callable[[str], str]
    ) -> tuple[Erased, frozenset[str]]:
        """What was erased of one session, and the chains of all its turns that ever were."""
        name = secrets.token_hex(8)
        for _ in range(ATTEMPTS):
            lives = self._lives.of(ref, newest_only=bool(sought.turns))
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
            chains = frozenset(chain for each in found for chain in each.chains)
            if sought.dry_run or not any(each.is_any for each in found):
                return told, chains
            if self._archive is not None:
                self._archive.note_erasure(ref.namespace, _record(name, told))
            if all(self._from_redis(ref, each) for each in found):
                rewritten = None if self._archive is None else self._archive.rewrite()
                return told.model_copy(update={"rewritten": rewritten}), chains
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

    def _cleansed(self, ref: SessionRef, past: SessionInRedis, found: Erasable) -> Cleansed:
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
    lives: Sequence[Incarnation], sought: Sought, one: Callable[..., Erasable]
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


def _with_receipt(base: StoredContext, life: Incarnation, past: SessionInRedis) -> StoredContext:
    """The context, with a receipt for turns it stood for that are nowhere any more."""
    missing = life.missing(after=base.watermark, through=past.watermark)
    if not missing:
        return base
    receipt = Receipt(
        by="erase", first_seq=missing[0], last_seq=missing[-1], turns=len(missing), tokens=0
    )
    return base.model_copy(update={"receipts": (*base.receipts, receipt)})
