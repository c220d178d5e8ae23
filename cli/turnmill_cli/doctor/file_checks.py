"""The checks of `turnmill doctor` about what workers keep in files: the archive and templates."""

from __future__ import annotations

from turnmill.contract.errors import TurnmillError
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.archive_database import ArchiveDatabase
from turnmill_cli.doctor.check import Check
from turnmill_cli.output import CommandFailed, count
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.templates import TemplateLoader, template_dirs

__all__ = ["check_archive", "check_templates"]

_NOBODY = SessionId("turnmill-doctor")


def check_archive(archive: ArchiveDatabase, namespace: Namespace) -> Check:
    """Whether the archive can be written, if it can be reached from here."""
    try:
        if not archive.url:
            return Check("archive", "ok", "turned off: covered turns stay in Redis")
    except CommandFailed:
        return Check("archive", "ok", "no worker here: run doctor where the workers run")
    if archive.is_absent:
        return Check("archive", "ok", f"none at {archive}: not needed yet, or kept elsewhere")
    from turnmill_worker.archive.database import revisions  # noqa: PLC0415 - needs the extra worker

    try:
        with archive.open() as opened:
            # A write that changes nothing: no session has begun before 1970.
            opened.forget_epochs(SessionRef(namespace, _NOBODY), through_epoch="0")
    except TurnmillError as error:
        advice = "covered turns wait in Redis: look at its disk, its permissions, or its server"
        return Check("archive", "problem", f"{archive}: {error}", advice)
    return Check("archive", "ok", f"{archive}: writable, schema {revisions()[-1]}")


def check_templates(folders: str) -> Check:
    """Whether the folders of templates exist, and every template in them is valid."""
    loader = TemplateLoader(template_dirs(folders))
    absent = [str(folder) for folder in loader.dirs if not folder.is_dir()]
    if absent:
        advice = "create it, or correct TURNMILL_TEMPLATE_DIRS"
        return Check("templates", "warning", f"no such folder: {', '.join(absent)}", advice)
    listed = loader.list()
    bad = [each.problem for each in listed if each.problem]
    if bad:
        advice = "`turnmill templates check FILE` says more; sessions that use it are not compacted"
        return Check("templates", "problem", "\n".join(bad), advice)
    usable = sum(not each.shadowed_by for each in listed)
    own = f", {count(len(loader.dirs), 'folder')} of your own" if loader.dirs else ""
    return Check("templates", "ok", f"{count(usable, 'template')}{own}")
