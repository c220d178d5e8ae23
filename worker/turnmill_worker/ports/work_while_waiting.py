"""What a thread does while it waits for a model: work that is needed only with the answer.

The same thread does it, and only after the request has left: another thread would compete with it
for the interpreter and delay the request. For the same reason one thread does it at a time: of many
jobs that begin together, the requests leave first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Lock

Work = Callable[[], object]

_AT_WORK = Lock()
_AHEAD: ContextVar[tuple[list[Work], ...]] = ContextVar("turnmill_work_while_waiting", default=())


@contextmanager
def done_while_waiting(work: Work) -> Iterator[None]:
    """Do the work once, when the block begins to wait, unless another thread does such work.

    The work keeps its result. If it was not done here, the use of the result does it. So an
    error is not raised here, among the errors of a connection: it comes back at that use.
    """
    token = _AHEAD.set((*_AHEAD.get(), [work]))
    try:
        yield
    finally:
        _AHEAD.reset(token)


def waiting_begins() -> None:
    """Do the pending work; call this when a request was sent and its answer is not there yet."""
    if not _AT_WORK.acquire(blocking=False):
        return
    try:
        for ahead in _AHEAD.get():
            while ahead:
                with suppress(Exception):
                    ahead.pop()()
    finally:
        _AT_WORK.release()
