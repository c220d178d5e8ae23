"""No samples of what was said among the statistics of PostgreSQL: no erasure finds them there."""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"

SAID = {
    "turns": ("turn_id", "messages", "fields"),
    "compactions": ("record", "context", "detail"),
    "managed_views": ("input", "raw_output", "parsed_output", "sections", "budget"),
    "blobs": ("data",),
    "memories": ("id", "text", "speaker"),
    "erasures": ("turns",),
}


def upgrade() -> None:
    """Take none from now on, and drop those there are."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    for table, names in SAID.items():
        for name in names:
            column = f"ALTER TABLE {table} ALTER COLUMN {name}"
            bind.execute(sa.text(f"{column} SET STATISTICS 0"))
            # To the type it has: that drops its samples. Refused where somebody's view shows it.
            with suppress(sa.exc.NotSupportedError), bind.begin_nested():
                bind.execute(sa.text(f"{column} TYPE bytea"))
