"""Which statements a later one has made past: a new date, amount, owner of the same thing."""

from turnmill_worker.reading.updates.find import Newer, marked, newest_first, superseded
from turnmill_worker.reading.updates.outdated import Replaced

__all__ = ["Newer", "Replaced", "marked", "newest_first", "superseded"]
