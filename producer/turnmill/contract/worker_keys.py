"""Keys that only workers write, about all namespaces together; no agent may change them.

=============================  ======  ===============================================  =========
key                            type    what                                             lifetime
=============================  ======  ===============================================  =========
``turnmill:quarantined``       list    the newest messages of the broker that were put  permanent
                                       aside: JSON of ``at_ms``, ``why``, ``queue``,
                                       ``size``, ``sha256`` and ``headers``
``turnmill:quarantined:count`` string  how many there were, ever                        permanent
=============================  ======  ===============================================  =========
"""

from __future__ import annotations

__all__ = ["QUARANTINED", "QUARANTINED_COUNT", "QUARANTINED_KEPT"]

QUARANTINED = "turnmill:quarantined"
QUARANTINED_COUNT = "turnmill:quarantined:count"
QUARANTINED_KEPT = 100
"""The longest that the list gets."""
