"""Sessions, turns, compactions, managed views, images and memories."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None


def _key(*columns: str) -> list[sa.Column[Any]]:
    kinds = {"namespace": sa.Text, "session": sa.Text, "sha256": sa.Text, "id": sa.LargeBinary}
    return [
        sa.Column(name, kinds.get(name, sa.BigInteger), nullable=False, primary_key=True)
        for name in columns
    ]


def _required(kind: type[sa.types.TypeEngine[Any]], *columns: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in columns]


def upgrade() -> None:
    """Make every table."""
    _conversations()
    _images()
    _memories()


def _conversations() -> None:
    session = ("namespace", "session", "epoch")
    op.create_table("sessions", *_key(*session), *_required(sa.BigInteger, "turns", "last_at_ms"))
    op.create_table(
        "turns",
        *_key(*session, "seq"),
        *_required(sa.LargeBinary, "turn_id", "messages", "fields"),
        *_required(sa.BigInteger, "at_ms"),
        sa.Column("tokens", sa.BigInteger, nullable=True),
        *_required(sa.Text, "state"),
    )
    op.create_table(
        "compactions",
        *_key(*session, "version"),
        *_required(sa.BigInteger, "at_ms"),
        *_required(sa.LargeBinary, "record", "context", "detail"),
    )
    op.create_table(
        "managed_views",
        *_key(*session, "version"),
        *_required(sa.BigInteger, "at_ms"),
        *_required(sa.Text, "template", "source", "sha256", "model"),
        *_required(sa.LargeBinary, "input", "raw_output", "parsed_output", "sections", "budget"),
    )


def _images() -> None:
    op.create_table(
        "blobs",
        *_key("namespace", "sha256"),
        *_required(sa.Text, "media_type"),
        *_required(sa.LargeBinary, "data"),
    )
    op.create_table(
        "blob_refs",
        *_key("namespace", "session", "epoch", "seq", "place"),
        *_required(sa.Text, "sha256"),
    )
    op.create_index("ix_blob_refs_sha256", "blob_refs", ["namespace", "sha256"])


def _memories() -> None:
    op.create_table(
        "namespaces",
        *_key("namespace"),
        *_required(sa.BigInteger, "memory_cursor", "memory_generation"),
    )
    op.create_table(
        "memories",
        *_key("namespace", "id"),
        *_required(sa.BigInteger, "cursor"),
        *_required(sa.Text, "kind"),
        *_required(sa.LargeBinary, "text", "speaker"),
        sa.Column("session", sa.Text, nullable=True),
        sa.Column("epoch", sa.BigInteger, nullable=True),
        sa.Column("origin", sa.BigInteger, nullable=True),
        *_required(sa.BigInteger, "position", "at_ms"),
    )
    op.create_index("ix_memories_cursor", "memories", ["namespace", "cursor"], unique=True)
    op.create_index("ix_memories_session", "memories", ["namespace", "session", "epoch", "origin"])
