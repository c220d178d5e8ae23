"""Round trips of the synchronous client; ``_async/topology.py`` is its twin by hand."""

from __future__ import annotations

from turnmill._sync.waiting import Trips
from turnmill.store_url import store_url
from turnmill.topology.cluster import ClusterTrips

__all__ = ["trips_to"]


def trips_to(url: str, timeout_s: float) -> Trips | ClusterTrips:
    """Round trips to the state store at this URL.

    Raises:
        InvalidInput: this is no URL of a state store.
    """
    store = store_url(url)
    return (ClusterTrips if store.kind == "cluster" else Trips)(store, timeout_s)
