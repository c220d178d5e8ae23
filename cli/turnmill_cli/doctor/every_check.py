"""All that the doctor looks at, in the order in which one thing needs another."""

from __future__ import annotations

from collections.abc import Iterator

from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.doctor.broker_checks import check_broker, check_vocabulary
from turnmill_cli.doctor.check import Check
from turnmill_cli.doctor.file_checks import check_archive, check_templates
from turnmill_cli.doctor.position_checks import check_positions
from turnmill_cli.doctor.redis_checks import check_redis
from turnmill_cli.doctor.tokenizer_checks import check_tokenizers
from turnmill_cli.options import Connection

__all__ = ["every_check"]


def every_check(
    connection: Connection, archive: ArchiveDatabase, template_dirs: str, tokenizer_dir: str
) -> Iterator[Check]:
    """Each check's finding."""
    namespace = connection.check()
    yield from check_redis(connection, is_archive_off=archive.archive_url == "none")
    yield from check_broker(connection)
    yield check_vocabulary()
    yield from check_tokenizers(tokenizer_dir, connection)
    yield check_archive(archive, namespace)
    yield from check_positions(archive, connection)
    yield check_templates(template_dirs)
