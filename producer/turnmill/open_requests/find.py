"""Which of a user's requests a context states: the first one, and what is worked on now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from turnmill.contract.context import StoredContext
from turnmill.contract.open_requests import OpenRequest
from turnmill.open_requests.demonstrations import without_demonstrations
from turnmill.open_requests.speech import Heard, Hearing, Speech
from turnmill.rules.standing import Said

__all__ = ["open_requests", "requests_heard"]

_BRIEF_WORDS: Final = 100
"""In a chat without tools, a first message of as many words is a brief, and is kept."""

_WORD = re.compile(r"\w+")


def open_requests(stored: StoredContext, turns: Iterable[Said]) -> tuple[OpenRequest, ...]:
    """The requests after these turns, which follow those of the context, oldest first."""
    # In a loop, what was asked first would stand in the context if its turn had been covered.
    hearing = Hearing(from_start=not stored.requests)
    hearing.listen(turns)
    return requests_heard(stored, hearing.heard)


def requests_heard(stored: StoredContext, heard: Heard) -> tuple[OpenRequest, ...]:
    """The requests after what was heard, which follows those of the context, oldest first.

    In an agent's loop: the first thing the user said, and the newest request with all that was
    added to it. A request is new if the agent had ended its turn without a question, and if it has
    words enough to be understood alone. In a chat without tools: a long first message.
    """
    known = {request.seq for request in stored.requests}
    fresh = [speech for speech in heard.said if speech.seq not in known]
    first = [request for request in stored.requests if request.first]
    first += _requests(speech for speech in fresh if speech.opens)
    if not heard.loop:
        is_brief = stored.is_empty and _is_brief(first)
        return tuple(first) if stored.requests or is_brief else ()
    begun = _newest(fresh)
    if begun is not None:
        now = [speech for speech in fresh[begun:] if not speech.opens]
        return (*(_followed(request) for request in first), *_requests(now))
    return (*stored.requests, *_requests(fresh))


def _newest(fresh: Sequence[Speech]) -> int | None:
    """Where the newest request begins; None if it is the one the session began with."""
    places = range(len(fresh) - 1, -1, -1)
    return next((at for at in places if fresh[at].begins and not fresh[at].opens), None)


def _is_brief(first: Iterable[OpenRequest]) -> bool:
    return sum(len(_WORD.findall(request.text)) for request in first) >= _BRIEF_WORDS


def _followed(request: OpenRequest) -> OpenRequest:
    return request if request.earlier else request.model_copy(update={"earlier": True})


def _requests(said: Iterable[Speech]) -> tuple[OpenRequest, ...]:
    """As they were said, but for demonstrations: what is ordered in those was done elsewhere."""
    return tuple(
        OpenRequest(seq=each.seq, text=without_demonstrations(each.text), first=each.opens)
        for each in said
    )
