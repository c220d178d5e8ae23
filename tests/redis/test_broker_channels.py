"""What a worker's channel at a Redis broker keeps, and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from turnmill.broker_connection import ThriftyConnection
from turnmill.contract.jobs import ESTIMATE
from turnmill.embedded_redis import EmbeddedRedis
from turnmill.hint_app import hint_app
from turnmill_worker.background.consumer import BadMessage, _careful, look_at

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def broker(own_server: EmbeddedRedis) -> Iterator[redis.Redis]:
    """A broker with three hints."""
    app = hint_app(own_server.url, timeout_s=5)
    for session in ("a", "b", "c"):
        app.send_task(ESTIMATE, args=("n", session), queue="estimate", ignore_result=True)
    app.close()
    with redis.Redis.from_url(own_server.url) as client:
        yield client


def worker_channel(url: str) -> Any:
    """A channel as workers have it, for two messages at once."""

    def put_aside(_: BadMessage) -> None:
        raise AssertionError

    connection: Any = ThriftyConnection(url)
    connection.transport.Channel = _careful(connection.transport.Channel, put_aside)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    return channel


def test_hints_that_a_worker_did_not_begin_are_there_for_the_next(
    own_server: EmbeddedRedis, broker: redis.Redis
) -> None:
    channel = worker_channel(own_server.url)
    taken = [channel.basic_get("estimate") for _ in range(2)]
    taken[0].ack()
    assert not broker.exists("unacked", "unacked_index")

    channel.close()

    again = worker_channel(own_server.url)
    left = [again.basic_get("estimate") for _ in range(3)]
    sessions = [message.payload[0][1] for message in left if message]
    assert sorted(sessions) == ["b", "c"]
    assert [look_at(message, {ESTIMATE}) for message in left[:2]] == ["", ""]


def test_a_broker_that_is_gone_ends_no_worker_that_ends(
    own_server: EmbeddedRedis, broker: redis.Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    channel = worker_channel(own_server.url)
    channel.basic_get("estimate")
    broker.close()
    own_server.kill()

    channel.qos.restore_unacked_once()

    assert "estimate" not in capfd.readouterr().err


def test_a_channel_makes_one_client(own_server: EmbeddedRedis, broker: redis.Redis) -> None:
    app = hint_app(own_server.url, timeout_s=5)
    channel: Any = app.connection_for_write().channel()

    with channel.conn_or_acquire() as one, channel.conn_or_acquire() as other:
        assert one is other
        assert one.llen("estimate") == broker.llen("estimate")
