"""The clients: ``_async`` is the source of ``_sync``; the rest is what both share."""
