"""The asynchronous client and session handle: the source of ``_sync``."""

from __future__ import annotations
