"""Round trips of the synchronous client; ``_async/topology.py`` is its twin by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill._sync.waiting import Trips
from turnmill.store_url import store_url

if TYPE_CHECKING:
    from turnmill.topology.cluster import ClusterTrips

__all__ = ["trips_to"]


def trips_to(url: str, timeout_s: float) -> Trips | ClusterTrips:
    """Round trips to the state store at this URL.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    if store.kind == "cluster":
        from turnmill.topology.cluster import ClusterTrips  # noqa: PLC0415 - few have one

        return ClusterTrips(store, timeout_s)
    return Trips(store, timeout_s)
