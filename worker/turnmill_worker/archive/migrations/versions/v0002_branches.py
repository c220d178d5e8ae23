"""What tells a turn or commit from another at its position, and branches that Redis lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    """Add columns that are null in all earlier rows."""
    op.add_column("sessions", sa.Column("branch_of", sa.BigInteger, nullable=True))
    op.add_column("turns", sa.Column("chain", sa.Text, nullable=True))
    op.add_column("turns", sa.Column("aside_by", sa.Text, nullable=True))
    op.add_column("compactions", sa.Column("commit_id", sa.Text, nullable=True))
