"""The format of stored data: what of it this version of turnmill can read, and what it writes.

A format is ``"major.minor"``, in the field ``format`` of what is stored. Data without one has
``FIRST``, and ``FIRST`` is written as none. A higher minor adds fields, which older versions leave
as they are. Only a higher major is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from pydantic import BaseModel

from turnmill.contract.codec import decode_json
from turnmill.contract.errors import CorruptContext, NewerFormat, TurnmillError
from turnmill.contract.sealing import check_plain

FIRST: Final = "1.0"
"""The format of data that names none."""

FORMAT: Final = "1.0"
"""What this version writes."""

_FORMAT = re.compile(r"(\d{1,6})\.(\d{1,6})\Z", re.ASCII)


def refuse_newer(fields: object, what: str) -> None:
    """Return if this version can read these fields; ``what`` names them in errors.

    Raises:
        NewerFormat: their format has a higher major.
        CorruptContext: what they name is no format.
    """
    found = _named(fields, what)
    if found[0] > _parsed(FORMAT)[0]:
        raise _newer(found, what)


def readable(body: bytes, what: str) -> Any:
    """The fields of stored JSON.

    Raises:
        NewerFormat, CorruptContext: as ``refuse_newer``; or it is not JSON.
    """
    try:
        fields = decode_json(body)
    except ValueError:
        check_plain(body)
        # Not chained: the decoder's error holds the text.
        raise CorruptContext(f"{what}: {len(body)} bytes, not JSON") from None
    refuse_newer(fields, what)
    return fields


def refuse_newer_body(body: bytes | None, what: str) -> None:
    """As ``refuse_newer``, of JSON that is not decoded otherwise; what is none, passes."""
    if body and b'"format":' in body:
        with suppress(ValueError):
            refuse_newer(decode_json(body), what)


@contextmanager
def as_corrupt() -> Iterator[None]:
    """Turn what stored values of another shape cause into a ``CorruptContext``, without them.

    Whoever may write to a session's keys can put anything there; Python's errors would quote it.
    """
    try:
        yield
    except TurnmillError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise CorruptContext(f"stored session: not what turnmill writes ({kind})") from None


def is_newer(fields: object, than: str = FORMAT) -> bool:
    """Whether a newer version wrote them, in a format that this one can read or not."""
    return _named(fields, "stored data") > _parsed(than)


def unreadable(fields: object, what: str, why: str) -> TurnmillError:
    """The error for fields that make no sense here: of a newer version, or corrupt."""
    if is_newer(fields):
        return _newer(_named(fields, what), what)
    return CorruptContext(f"{what}: {why}")


def stamp(found: str = FIRST) -> dict[str, Any]:
    """The field ``format`` of what is written: never older than what was ``found`` there."""
    newest = max(found, FORMAT, key=_parsed)
    return {} if newest == FIRST else {"format": newest}


def _named(fields: object, what: str) -> tuple[int, int]:
    found = fields.get("format", FIRST) if isinstance(fields, Mapping) else FIRST
    if not isinstance(found, str) or not _FORMAT.match(found):
        raise CorruptContext(f"{what}: its format is not of the form major.minor")
    return _parsed(found)


def _parsed(found: str) -> tuple[int, int]:
    major, _, minor = found.partition(".")
    return int(major), int(minor)


def _newer(found: tuple[int, int], what: str) -> NewerFormat:
    major, minor = found
    try:
        mine = version("turnmill")
    except PackageNotFoundError:
        mine = "this version"
    who = NewerFormat.component
    return NewerFormat(
        f"{what}: a newer turnmill wrote it in format {major}.{minor}, and this {who} is older: "
        f"turnmill {mine} reads up to {FORMAT.partition('.')[0]}.x; upgrade the {who}s. "
        "Nothing was changed"
    )


class Value(BaseModel, frozen=True, extra="ignore", hide_input_in_errors=True):
    """What workers and agents tell each other: fields of a newer version are left out."""


class Kept(BaseModel, frozen=True, extra="allow", hide_input_in_errors=True):
    """What is stored: fields of a newer version are kept."""


class Strict(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """What a person writes: a field that nobody knows is a mistake."""
