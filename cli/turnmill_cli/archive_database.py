"""The archive's database, opened from here: the one the workers of this machine keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnmill_cli.output import CommandFailed, safe_url

if TYPE_CHECKING:
    from turnmill_worker.archive import SqlArchive

__all__ = [
    "UP_DATA_DIR",
    "ArchiveUrl",
    "DataDir",
    "archive_file",
    "archive_url",
    "open_archive",
    "shown_url",
]

UP_DATA_DIR = Path("turnmill-data")
"""Where `turnmill up` keeps everything, unless told otherwise."""

ArchiveUrl = Annotated[
    str,
    typer.Option(
        "--archive-url",
        metavar="URL",
        envvar="TURNMILL_ARCHIVE_URL",
        help="The archive's database, as the workers have it.",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="TURNMILL_DATA_DIR",
        help="Where the archive is when there is no URL; turnmill-data if that is here.",
        show_default=False,
    ),
]


def archive_url(given: str, data_dir: Path | None) -> str:
    """The archive's URL by the workers' own rules; ``""`` when they keep none.

    Raises:
        CommandFailed: the workers' packages are not installed here.
    """
    try:
        from turnmill_worker.settings import Settings  # noqa: PLC0415
    except ImportError as error:
        raise CommandFailed(
            f"the archive needs more packages ({error.name}): pip install 'turnmill[worker]'"
        ) from None
    usual: Path = Settings.model_fields["data_dir"].default
    here = UP_DATA_DIR if (UP_DATA_DIR / "archive.db").exists() else usual
    # Not validated: a setting of the workers that is wrong here must not stop this command.
    return Settings.model_construct(archive_url=given, data_dir=data_dir or here).archive


def archive_file(url: str) -> Path | None:
    """The file of a SQLite archive, or None for another database."""
    scheme, _, path = url.partition(":///")
    return Path(path.partition("?")[0]) if scheme == "sqlite" else None


def shown_url(url: str) -> str:
    """The archive's place for a person, without a password."""
    file = archive_file(url)
    return str(file) if file else safe_url(url)


@contextmanager
def open_archive(url: str) -> Iterator[SqlArchive]:
    """The archive that is there; closed after the block. Makes none.

    Raises:
        CommandFailed: there is none.
        ArchiveUnavailable, ArchiveFailed, ArchiveTooNew, InvalidArchiveUrl: it cannot be used.
    """
    if not url:
        raise CommandFailed("the archive is turned off: TURNMILL_ARCHIVE_URL=none")
    file = archive_file(url)
    if file is not None and not file.exists():
        raise CommandFailed(
            f"no archive at {file}: name the workers' --data-dir or --archive-url; "
            "they make it with their first compaction"
        )
    from turnmill_worker.archive import SqlArchive  # noqa: PLC0415

    archive = SqlArchive.open(url)
    try:
        yield archive
    finally:
        archive.close()
