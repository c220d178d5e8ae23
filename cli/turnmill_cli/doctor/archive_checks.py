"""The checks of `turnmill doctor` that are about the archive and the templates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SHARDS, shard_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.transport import to_ms
from turnmill_cli.archive_database import archive_file, archive_url, open_archive, shown_url
from turnmill_cli.doctor.checks import Check
from turnmill_cli.options import Target
from turnmill_cli.output import CommandFailed, count

__all__ = ["examine_archive", "examine_templates"]

_NOBODY = SessionId("turnmill-doctor")
WAITING_WARNING_S, WAITING_PROBLEM_S = 60.0, 600.0


def examine_archive(target: Target, url: str, data_dir: Path | None) -> Iterator[Check]:
    """Whether the archive can be written, as far as it is reachable from here, and what waits."""
    try:
        place = archive_url(url, data_dir)
    except CommandFailed:
        yield Check("archive", "ok", "no worker here: run doctor where the workers run")
        place = ""
    else:
        yield _archive(place, target.checked_namespace())
    try:
        with target.redis() as client:
            yield _unarchived(client, target.checked_namespace(), is_off=url == "none")
    except TurnmillError:
        return  # the checks of Redis have said so


def _archive(place: str, namespace: Namespace) -> Check:
    if not place:
        return Check("archive", "ok", "turned off: covered turns stay in Redis")
    file = archive_file(place)
    if file is not None and not file.exists():
        return Check("archive", "ok", f"none at {file}: not needed yet, or kept elsewhere")
    from turnmill_worker.archive.migrate import revisions  # noqa: PLC0415
    from turnmill_worker.ports.values import SessionRef  # noqa: PLC0415

    try:
        with open_archive(place) as archive:
            # A write that changes nothing: no session has begun before 1970.
            archive.forget_epochs(SessionRef(namespace, _NOBODY), through_epoch="0")
    except TurnmillError as error:
        advice = "covered turns wait in Redis: look at its disk, its rights, or its server"
        return Check("archive", "problem", f"{shown_url(place)}: {error}", advice)
    return Check("archive", "ok", f"{shown_url(place)}: writable, schema {revisions()[-1]}")


def _unarchived(client: Any, namespace: Namespace, *, is_off: bool) -> Check:
    with client.pipeline(transaction=False) as pipe:
        for shard in range(SHARDS):
            key = shard_keys(namespace, shard).unarchived
            pipe.zcard(key)
            pipe.zrange(key, 0, 0, withscores=True)
        pipe.time()
        *replies, now = pipe.execute()
    waiting = sum(replies[::2])
    if not waiting:
        return Check("archiving", "ok", f"nothing waits in namespace {namespace}")
    since_ms = min(entry[0][1] for entry in replies[1::2] if entry)
    age_s = max(to_ms(now) - since_ms, 0) / 1000
    found = f"{count(waiting, 'session')} with turns to archive, since {age_s:.0f} s"
    if is_off or age_s < WAITING_WARNING_S:
        return Check("archiving", "ok", found)
    advice = (
        "start a worker with --queues archive and read its log; with TURNMILL_ARCHIVE_URL=none "
        "this is as it should be: say so here, too"
    )
    return Check("archiving", "problem" if age_s > WAITING_PROBLEM_S else "warning", found, advice)


def examine_templates(text: str) -> Iterator[Check]:
    """Whether the folders of templates are there, and every template in them is valid."""
    try:
        from turnmill_worker.templates import TemplateLoader, template_dirs  # noqa: PLC0415
    except ImportError:
        yield Check("templates", "ok", "no worker here: run doctor where the workers run")
        return
    loader = TemplateLoader(template_dirs(text))
    absent = [str(folder) for folder in loader.dirs if not folder.is_dir()]
    if absent:
        advice = "make it, or correct TURNMILL_TEMPLATE_DIRS"
        yield Check("templates", "warning", f"no such folder: {', '.join(absent)}", advice)
        return
    listed = loader.list()
    bad = [each.problem for each in listed if each.problem]
    if bad:
        advice = (
            "`turnmill templates check FILE` says more; sessions that name it are not compacted"
        )
        yield Check("templates", "problem", "\n".join(bad), advice)
        return
    usable = sum(not each.shadowed_by for each in listed)
    folders = count(len(loader.dirs), "folder")
    yield Check("templates", "ok", f"{count(usable, 'template')}, {folders} beside the built-in")
