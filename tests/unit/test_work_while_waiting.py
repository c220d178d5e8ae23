"""Work is done while a model is waited for, once, by the thread that waits."""

from __future__ import annotations

import threading
from functools import cache

import pytest

from turnmill_worker.ports.work_while_waiting import done_while_waiting, waiting_begins


def test_it_is_done_once_by_the_thread_that_waits() -> None:
    done: list[int] = []

    with done_while_waiting(lambda: done.append(threading.get_ident())):
        assert done == []
        waiting_begins()
        waiting_begins()

    assert done == [threading.get_ident()]


def test_it_is_not_done_by_who_never_waits_nor_after_the_block() -> None:
    done: list[str] = []

    with done_while_waiting(lambda: done.append("never")):
        pass
    waiting_begins()

    assert done == []


def test_blocks_within_each_other_are_all_done() -> None:
    done: list[str] = []

    with (
        done_while_waiting(lambda: done.append("outer")),
        done_while_waiting(lambda: done.append("inner")),
    ):
        waiting_begins()

    assert done == ["outer", "inner"]


def test_an_error_comes_back_where_the_result_is_needed() -> None:
    @cache
    def work() -> int:
        raise LookupError("no result")

    with done_while_waiting(work):
        waiting_begins()

    with pytest.raises(LookupError, match="no result"):
        work()


def test_of_many_threads_one_is_at_it_and_the_others_go_on() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        begun.set()
        assert may_end.wait(10)
        done.append("slow")

    def wait_for_a_model() -> None:
        with done_while_waiting(slow):
            waiting_begins()

    other = threading.Thread(target=wait_for_a_model)
    other.start()
    assert begun.wait(10)
    with done_while_waiting(lambda: done.append("mine")):
        waiting_begins()
        assert done == []
        may_end.set()
        other.join(10)
        waiting_begins()

    assert done == ["slow", "mine"]
