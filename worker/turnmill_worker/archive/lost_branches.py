"""What Redis lost when it returned to an earlier state: found, and kept apart as a branch.

Each function runs inside its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, select, update

from turnmill.contract.codec import decode_json
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import memories as making
from turnmill_worker.archive.memories import (
    insert_memories,
    memories_were_deleted,
    next_position,
    replace_summaries,
)
from turnmill_worker.archive.reads import read_compactions, read_turns
from turnmill_worker.archive.rows import lock, of, session_row
from turnmill_worker.archive.schema import (
    blob_refs,
    compactions,
    managed_views,
    memories,
    sessions,
    turns,
)
from turnmill_worker.failover.branches import LostBranch, Tip
from turnmill_worker.ports.values import ArchivedCompaction, Batch, SessionRef

Parting = tuple[int | None, int | None]
"""The first seq and the first version that are not Redis'; None where all are."""


def differs(connection: Connection, ref: SessionRef, epoch: int, batch: Batch) -> bool:
    """Whether a turn or a commit is archived already, and is another."""
    return parting(connection, ref, epoch, batch) != (None, None)


def parting(connection: Connection, ref: SessionRef, epoch: int, now: Batch) -> Parting:
    """Where what Redis has now and what is archived part."""
    said = {turn.seq: turn for turn in now.turns}
    done = {each.version: each for each in now.compactions}
    stored = read_turns(connection, ref, epoch, min(said), max(said)) if said else []
    seqs = [old.seq for old in stored if old.seq in said and not old.is_same(said[old.seq])]
    commits = read_compactions(connection, ref, epoch) if done else []
    versions = [
        old.version for old in commits if old.version in done and not old.is_same(done[old.version])
    ]
    return min(seqs, default=None), min(versions, default=None)


def lose(
    connection: Connection, ref: SessionRef, epoch: int, at: tuple[int, int]
) -> LostBranch | None:
    """Keep what comes from this seq and version on as a branch; what is left is what Redis has.

    None when nothing comes from there on.
    """
    lock(connection, ref.namespace)
    first_seq, first_version = at
    stored = read_compactions(connection, ref, epoch)
    # Whoever covered a lost turn is lost, too, and all that came after it.
    reaching = (commit.version for commit in stored if _reaches(commit) >= first_seq)
    first_version = min((*reaching, first_version))
    left = [commit for commit in stored if commit.version < first_version]
    lost = stored[len(left) :]
    branch = _free_epoch(connection, ref, epoch)

    def move(table: Table, position: str, first: int) -> int:
        late = of(table, ref, epoch) & (table.c[position] >= first)
        return connection.execute(update(table).where(late).values(epoch=branch)).rowcount

    moved = move(turns, "seq", first_seq)
    move(blob_refs, "seq", first_seq)
    for table in (compactions, managed_views):
        move(table, "version", first_version)
    if not moved and not lost:
        return None
    _count(connection, ref, epoch, branch, moved)
    _forget_memories(connection, ref, epoch, first_seq, left if lost else None)
    _bring_back(connection, ref, epoch, lost)
    return next(each for each in read_branches(connection, ref, epoch) if each.epoch == str(branch))


def read_branches(connection: Connection, ref: SessionRef, epoch: int) -> list[LostBranch]:
    """The branches of an incarnation, in the order in which they were found."""
    wanted = select(sessions.c.epoch).where(of(sessions, ref), sessions.c.branch_of == epoch)
    numbers = connection.execute(wanted.order_by(sessions.c.epoch.desc())).scalars().all()
    return [_branch(connection, ref, at, number) for at, number in enumerate(numbers, 1)]


def read_lost(connection: Connection, namespace: Namespace) -> dict[SessionId, int]:
    """How many branches are kept of the namespace's sessions; those without any are not named."""
    rows = select(sessions.c.session, func.count()).where(
        sessions.c.namespace == namespace, sessions.c.branch_of.is_not(None)
    )
    found = connection.execute(rows.group_by(sessions.c.session).order_by(sessions.c.session))
    return {SessionId(name): number for name, number in found}


def read_tip(connection: Connection, ref: SessionRef, epoch: int) -> Tip:
    """The newest turn and the newest commit that are archived as Redis' own."""
    seq = connection.execute(select(func.max(turns.c.seq)).where(of(turns, ref, epoch))).scalar()
    newest = select(compactions.c.version, compactions.c.commit_id).where(
        of(compactions, ref, epoch)
    )
    commit = connection.execute(newest.order_by(compactions.c.version.desc()).limit(1)).first()
    version, commit_id = commit or (0, None)
    return Tip(epoch=str(epoch), seq=seq or 0, version=version, commit_id=commit_id or "")


