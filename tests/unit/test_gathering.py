"""Hints and events leave together, soon: the more there are, the more of them in one message."""

from __future__ import annotations

import time

import pytest
from kombu.asynchronous import Hub

from turnmill.gathered_hints import LONGEST_PAUSE_S, PAUSE_S, GatheredHints
from turnmill_worker.background.consumer import PatientConsumer


@pytest.mark.parametrize(
    ("before", "pause_s"), [(1, PAUSE_S), (2, 2 * PAUSE_S), (20, LONGEST_PAUSE_S)]
)
def test_a_hint_waits_longer_behind_a_message_of_many_but_never_long(
    before: int, pause_s: float
) -> None:
    gathered = GatheredHints()
    for at in range(before):
        gathered.add("n", f"s{at}")

    begun = time.monotonic()
    (message,) = gathered.take()
    gathered.add("n", "next")
    left_s = gathered.wait_s
    took_s = time.monotonic() - begun

    assert message.hints == before
    assert left_s is not None
    assert pause_s - took_s <= left_s <= pause_s <= 0.15


def test_events_of_many_tasks_are_published_once_in_a_while() -> None:
    consumer = PatientConsumer.__new__(PatientConsumer)  # its hub is all that is needed here
    consumer.hub = Hub()

    for _ in range(100):
        consumer.on_send_event_buffered()

    (publishing,) = consumer.hub.timer.queue
    assert publishing.eta - time.monotonic() <= 0.3
