"""Any earlier archive becomes the newest, and a later one is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from tests.archive.records import EPOCH, compaction, turn
from turnmill_worker.archive import ArchiveFailed, ArchiveTooNew, SqlArchive
from turnmill_worker.archive.database import (
    MIGRATIONS,
    VERSION_TABLE,
    make_engine,
    migrate,
    revisions,
)
from turnmill_worker.archive.schema import METADATA
from turnmill_worker.ports.values import Batch, SessionRef

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "v9999"
down_revision = "{newest}"


def upgrade() -> None:
    op.add_column("turns", sa.Column("mood", sa.Text, nullable=True))
    {then}
"""


def later_release(folder: Path, *, then: str = "") -> Path:
    """The migrations of a release to come, with one revision more."""
    copied = Path(shutil.copytree(MIGRATIONS, folder / "migrations"))
    following = NEXT.format(newest=revisions()[-1], then=then)
    (copied / "versions" / "v9999_mood.py").write_text(following)
    return copied


def columns(url: str, table: str) -> set[str]:
    engine = make_engine(url)
    found = inspect(engine)
    names = {column["name"] for column in found.get_columns(table)} if (
        found.has_table(table)
    ) else set()  # fmt: skip
    engine.dispose()
    return names


@pytest.mark.parametrize("start", [None, *revisions()])
def test_every_earlier_schema_becomes_the_newest(empty_url: str, start: str | None) -> None:
    engine = make_engine(empty_url)
    if start is not None:
        migrate(engine, to=start)

    SqlArchive.open(empty_url).close()

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == revisions()[-1]
    engine.dispose()


def test_what_is_stored_survives_an_upgrade(
    empty_url: str, tmp_path: Path, ref: SessionRef
) -> None:
    archive = SqlArchive.open(empty_url)
    batch = Batch(turns=(turn(1), turn(2)), compactions=(compaction(1, summary="s"),))
    archive.store(ref, EPOCH, batch)
    engine = make_engine(empty_url)

    migrate(engine, migrations=later_release(tmp_path))

    assert "mood" in columns(empty_url, "turns")
    assert tuple(archive.turns(ref)) == batch.turns, "a worker of before goes on working"
    archive.store(ref, EPOCH, Batch(turns=(turn(3),)))
    assert len(archive.turns(ref)) == 3
    archive.close()
    engine.dispose()


def test_an_archive_of_a_later_release_is_refused_and_left_alone(
    empty_url: str, tmp_path: Path
) -> None:
    engine = make_engine(empty_url)
    migrate(engine, migrations=later_release(tmp_path))

    with pytest.raises(ArchiveTooNew, match=f"v9999.*knows up to {revisions()[-1]}"):
        SqlArchive.open(empty_url)

    assert "mood" in columns(empty_url, "turns")
    engine.dispose()


def test_a_failing_upgrade_leaves_the_schema_as_it_was(
    empty_url: str, tmp_path: Path, ref: SessionRef
) -> None:
    archive = SqlArchive.open(empty_url)
    archive.store(ref, EPOCH, Batch(turns=(turn(1),)))
    engine = make_engine(empty_url)
    broken = later_release(tmp_path, then='op.execute("SELECT no_such_function()")')

    with pytest.raises(ArchiveFailed):
        migrate(engine, migrations=broken)

    assert "mood" not in columns(empty_url, "turns")
    assert archive.turns(ref) == [turn(1)]
    SqlArchive.open(empty_url).close()
    archive.close()
    engine.dispose()


def test_another_programs_database_is_left_alone(empty_url: str) -> None:
    engine = make_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE turns (mine TEXT)"))

    with pytest.raises(ArchiveFailed):
        SqlArchive.open(empty_url)

    assert columns(empty_url, "turns") == {"mine"}
    assert columns(empty_url, "sessions") == set()
    engine.dispose()
