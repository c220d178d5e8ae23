"""Which statements a later one has made past: a new date, amount, owner of the same thing."""

from turnmill_worker.old_reading.updates.find import (
    Newer,
    Told,
    marked,
    newest_first,
    superseded,
)
from turnmill_worker.old_reading.updates.replaced import SPEAKERS

__all__ = [
    "SPEAKERS",
    "Newer",
    "Told",
    "marked",
    "newest_first",
    "superseded",
]
