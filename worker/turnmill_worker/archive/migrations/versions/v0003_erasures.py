"""Records of erasures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "erasures",
        *(
            sa.Column(name, sa.Text, nullable=False, primary_key=True)
            for name in ("namespace", "id")
        ),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("by", "how")),
        sa.Column("turns", sa.LargeBinary, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("contexts", "checkpoints", "memories", "images")
        ),
    )
    op.create_index("ix_erasures_session", "erasures", ["namespace", "session", "at_ms"])
