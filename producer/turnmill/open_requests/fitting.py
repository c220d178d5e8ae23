"""Requests in the room they may take: what was added long ago gives way first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from turnmill.contract.open_requests import OpenRequest
from turnmill.contract.policy import Limits
from turnmill.contract.render import request_entry
from turnmill.open_requests.shortened import shortened

__all__ = ["fitting", "requests_room"]

_MOST_SHARE: Final = 4
"""Requests take a quarter of the room at most, and half of what a compaction may leave."""

_FRAME_TOKENS: Final = 28
"""What their message costs beside the entries, generously."""

_ENTRY_TOKENS: Final = 10
_LEAST_TOKENS: Final = 16
"""An entry shorter than this says nothing."""

_OTHERS: Final = 4
"""While others need it, each entry leaves this part of the room to them."""


def requests_room(limits: Limits, rules_tokens: int = 0) -> int:
    """Most tokens all requests of a context may take, beside rules of so many."""
    leave = limits.target - (limits.hard - limits.room) - rules_tokens
    return max(min(limits.room // _MOST_SHARE, leave // 2), 0)


def fitting(
    requests: Sequence[OpenRequest], room: int, count: Callable[[str], int]
) -> tuple[OpenRequest, ...]:
    """The requests in ``room`` tokens, oldest first; what is too long is shortened.

    What began the work goes first, then what came before it; then what was added, the newest first.
    If all fit, they stay as they are, to the byte.
    """
    left = room - _FRAME_TOKENS
    costs = [count(request_entry(request)) + 1 for request in requests]
    if sum(costs) <= left:
        return tuple(requests)
    kept: dict[int, OpenRequest] = {}
    order = _order(requests)
    for place, at in enumerate(order, 1):
        others = sum(costs[other] for other in order[place:])
        own = max(left - others, left - left // _OTHERS) if others else left
        leads_up = requests[at].first and place > 1
        fitted = _fitted(requests[at], min(own, left), count, own_words=leads_up)
        if fitted is not None:
            kept[at] = fitted
            left -= count(request_entry(fitted)) + 1
    return tuple(kept[at] for at in sorted(kept))


def _order(requests: Sequence[OpenRequest]) -> list[int]:
    """Their positions, those that count most first."""
    now = [at for at, request in enumerate(requests) if not request.earlier]
    before = [at for at, request in enumerate(requests) if request.earlier]
    opening = [at for at in now if requests[at].first]
    # Of several opening messages the last one asks; what was said before it leads up to it.
    begins = opening[-1:] or now[:1]
    return [*begins, *reversed(before), *(at for at in reversed(now) if at not in begins)]


def _fitted(
    request: OpenRequest, room: int, count: Callable[[str], int], *, own_words: bool
) -> OpenRequest | None:
    if room < _LEAST_TOKENS:
        return None
    if count(request_entry(request)) < room:
        return request
    text = shortened(request.text, room - _ENTRY_TOKENS, count, own_words=own_words)
    return request.model_copy(update={"text": text}) if text else None
