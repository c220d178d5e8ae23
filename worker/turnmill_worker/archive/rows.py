"""Records as rows and back, and the statements every table needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import InvalidInput
from turnmill.contract.names import Namespace, Seq, SessionId, Version
from turnmill_worker.archive.schema import namespaces, sealed_rows
from turnmill_worker.ports.values import ArchivedCompaction, ArchivedTurn, Memory, SessionRef


class ArchivedSession(NamedTuple):
    """A session with something in the archive.

    Attributes:
        turns: over all its incarnations, set-aside ones included.
        last_at_ms: of its newest archived turn or compaction.
    """

    session: SessionId
    turns: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedView:
    """How a template made a managed context.

    Attributes:
        epoch: the incarnation of the session.
        version: the context it became.
        template, source, sha256: its name, the file it was read from, and that file's hash.
        model: the alias it was asked by.
        input: what the model was given.
        raw_output: its answer, word for word.
        parsed_output: JSON of what was read from the answer, ``b"null"`` when it was not JSON.
        sections: names of the parts the input was made of, in order.
        budget: JSON object of token numbers.
    """

    epoch: str
    version: Version
    at_ms: int
    template: str
    source: str
    sha256: str
    model: str
    input: str
    raw_output: str
    parsed_output: bytes
    sections: tuple[str, ...]
    budget: bytes


class Made(NamedTuple):
    """A memory and what it was made of: a turn's or event's seq, or a summary's version."""

    origin: int
    memory: Memory


RowValues = dict[str, Any]
_MOST_BOUND = 500
_LOCKING = (
    select(namespaces.c.namespace)
    .where(namespaces.c.namespace == bindparam("mine"))
    .with_for_update()
)


def epoch_number(epoch: str) -> int:
    """The epoch as a number, by which incarnations of a session are in order.

    Raises:
        InvalidInput: it is not decimal digits.
    """
    if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= 18):  # noqa: PLR2004 - of 2^63
        raise InvalidInput(f"epoch: {len(epoch)} characters; allowed are 1 to 18 decimal digits")
    return int(epoch)


def insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that can say what to do about rows that are there already."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def insert_new(
    connection: Connection, table: Table, key: tuple[str, ...], rows: list[RowValues]
) -> set[tuple[Any, ...]]:
    """Insert the rows that are not there yet, and return their keys."""
    if not rows:
        return set()
    statement = _inserting(connection.dialect.name, table, key)
    return {
        tuple(row) for row in connection.execute(statement, sealed_rows(connection, table, rows))
    }


def insert_absent(connection: Connection, table: Table, rows: list[RowValues]) -> None:
    """Insert the rows that are not there yet."""
    if rows:
        statement = _inserting(connection.dialect.name, table)
        connection.execute(statement, sealed_rows(connection, table, rows))


@cache
def _inserting(dialect: str, table: Table, key: tuple[str, ...] = ()) -> Any:
    # Built once: to build a statement takes longer than to execute it.
    statement = insert(dialect, table).on_conflict_do_nothing()
    return statement.returning(*(table.c[name] for name in key)) if key else statement


def of(table: Table, ref: SessionRef, epoch: int | None = None) -> ColumnElement[bool]:
    """Rows of the session, or of one incarnation of it."""
    mine = and_(table.c.namespace == ref.namespace, table.c.session == ref.session)
    return mine if epoch is None else and_(mine, table.c.epoch == epoch)


def lock(connection: Connection, namespace: Namespace) -> None:
    """Make all other writers of the namespace wait until this transaction ends.

    So nobody refers to an image while it is deleted, and memories become visible in the order of
    their cursors. On SQLite the transaction has the whole database anyway.
    """
    row = {"namespace": namespace, "memory_cursor": 0, "memory_generation": 0}
    insert_absent(connection, namespaces, [row])
    connection.execute(_LOCKING, {"mine": namespace})


