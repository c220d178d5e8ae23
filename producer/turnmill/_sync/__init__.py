"""The synchronous client and session handle: generated from ``_async``."""
