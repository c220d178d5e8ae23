"""What a thread does while it waits for a model: work that only the answer's use needs.

In the same thread, and only once the request has left: another thread would compete with this one
for the interpreter and hold the request up. For the same reason by one thread at a time: of many
jobs that begin together, the requests leave first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock

__all__ = ["done_while_waiting", "waiting_begins"]

Work = Callable[[], object]

_AT_WORK = Lock()
_AHEAD: ContextVar[tuple[list[Work], ...]] = ContextVar("turnmill_work_while_waiting", default=())


@contextmanager
def done_while_waiting(work: Work) -> Iterator[None]:
    """Have this done once, as soon as the block begins to wait, unless another thread is at such.

    It is work that keeps its result for later, and is done then where it was not done by now. So
    an error is not raised here, among the errors of a connection: it comes back then.
    """
    token = _AHEAD.set((*_AHEAD.get(), [work]))
    try:
        yield
    finally:
        _AHEAD.reset(token)


def waiting_begins() -> None:
    """Do what is to be done while waiting; for who has sent a request, and has no answer yet."""
    if not _AT_WORK.acquire(blocking=False):
        return
    try:
        for ahead in _AHEAD.get():
            while ahead:
                with suppress(Exception):
                    ahead.pop()()
    finally:
        _AT_WORK.release()
