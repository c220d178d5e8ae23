"""The check of `turnmill doctor` about the tokenizers of files that policies name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from turnmill.contract.errors import TurnmillError, UnknownEncoding
from turnmill.contract.estimate import FILE, file_of
from turnmill_cli.doctor.check import Check
from turnmill_cli.doctor.model_checks import NEWEST
from turnmill_cli.options import Connection
from turnmill_cli.output import count
from turnmill_worker.tokens import counter_for

__all__ = ["check_tokenizers"]

_UNSEEN = "set TURNMILL_TOKENIZER_DIR for the workers, and here to have the files checked"
_UNUSABLE = (
    "correct the file or the policy: until then those sessions are not counted nor compacted"
)


def check_tokenizers(folder: str, connection: Connection) -> Iterator[Check]:
    """Whether the files can be used; nothing where there is no folder and no policy names one."""
    place = Path(folder) if folder else None
    named = _named(connection)
    present = {file.stem for file in place.glob("*.json")} if place else set()
    if place is None and not named:
        return
    problems = [why for name in sorted({*named, *present}) if (why := _problem(name, place))]
    if not problems:
        usable = count(len(present), "tokenizer")
        yield Check("tokenizers", "ok", f"{usable}, of which the newest sessions use {len(named)}")
    elif place is None:
        yield Check("tokenizers", "warning", "\n".join(problems), _UNSEEN)
    else:
        yield Check("tokenizers", "problem", "\n".join(problems), _UNUSABLE)


def _named(connection: Connection) -> set[str]:
    """The files that policies of the newest sessions name."""
    try:
        with connection.redis() as view:
            newest = [name for name, _ in view.newest_sessions(NEWEST)]
            return {file for each in view.encodings_of(newest) if (file := file_of(each))}
    except TurnmillError:  # the checks of Redis say why
        return set()


def _problem(name: str, folder: Path | None) -> str:
    try:
        counter_for(f"{FILE}{name}", folder=folder)
    except UnknownEncoding as error:
        return str(error)
    return ""
