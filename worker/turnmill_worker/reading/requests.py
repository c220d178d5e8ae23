"""What the user asked for and still waits for, word for word, in the room it may take.

A session's first request always stands. Where an agent works for long on what it was asked, what
the user added since stands, too; where two talk, only what nobody has answered yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, NamedTuple

from turnmill.contract.base64_text import without_base64
from turnmill.contract.context import JsonMessage, Limits, OpenRequest
from turnmill.contract.estimate import Counter
from turnmill.contract.images import image_parts
from turnmill.contract.marks import author, is_memories, own_words
from turnmill.contract.names import Seq
from turnmill.contract.plural import plural
from turnmill.contract.render import request_entry
from turnmill.contract.shorten import characters
from turnmill_worker.reading.own_words import is_talk
from turnmill_worker.reading.passages import PROSE, USER, Passage, Reading, sentences
from turnmill_worker.reading.words import CAPS, CODE, KIND, NAME, NUMBER, PLAIN, concepts

__all__ = [
    "Asked",
    "fitting",
    "images_tokens",
    "is_whole",
    "newest_images",
    "open_requests",
    "opening_turns",
    "requests_room",
    "shortened",
    "with_images",
]

_MOST_OPENING: Final = 3
"""So many messages at most are what a session began with."""

_SAYS: Final = 3
"""A request has so many words that say something new: "Go on." has none."""

_VALUES: Final = frozenset({CAPS, CODE, NAME, NUMBER})

_LONG: Final = 6
"""Of so many words that say something, nobody only says that the work goes on."""

_MOST_SHARE: Final = 4
"""Requests take a quarter of the room at most, and half of what a compaction may leave."""

_FRAME_TOKENS: Final = 28
"""What their message costs beside the entries, generously."""

_ENTRY_TOKENS: Final = 10
_LEAST_TOKENS: Final = 16
"""An entry shorter than this says nothing."""

_OTHERS: Final = 4
"""While others need it, each entry leaves this part of the room to them."""


class Asked(NamedTuple):
    """A turn as requests are looked for in it.

    Attributes:
        messages: as pushed.
        readings: of its messages, in their order, without memories.
    """

    seq: int
    messages: Sequence[JsonMessage]
    readings: Sequence[Reading]

    @property
    def text(self) -> str:
        """What the user says in it."""
        return without_base64("\n".join(filter(None, map(own_words, self.messages))))

    @property
    def request(self) -> OpenRequest:
        """The turn as a request, with all images that the user shows in it."""
        said = [each for each in self.messages if author(each) == "user" and not is_memories(each)]
        # Without what is beside an image, such as a mark for a cache.
        shown = (
            {"type": "image_url", "image_url": part["image_url"]} for part in image_parts(said)
        )
        return OpenRequest(seq=Seq(self.seq), text=self.text, images=tuple(shown))

    @property
    def own(self) -> list[Passage]:
        """What the user says there in words of their own."""
        passages = (passage for each in self.readings for passage in each.passages)
        return [each for each in passages if each.source == USER and each.form & PROSE]

    @property
    def own_words(self) -> set[int]:
        """The same as numbers that say something."""
        own = (number for passage in self.own for number in passage.ids)
        return {number for number in own if number & KIND != PLAIN}

    def adds_to(self, asked: AbstractSet[int]) -> bool:
        """Whether it asks for more than that the work goes on.

        Then it names a value, or something of what was asked, sounds like a rule, or is long.
        """
        own = self.own_words
        return len(own - asked) >= _SAYS and (
            len(own) >= _LONG
            or any(number & KIND in _VALUES or number in asked for number in own)
            or any(each.rule > 0 for each in self.own)
        )


def opening_turns(turns: Iterable[Sequence[JsonMessage]]) -> int:
    """How many turns a session begins with in which only the user speaks; 0 if nobody answers.

    Together they say what is asked: an example often comes first, and the request after it.
    """
    for at, messages in enumerate(turns):
        if any(message["role"] == "assistant" for message in messages):
            return min(at, _MOST_OPENING)
        if any(message["role"] not in {"user", "system"} for message in messages):
            return 0
    return 0


def open_requests(
    stored: Sequence[OpenRequest], turns: Sequence[Asked], *, begins: bool
) -> tuple[OpenRequest, ...]:
    """The requests of the context and of these turns that are open, oldest first.

    ``stored``: those of the context; ``begins``: the session begins with the first of the turns.
    """
    asking = [at for at, turn in enumerate(turns) if turn.text.strip() or turn.request.images]
    opening = opening_turns([turn.messages for turn in turns]) if begins else 0
    if begins and not opening and asking and asking[0] > 0:
        opening = asking[0] + 1  # the agent spoke first
    first = [turns[at].request.model_copy(update={"first": True}) for at in asking if at < opening]
    known = [each for each in (*stored, *first) if each.first]
    added = [each for each in stored if not each.first]
    said: set[int] = set().union(*(_numbers(each.text) for each in (*known, *added)))
    newest = None
    for turn in turns[opening:]:
        if not turn.text.strip():
            continue
        newest = turn.seq
        if turn.adds_to(said):
            said |= turn.own_words
            added.append(turn.request)
    worked = len([each for each in stored if not each.first]) > 1
    if not (worked or _is_work(turns)):
        added = [each for each in added[-1:] if newest in (None, each.seq)]
    return (*known, *added)


@lru_cache(maxsize=256)
def _numbers(text: str) -> tuple[int, ...]:
    """What a request says: it stands in one compaction after another."""
    return concepts(text, prose=False)


def _is_work(turns: Sequence[Asked]) -> bool:
    """Whether an agent does more than it is spoken to."""
    messages = [message for turn in turns for message in turn.messages]
    asked = sum(author(message) == "user" for message in messages)
    called = sum(bool(message.get("tool_calls")) for message in messages)
    # Agents without tools get what their commands print as a user's message.
    told = sum(not turn.own_words and bool(turn.text) for turn in turns)
    return called + told > asked - told


def requests_room(limits: Limits, rules_tokens: int = 0, *, images: bool = False) -> int:
    """Most tokens all requests of a context may take, beside rules of so many.

    With their images, it is half of what a compaction may leave.
    """
    leave = limits.target - (limits.hard - limits.room) - rules_tokens
    return max(leave // 2 if images else min(limits.room // _MOST_SHARE, leave // 2), 0)


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
        fitted = _fitted(requests[at], min(own, left), count)
        if fitted is not None:
            kept[at] = fitted
            left -= count(request_entry(fitted)) + 1
    return tuple(kept[at] for at in sorted(kept))


def with_images(
    requests: Sequence[OpenRequest], room: int, counter: Counter
) -> tuple[OpenRequest, ...]:
    """The requests with as many of their newest images as fit ``room`` tokens."""
    fits = 0
    for part in (part for each in reversed(requests) for part in reversed(each.images)):
        room -= counter.count_messages([{"role": "user", "content": [part]}])
        if room < 0:
            break
        fits += 1
    return newest_images(requests, fits)


def newest_images(requests: Sequence[OpenRequest], most: int) -> tuple[OpenRequest, ...]:
    """The requests with so many of their newest images at most, and with how many are gone."""
    kept: list[OpenRequest] = []
    for request in reversed(requests):
        kept.append(request.with_newest(most))
        most -= len(kept[-1].images)
    return tuple(reversed(kept))


def images_tokens(requests: Iterable[OpenRequest], counter: Counter) -> int:
    """What the images of the requests cost."""
    parts = [part for each in requests for part in each.images]
    return counter.count_messages([{"role": "user", "content": parts}]) if parts else 0


def is_whole(request: OpenRequest) -> bool:
    """Whether nothing of it was left out, as far as its marks tell."""
    return not any(mark in request.text for mark in ("left out]", _CUT, "[…]"))


def _order(requests: Sequence[OpenRequest]) -> list[int]:
    """Their positions, those that count most first."""
    places = range(len(requests))
    # Of several opening messages the last one asks; what was said before it leads up to it.
    begins = [at for at in places if requests[at].first][-1:]
    newest = [at for at in places if not requests[at].first][-1:]
    leads = [at for at in places if requests[at].first and at not in begins]
    chosen = [*begins, *newest, *leads]
    return [*chosen, *(at for at in reversed(places) if at not in chosen)]


def _fitted(request: OpenRequest, room: int, count: Callable[[str], int]) -> OpenRequest | None:
    if room < _LEAST_TOKENS:
        return None
    if count(request_entry(request)) < room:
        return request
    text = shortened(request.text, room - _ENTRY_TOKENS, count)
    if not request.first and text.endswith(_CUT):
        return None  # half a sentence of what was added tells nobody anything
    return request.model_copy(update={"text": text}) if text else None


_LEFT_OUT = re.compile(r"\[… (\d{1,9}) lines? left out\]")
_CUT: Final = " characters removed …]"
_MARK_TOKENS: Final = 10
"""What a mark for left-out lines costs, generously."""

_CHARS_PER_TOKEN: Final = 16
"""More characters per token than any text has: past it, counting only wastes time."""

_LONG_LINE: Final = 300
"""Characters from which on a line is taken by its sentences."""


class _Piece(NamedTuple):
    """What is kept or left out as a whole: a line, or a sentence of a long one."""

    line: int
    text: str


def shortened(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """The text, or as much of it as fits ``tokens``: whole lines and sentences, and marks.

    What is said stays before code and output, its first and last lines before the others. A text
    without lines or sentences that fit keeps its beginning. Linear in its length.
    """
    if len(text) <= tokens * _CHARS_PER_TOKEN and count(text) <= tokens:
        return text
    pieces = list(_pieces(text))
    talks = [at for at, piece in enumerate(pieces) if is_talk(piece.text.strip())]
    others = [at for at in set(range(len(pieces))).difference(talks) if not _is_mark(pieces[at])]
    order = [some[at] for some in (talks, others) for at in _from_both_ends(len(some))]
    chosen: list[int] = []
    left = tokens - 2 * _MARK_TOKENS
    for at in order:
        piece = pieces[at].text
        cost = count(piece) + 1 if len(piece) <= left * _CHARS_PER_TOKEN else left + 1
        if cost <= left:
            left -= cost
            chosen.append(at)
        elif not chosen:
            break
    while chosen:
        found = _with_marks(pieces, sorted(chosen))
        if count(found) <= tokens:
            return found
        chosen.pop()
    start = text[: max(tokens - _MARK_TOKENS, 0)]
    begun = f"{start}[… {characters(text[len(start) :])}{_CUT}"
    return begun if start and count(begun) <= tokens else ""


def _from_both_ends(length: int) -> list[int]:
    """Positions from both ends inwards: two of the beginning, then one of the end, and so on."""
    order: list[int] = []
    low, high = 0, length - 1
    while low <= high:
        for _ in range(2):
            if low <= high:
                order.append(low)
                low += 1
        if low <= high:
            order.append(high)
            high -= 1
    return order


def _pieces(text: str) -> Iterable[_Piece]:
    for at, line in enumerate(text.split("\n")):
        if len(line) <= _LONG_LINE:
            yield _Piece(at, line)
        else:
            parts = (part for part in _MARK.split(line) if part.strip())
            yield from (_Piece(at, each) for part in parts for each in _as_written(part))


_MARK: Final = re.compile(r"(\[… \d{1,9} (?:characters|lines?) left out\])")
"""What is shortened again has marks already: each is a piece, which is counted and never kept."""


def _is_mark(piece: _Piece) -> bool:
    return _MARK.fullmatch(piece.text.strip()) is not None


def _as_written(line: str) -> Iterable[str]:
    """Its sentences with the spaces before them, the last one with what is behind it."""
    begin = end = 0
    for sentence in [line] if _MARK.fullmatch(line) else sentences(line):
        if end:
            yield line[begin:end]
        begin, left = end, sum(map(len, sentence.split()))
        while left:
            left -= not line[end].isspace()
            end += 1
    yield line[begin:]


def _with_marks(pieces: Sequence[_Piece], kept: Sequence[int]) -> str:
    """The kept pieces in their order, with a mark for what is left out between them."""
    rows: list[str] = []
    before, line = -1, -1
    for at in (*kept, len(pieces)):
        gone = [piece for piece in pieces[before + 1 : at] if piece.text.strip()]
        begun = pieces[at].line if at < len(pieces) else -1
        # Sentences go from the line before, from all of some lines, and from the one begun here.
        if line != begun and (mark := _gone_from(line, gone)):
            rows[-1] = f"{rows[-1].rstrip()} {mark}"
        whole = {piece.line: _lines(piece) for piece in gone if piece.line not in {line, begun}}
        if lines := sum(whole.values()):
            rows.append(f"[… {lines} {plural(lines, 'line')} left out]")
        if at == len(pieces):
            break
        mark = _gone_from(begun, gone)
        if begun == line:
            rows[-1] = f"{rows[-1].rstrip()} {mark}" if mark else rows[-1]
            rows[-1] += pieces[at].text
        else:
            rows.append(mark + pieces[at].text)
        before, line = at, begun
    return "\n".join(rows)


def _gone_from(line: int, gone: Iterable[_Piece]) -> str:
    """A mark for the sentences that go from a line; nothing where none does."""
    text = "".join(piece.text for piece in gone if piece.line == line)
    return f"[… {characters(text.strip())} characters left out]" if text else ""


def _lines(piece: _Piece) -> int:
    """How many lines of the user's are lost with it."""
    mark = _LEFT_OUT.fullmatch(piece.text.strip())
    return int(mark[1]) if mark else 1
