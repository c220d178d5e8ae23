"""Columns with content, sealed on their way into the database and opened on their way back.

What a cipher seals is bound to the row it is in: its table and its key, but for the epoch. Rows
that Redis lost are kept under another, as a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import Connection, Row, Table

from turnmill.contract.sealing import Cipher, opened, seal
from turnmill_worker.archive.schema import Said

__all__ = ["opened_row", "sealed_rows", "with_cipher"]

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
