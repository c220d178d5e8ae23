"""A session as one HTML page that a person reads in a minute, offline.

::

    Path("agent-7.html").write_text(page(trajectory), encoding="utf-8")
"""

from __future__ import annotations

from turnmill_cli.visualize.page import page

__all__ = ["page"]
