"""A client whose every read is compared with one that knows nothing of those before it."""

from __future__ import annotations

from turnmill import Context, ContextClient


class ReadsTwice(ContextClient):
    """A client for a session that nobody changes during a read."""

    def read(self, session: str, *, beside: int = 0) -> Context:
        """As a client's; it is what a client that just began would get."""
        found = super().read(session, beside=beside)
        self._lately.take(session)
        assert found == super().read(session, beside=beside)
        return found
