"""Which sessions were forked from which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0005"
down_revision = "v0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "forks",
        sa.Column("namespace", sa.Text, nullable=False, primary_key=True),
        sa.Column("session", sa.Text, nullable=False, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False, primary_key=True),
        sa.Column("parent", sa.Text, nullable=False, primary_key=True),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_forks_parent", "forks", ["namespace", "parent"])
