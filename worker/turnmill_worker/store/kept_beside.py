"""What is known of covered turns, as Redis holds it beside a context: agents never read it."""

from __future__ import annotations

import struct
from typing import Any

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.formats import is_newer, refuse_newer, stamp, unreadable
from turnmill_worker.reading.known import FORMAT, Known

__all__ = ["decoded", "encoded"]


def encoded(known: Known) -> bytes:
    """As one value; ``b""`` for nothing."""
    return b"" if known == Known() else encode_json({**known.stored(), **stamp(FORMAT)})


def decoded(body: bytes | None, watermark: int) -> Known:
    """What is known of turns up to the watermark; nothing, to begin anew, where it is damaged.

    Raises:
        NewerFormat: a newer version of turnmill wrote it, and this one cannot read it.
    """
    found: Any = {}
    try:
        found = decode_json(body) if body else {}
        refuse_newer(found, "stored facts")
        # A list was written before there was a pool.
        known = Known.restored(found) if isinstance(found, dict) and found else Known()
        return known.up_to(watermark)
    except (AttributeError, LookupError, TypeError, ValueError, struct.error):
        if is_newer(found, than=FORMAT):
            raise unreadable(found, "stored facts", "") from None
        return Known()
