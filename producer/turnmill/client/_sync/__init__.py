"""The synchronous client and session handle: generated from ``_async``."""

from __future__ import annotations
