"""The archive's database, opened from here: the one that the workers of this machine keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from turnmill_cli.options import setting
from turnmill_cli.output import CommandFailed, needing, safe_url
from turnmill_cli.running import UP_DATA_DIR

if TYPE_CHECKING:
    from turnmill_worker.archive import SqlArchive


@dataclass(frozen=True, slots=True)
class ArchiveDatabase:
    """Where the archive is; also the options that say so."""

    archive_url: Annotated[
        str,
        setting(
            "--archive-url",
            "URL",
            "The archive's database, as it is set for the workers.",
            panel="Archive",
        ),
    ] = ""
    data_dir: Annotated[
        Path | None,
        setting(
            "--data-dir",
            "DIR",
            "The folder of the archive, if it has no URL; turnmill-data if it exists here.",
            panel="Archive",
        ),
    ] = None
    archive_password_file: Annotated[
        Path | None,
        setting(
            "--archive-password-file",
            "FILE",
            "A file with the password of that database.",
            panel="Archive",
        ),
    ] = None

    @property
    def url(self) -> str:
        """The archive's URL by the workers' own rules; ``""`` if they keep no archive.

        Raises:
            CommandFailed: the workers' packages are not installed here.
        """
        with needing("worker"):
            from turnmill_worker.settings import Settings  # noqa: PLC0415 - needs the extra worker
        usual: Path = Settings.model_fields["data_dir"].default
        here = UP_DATA_DIR if UP_DATA_DIR.is_dir() else usual
        # Not validated: a setting of the workers that is wrong here must not stop this command.
        folder = self.data_dir or here
        return Settings.model_construct(
            archive_url=self.archive_url,
            archive_password_file=self.archive_password_file,
            data_dir=folder,
        ).archive

    @property
    def file(self) -> Path | None:
        """The file of a SQLite archive, or None for another database."""
        scheme, _, path = self.url.partition(":///")
        return Path(path.partition("?")[0]) if scheme == "sqlite" else None

    @property
    def is_absent(self) -> bool:
        """Whether it is a file that does not exist."""
        file = self.file
        return file is not None and not file.exists()

    @property
    def bytes_on_disk(self) -> int | None:
        """With what SQLite has not moved into the file yet; None for another database."""
        file = self.file
        if file is None:
            return None
        log = file.with_name(f"{file.name}-wal")
        return sum(each.stat().st_size for each in (file, log) if each.exists())

    def __str__(self) -> str:
        """Where it is, for a person, without a password."""
        return str(self.file or safe_url(self.url))

    @contextmanager
    def open(self) -> Iterator[SqlArchive]:
        """The archive that is there; closed after the block. Makes none.

        Raises:
            CommandFailed: there is no archive.
            ArchiveUnavailable, ArchiveFailed, ArchiveTooNew, InvalidArchiveUrl: it cannot be used.
        """
        if not self.url:
            raise CommandFailed("the archive is turned off: TURNMILL_ARCHIVE_URL=none")
        if self.is_absent:
            raise CommandFailed(
                f"no archive at {self.file}: give --data-dir or --archive-url as it is set for the "
                "workers; they make the archive with their first compaction"
            )
        from turnmill_worker.archive import SqlArchive  # noqa: PLC0415 - needs the extra worker

        archive = SqlArchive.open(self.url)
        try:
            yield archive
        finally:
            archive.close()