def read_tips(
    connection: Connection, namespace: Namespace, among: Sequence[SessionId] | None = None
) -> dict[SessionId, Tip]:
    """The positions of the newest incarnation of each session of the namespace, or ``among``."""

    def these(table: Table) -> ColumnElement[bool]:
        every = table.c.namespace == namespace
        return every if among is None else every & table.c.session.in_(among)

    def highest(column: Column[int]) -> dict[tuple[str, int], int]:
        key = (column.table.c.session, column.table.c.epoch)
        found = select(*key, func.max(column)).where(these(column.table))
        return {(row[0], row[1]): row[2] for row in connection.execute(found.group_by(*key))}

    seqs, versions = highest(turns.c.seq), highest(compactions.c.version)
    own = sessions.c.branch_of.is_(None)
    rows = select(sessions.c.session, func.max(sessions.c.epoch))
    newest = rows.where(these(sessions), own).group_by(sessions.c.session)
    return {
        SessionId(at[0]): Tip(epoch=str(at[1]), seq=seqs.get(at, 0), version=versions.get(at, 0))
        for at in map(tuple, connection.execute(newest))
    }


def _reaches(commit: ArchivedCompaction) -> int:
    record: dict[str, Any] = decode_json(commit.record)
    return max(int(record.get("watermark", 0)), int(record.get("last_seq", 0)))


def _free_epoch(connection: Connection, ref: SessionRef, epoch: int) -> int:
    """The highest free epoch below: no session of this name began in the same microsecond."""
    taken = set(connection.execute(select(sessions.c.epoch).where(of(sessions, ref))).scalars())
    branch = epoch - 1
    while branch in taken:
        branch -= 1
    return branch


def _count(connection: Connection, ref: SessionRef, epoch: int, branch: int, moved: int) -> None:
    own = select(sessions.c.last_at_ms).where(of(sessions, ref, epoch))
    at_ms = connection.execute(own).scalar() or 0
    row = session_row(ref, branch) | {"turns": moved, "last_at_ms": at_ms, "branch_of": epoch}
    connection.execute(sessions.insert(), row)
    fewer = update(sessions).where(of(sessions, ref, epoch))
    connection.execute(fewer.values(turns=sessions.c.turns - moved))


def _branch(connection: Connection, ref: SessionRef, at: int, epoch: int) -> LostBranch:
    mine = of(turns, ref, epoch)
    numbers = select(func.count(), func.min(turns.c.seq), func.max(turns.c.seq)).where(mine)
    count, first, last = connection.execute(numbers).one()
    commits = select(func.count()).select_from(compactions).where(of(compactions, ref, epoch))
    return LostBranch(
        branch=at,
        epoch=str(epoch),
        turns=count,
        first_seq=first or 0,
        last_seq=last or 0,
        compactions=connection.execute(commits).scalar_one(),
    )


def _forget_memories(
    connection: Connection,
    ref: SessionRef,
    epoch: int,
    first_seq: int,
    left: list[ArchivedCompaction] | None,
) -> None:
    """Forget what was made of lost turns, and make anew what was made of contexts."""
    mine = of(memories, ref, epoch)
    gone: list[ColumnElement[bool]] = [
        (memories.c.kind == "turn") & (memories.c.origin >= first_seq)
    ]
    if left is not None:
        gone.append(memories.c.kind == "summary")
    for which in gone:
        if connection.execute(delete(memories).where(mine & which)).rowcount:
            memories_were_deleted(connection, ref.namespace)
    if left:
        told = [(epoch, one) for each in left for one in making.of_events(ref, str(epoch), each)]
        insert_memories(connection, ref.namespace, told)
        replace_summaries(connection, ref.namespace, [(ref, epoch, left[-1])])


def _bring_back(
    connection: Connection, ref: SessionRef, epoch: int, lost: list[ArchivedCompaction]
) -> None:
    """Turns that a lost commit had set aside are part of the conversation again."""
    names = [each.commit_id for each in lost if each.commit_id]
    aside = of(turns, ref, epoch) & turns.c.aside_by.in_(names)
    seqs = set(connection.execute(select(turns.c.seq).where(aside)).scalars())
    if not seqs:
        return
    connection.execute(update(turns).where(aside).values(state="kept", aside_by=None))
    again = [
        turn
        for turn in read_turns(connection, ref, epoch, min(seqs), max(seqs))
        if turn.seq in seqs
    ]
    first = next_position(connection, ref, epoch)
    made = [(epoch, one) for one in making.of_turns(ref, str(epoch), again, first=first)]
    insert_memories(connection, ref.namespace, made)
