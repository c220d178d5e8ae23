"""Which statements a later one has made past: a new date, amount, owner of the same thing."""

from turnmill_worker.reading.updates.find import (
    Newer,
    Told,
    marked,
    newest_first,
    superseded,
    superseded_in,
)
from turnmill_worker.reading.updates.outdated import Replaced

__all__ = [
    "Newer",
    "Replaced",
    "Told",
    "marked",
    "newest_first",
    "superseded",
    "superseded_in",
]
