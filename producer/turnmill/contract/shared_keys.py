"""Keys that the sessions of a framework share, under the namespace's tag ``kept``.

====================================  ====  ==========================================  =========
key, after the tag                    type  what                                        lifetime
====================================  ====  ==========================================  =========
``shared:sessions:<hash of names>``   set   names of the sessions of an app or a user   permanent
``shared:values:<hash of names>``     hash  values of an app or a user                  permanent
====================================  ====  ==========================================  =========
"""

from __future__ import annotations

import hashlib

from turnmill.contract.names import Namespace

__all__ = ["hash_of", "shared_key"]


def hash_of(*names: str) -> str:
    """A word for the names, whatever is in them."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def shared_key(namespace: Namespace, what: str, *names: str) -> str:
    """The key of what is shared under these names: of an app, or of an app and a user."""
    return f"turnmill:{{{namespace}/kept}}:shared:{what}:{hash_of(*names)}"
