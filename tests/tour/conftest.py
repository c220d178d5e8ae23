"""What an agent holds; its server and worker are those of `tests/conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from turnmill import ContextClient
from turnmill.connection.embedded import EmbeddedRedis


@pytest.fixture
def client(store: EmbeddedRedis, namespace: str) -> Iterator[ContextClient]:
    """Each test has a namespace of its own."""
    with ContextClient(store.url, namespace=namespace) as made:
        yield made
