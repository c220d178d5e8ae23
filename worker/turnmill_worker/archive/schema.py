"""The archive's tables, as they are now; how they came to be is in ``migrations/``.

Rows carry the names a person asks by - namespace, session, epoch - so that any SQL client can
read the archive. What an agent said may hold NUL and lone surrogates, which PostgreSQL's ``text``
refuses: it is kept as the bytes of its UTF-8 (``convert_from(raw_output, 'UTF8')`` in psql,
``CAST(raw_output AS TEXT)`` in sqlite3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Row,
    Table,
    Text,
    TypeDecorator,
)

from turnmill.contract.sealing import MARK, Cipher, opened, seal


class Said(TypeDecorator[str]):
    """Any ``str`` Python can hold, as bytes of its UTF-8."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        """To the database; bytes are sealed already."""
        return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """From the database; what is sealed stays so."""
        if value is None or bytes(value).startswith(MARK):
            return value and bytes(value)
        return bytes(value).decode("utf-8", "surrogatepass")


class Label(TypeDecorator[str]):
    """A name of a file or a model, readable in SQL; what no text column takes is escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """To the database."""
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


METADATA = MetaData()


def _table(name: str, *parts: Column[Any] | Index, key: tuple[str, ...]) -> Table:
    namespace = Column("namespace", Text, nullable=False)
    return Table(name, METADATA, namespace, *parts, PrimaryKeyConstraint(*key))


def _session() -> tuple[Column[Any], Column[Any]]:
    return Column("session", Text, nullable=False), Column("epoch", BigInteger, nullable=False)


def _number(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


namespaces = _table(
    "namespaces",
    _number("memory_cursor"),
    _number("memory_generation"),
    key=("namespace",),
)
"""One row per namespace: the lock its writers take, and the numbers of its memories."""

sessions = _table(
    "sessions",
    *_session(),
    _number("turns"),
    _number("last_at_ms"),
    _number("branch_of", nullable=True),
    key=("namespace", "session", "epoch"),
)

"""One row per incarnation; ``branch_of`` is null unless Redis lost what is under this epoch.

Where Redis returned to an earlier state of an incarnation, rows of the state it lost are kept under
an epoch of their own, just below. ``branch_of`` names the epoch they were taken from.
"""

turns = _table(
    "turns",
    *_session(),
    _number("seq"),
    Column("turn_id", Said, nullable=False),
    Column("messages", LargeBinary, nullable=False),
    Column("fields", LargeBinary, nullable=False),
    _number("at_ms"),
    _number("tokens", nullable=True),
    Column("state", Text, nullable=False),
    Column("chain", Text, nullable=True),
    Column("aside_by", Text, nullable=True),
    key=("namespace", "session", "epoch", "seq"),
)
"""``chain`` is equal exactly if a turn and all before it are; ``aside_by`` is a ``commit_id``."""

compactions = _table(
    "compactions",
    *_session(),
    _number("version"),
    _number("at_ms"),
    Column("record", LargeBinary, nullable=False),
    Column("context", LargeBinary, nullable=False),
    Column("detail", LargeBinary, nullable=False),
    Column("commit_id", Text, nullable=True),
    key=("namespace", "session", "epoch", "version"),
)

managed_views = _table(
    "managed_views",
    *_session(),
    _number("version"),
    _number("at_ms"),
    Column("template", Label, nullable=False),
    Column("source", Label, nullable=False),
    Column("sha256", Label, nullable=False),
    Column("model", Label, nullable=False),
    Column("input", Said, nullable=False),
    Column("raw_output", Said, nullable=False),
    Column("parsed_output", LargeBinary, nullable=False),
    Column("sections", LargeBinary, nullable=False),
    Column("budget", LargeBinary, nullable=False),
    key=("namespace", "session", "epoch", "version"),
)

blobs = _table(
    "blobs",
    Column("sha256", Text, nullable=False),
    Column("media_type", Label, nullable=False),
    Column("data", LargeBinary, nullable=False),
    key=("namespace", "sha256"),
)

blob_refs = _table(
    "blob_refs",
    *_session(),
    _number("seq"),
    _number("place"),
    Column("sha256", Text, nullable=False),
    Index("ix_blob_refs_sha256", "namespace", "sha256"),
    key=("namespace", "session", "epoch", "seq", "place"),
)
"""Which turn shows which image, in which place; an image nothing refers to is deleted."""

memories = _table(
    "memories",
    Column("id", Said, nullable=False),
    _number("cursor"),
    Column("kind", Text, nullable=False),
    Column("text", Said, nullable=False),
    Column("speaker", Said, nullable=False),
    Column("session", Text, nullable=True),
    _number("epoch", nullable=True),
    _number("origin", nullable=True),
    _number("position"),
    _number("at_ms"),
    Index("ix_memories_cursor", "namespace", "cursor", unique=True),
    Index("ix_memories_session", "namespace", "session", "epoch", "origin"),
    key=("namespace", "id"),
)
"""``origin`` is the seq a memory was made of, or a summary's version; None for a pushed one."""

erasures = _table(
    "erasures",
    Column("id", Text, nullable=False),
    Column("session", Text, nullable=False),
    _number("at_ms"),
    Column("by", Label, nullable=False),
    Column("how", Text, nullable=False),
    Column("turns", LargeBinary, nullable=False),
    *(_number(name) for name in ("contexts", "checkpoints", "memories", "images")),
    Index("ix_erasures_session", "namespace", "session", "at_ms"),
    key=("namespace", "id"),
)
"""That words were erased, when, by whom and of which turns; never which words."""


forks = _table(
    "forks",
    *_session(),
    Column("parent", Text, nullable=False),
    _number("until_ms"),
    Index("ix_forks_parent", "namespace", "parent"),
    key=("namespace", "session", "epoch", "parent"),
)
"""One row for each session that a fork has turns of; see ``Fork``."""


_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    "turns": ("messages", "fields"),
    "compactions": ("context", "detail"),
    "managed_views": ("input", "raw_output", "parsed_output"),
    "blobs": ("data",),
    "memories": ("text", "speaker"),
}
_OPTION: Final = "turnmill_cipher"


def with_cipher(cipher: Cipher | None) -> dict[str, Any]:
    """The execution option that says how rows are sealed."""
    return {_OPTION: cipher}


def sealed_rows(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]]
) -> Sequence[dict[str, Any]]:
    """The rows as they are stored."""
    cipher: Cipher | None = connection.get_execution_options().get(_OPTION)
    content = _CONTENT.get(table.name, ())
    if cipher is None or not content:
        return rows
    return [
        row | {name: seal(cipher, _bytes(row[name]), _place(table, row)) for name in content}
        for row in rows
    ]


def opened_row(connection: Connection, table: Table, row: Row[Any]) -> Any:
    """The row with its content opened.

    Raises:
        CannotDecrypt: it is sealed, and there is no cipher here or it cannot.
    """
    cipher: Cipher | None = connection.get_execution_options().get(_OPTION)
    values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's name for what is public
    for name in _CONTENT[table.name]:
        found = opened(cipher, values[name], _place(table, values))
        if isinstance(found, bytes) and isinstance(table.c[name].type, Said):
            found = found.decode("utf-8", "surrogatepass")
        values[name] = found
    return SimpleNamespace(**values)


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _place(table: Table, row: Mapping[str, Any]) -> str:
    names = [column.name for column in table.primary_key.columns if column.name != "epoch"]
    return "/".join([table.name, *(str(row[name]) for name in names)])
