"""One endpoint per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.summarizers.openai.talks import OPENED
from turnmill.testing import FakeEndpoint


@pytest.fixture(autouse=True)
def _connections_are_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as serving:
        yield serving