def chunks(values: Iterable[str]) -> Iterator[Sequence[str]]:
    """The values in parts a statement can bind."""
    rest = list(values)
    for start in range(0, len(rest), _MOST_BOUND):
        yield rest[start : start + _MOST_BOUND]


def session_row(ref: SessionRef, epoch: int) -> RowValues:
    """The columns with which every row of the session begins."""
    return {"namespace": ref.namespace, "session": ref.session, "epoch": epoch}


def turn_row(turn: ArchivedTurn) -> RowValues:
    """A turn, without its images."""
    return {
        "seq": turn.seq,
        "turn_id": turn.turn_id,
        "messages": turn.messages,
        "fields": turn.fields,
        "at_ms": turn.at_ms,
        "tokens": turn.tokens,
        "state": turn.state,
        "chain": turn.chain or None,
        "aside_by": None if turn.state == "kept" else turn.by or None,
    }


def turn_from(row: Any, blobs: Sequence[str]) -> ArchivedTurn:
    """The turn of a row."""
    return ArchivedTurn(
        seq=Seq(row.seq),
        messages=row.messages,
        turn_id=row.turn_id,
        fields=row.fields,
        at_ms=row.at_ms,
        tokens=row.tokens,
        state=row.state,
        blobs=tuple(blobs),
        chain=row.chain or "",
        by=row.aside_by or "",
    )


def compaction_row(compaction: ArchivedCompaction) -> RowValues:
    """A compaction, without its managed view."""
    return {
        "version": compaction.version,
        "at_ms": compaction.at_ms,
        "record": compaction.record,
        "context": compaction.context,
        "detail": compaction.detail,
        "commit_id": compaction.commit_id or None,
    }


def compaction_from(row: Any) -> ArchivedCompaction:
    """The compaction of a row."""
    return ArchivedCompaction(
        version=Version(row.version),
        at_ms=row.at_ms,
        record=row.record,
        context=row.context,
        detail=row.detail,
        commit_id=row.commit_id or "",
    )


def view_row(compaction: ArchivedCompaction) -> RowValues | None:
    """The managed view a compaction made, or None."""
    try:
        detail = decode_json(compaction.detail) if compaction.detail else None
    except ValueError:
        return None
    if not isinstance(detail, Mapping):
        return None
    texts = ("template", "source", "sha256", "model", "input", "raw_output")
    return {
        "version": compaction.version,
        "at_ms": compaction.at_ms,
        **{name: str(detail.get(name) or "") for name in texts},
        "parsed_output": encode_json(detail.get("parsed_output")),
        "sections": encode_json(detail.get("sections") or []),
        "budget": encode_json(detail.get("budget") or {}),
    }


def view_from(row: Any) -> ManagedView:
    """The managed view of a row."""
    return ManagedView(
        epoch=str(row.epoch),
        version=Version(row.version),
        at_ms=row.at_ms,
        template=row.template,
        source=row.source,
        sha256=row.sha256,
        model=row.model,
        input=row.input,
        raw_output=row.raw_output,
        parsed_output=row.parsed_output,
        sections=tuple(decode_json(row.sections)),
        budget=row.budget,
    )


def memory_row(namespace: Namespace, epoch: int | None, made: Made, cursor: int) -> RowValues:
    """A memory, made of something of this incarnation of its session."""
    memory = made.memory
    return {
        "namespace": namespace,
        "id": memory.id,
        "cursor": cursor,
        "kind": memory.kind,
        "text": memory.text,
        "speaker": memory.speaker,
        "session": memory.session,
        "epoch": epoch,
        "origin": made.origin,
        "position": memory.position,
        "at_ms": memory.at_ms,
    }


def memory_from(row: Any) -> Memory:
    """The memory of a row."""
    return Memory(
        id=row.id,
        kind=row.kind,
        text=row.text,
        speaker=row.speaker,
        session=None if row.session is None else SessionId(row.session),
        seq=Seq(row.origin) if row.kind == "turn" else None,
        position=row.position,
        at_ms=row.at_ms,
    )
