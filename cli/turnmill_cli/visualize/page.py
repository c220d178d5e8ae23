"""A session as one HTML page: its numbers and shapes, laid into a template that escapes them.

The template reads the trajectory itself. All that it prints passes through ``visible`` and is
escaped, so that no part of a conversation can hide, reorder or run anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage, Usage
from turnmill.contract.estimate import estimate_tokens, without_images
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS, ImageRef, is_base64
from turnmill.contract.plural import count
from turnmill.contract.render import changed_in, event_text, receipt_text, system_message
from turnmill.contract.trajectory import Trajectory, TrajectoryTurn

# --- what is printed ------------------------------------------------------------------------------

# Controls, what reorders the text around it, and what cannot be seen; joiners make emoji, and stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


def visible(raw: str) -> str:
    """The text with a sign for each control, hidden or reordering character."""
    if raw.isascii() and raw.isprintable():
        return raw
    shown = _HIDDEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", raw.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", shown)


def as_json(value: Any) -> str:
    """A value as JSON over several lines; a text as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return "[nested too deeply to be shown]"


def clock(at_ms: int) -> str:
    """The moment in UTC, or ``""`` for none."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if at_ms else ""
    except (ValueError, OverflowError, OSError):  # a file may say anything
        return ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message: a text with what stands before it, or an image.

    Attributes:
        image: a data URL, or the place on the page, ``#image-1``, where it was shown first.
    """

    text: str = ""
    label: str = ""
    image: str = ""
    place: str = ""


_SHOWABLE = re.compile(r"data:image/[\w.+-]{1,60}(?:;[\w.+-]+=[\w.+-]+){0,4};base64,")
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_MOST_URL = 200


@dataclass(slots=True)
class Parts:
    """Takes the messages of one page apart; each image is carried once."""

    _places: dict[str, str] = field(default_factory=dict)

    def of(self, message: JsonMessage) -> Iterator[Part]:
        """The message's parts, whatever they are."""
        content = message.get("content")
        for part in content if isinstance(content, list | tuple) else [content]:
            if isinstance(part, Mapping) and part.get("type") == "image_url":
                image = part.get("image_url")
                yield self._image(image.get("url") if isinstance(image, Mapping) else image)
            elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield Part(part["text"])
            elif part not in (None, ""):
                yield Part(as_json(part))
        calls = message.get("tool_calls") or ()
        for call in calls if isinstance(calls, list | tuple) else [calls]:
            yield _call(call)
        for key, value in message.items():
            if key not in _KNOWN and value:
                yield Part(as_json(value), key)

    def _image(self, url: Any) -> Part:
        """Only images carried inline are shown: a page must not ask any server for anything."""
        if not isinstance(url, str):
            return Part("image without an address")
        head = _SHOWABLE.match(url)
        if head is None or not is_base64(url[head.end() :]):
            ref = ImageRef.parse(url)
            told = f"{ref.width}×{ref.height} pixels, not part of this file" if ref else ""
            return Part(told or f"not loaded: {url[:_MOST_URL]}", "image")
        if url in self._places:
            return Part(image=self._places[url])
        place = f"image-{len(self._places) + 1}"
        self._places[url] = f"#{place}"
        return Part(image=url, place=place)


def _call(call: Any) -> Part:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return Part(as_json(call), "call")
    return Part(as_json(function.get("arguments", "")), f"calls {function.get('name')}")


# --- tokens, turn by turn -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A compaction, a rollback or a clear: after which turn, and what it made of how many tokens.

    Attributes:
        version: that it committed; 0 for a clear, which leaves no record.
    """

    kind: str
    seq: int
    version: int
    before: int
    after: int

    def __str__(self) -> str:
        """For a person."""
        name = f"{self.kind} v{self.version}" if self.version else self.kind
        return f"{name} after turn {self.seq}: {self.before:,} → {self.after:,} tokens"


@dataclass(slots=True)
class TokenCurve:
    """The context's tokens over the session's turns; a change adds two points at the same seq.

    Attributes:
        exact: nothing since the last record is estimated.
    """

    points: list[tuple[int, int]]
    changes: list[Change] = field(default_factory=list)
    exact: bool = True

    def turn(self, turn: TrajectoryTurn, saved: int) -> None:
        """Add a turn, from which ``saved`` tokens were elided later."""
        self.exact &= turn.tokens is not None
        tokens = estimated(turn.messages) if turn.tokens is None else turn.tokens + saved
        self.points.append((turn.seq, self.points[-1][1] + tokens))

    def change(self, kind: str, version: int, before: int, after: int) -> None:
        """Add a change after the newest turn."""
        seq, walked = self.points[-1]
        made = Change(kind, seq, version, before or walked, after)
        self.changes.append(made)
        self.points += [(seq, made.before), (seq, made.after)]


def token_curve(trajectory: Trajectory) -> TokenCurve:
    """The session's tokens over its turns.

    A compaction stands where it was begun, with the numbers of its record; between two of them the
    turns' own tokens add up. Of clears only the last one can be told.
    """
    saved = _saved(trajectory)
    base, exact = _base(trajectory, saved)
    first = trajectory.turns[0].seq - 1 if trajectory.turns else 0
    curve = TokenCurve([(first, base)], exact=exact)
    waiting = [(_seq_of(each.record, trajectory.turns), each) for each in trajectory.compactions]
    cleared = max((each.seq for each in trajectory.turns if each.state == "cleared"), default=0)
    for turn in (*trajectory.turns, None):
        while waiting and (turn is None or waiting[0][0] < turn.seq):
            record = waiting.pop(0)[1].record
            kind = "rollback" if record.strategy == "rollback" else "compaction"
            curve.change(kind, record.version, record.tokens_before, record.tokens_after)
            curve.exact = True
        if cleared and (turn is None or turn.seq > cleared):
            curve.change("clear", 0, 0, base)
            curve.exact, cleared = exact, 0
        if turn is not None:
            curve.turn(turn, saved.get(turn.seq, 0))
    return curve


def _saved(trajectory: Trajectory) -> dict[int, int]:
    """By how much turns' counts fell when messages in them were elided, by seq."""
    kept = {turn.seq for turn in trajectory.turns if turn.state == "kept"}
    found: dict[int, int] = {}
    for stored in (commit.context for commit in trajectory.compactions):
        own: Counter[int] = Counter()
        for elision in stored.elisions:
            own[elision.seq] += elision.tokens_before - elision.tokens_after
        # A rollback shows turns whole again.
        found = {s: n for s, n in found.items() if s <= stored.watermark or s not in kept} | own
    return found


def _base(trajectory: Trajectory, saved: Mapping[int, int]) -> tuple[int, bool]:
    """Tokens of a context without any turn, and whether they are known from the first record."""
    system = trajectory.system_prompt
    if trajectory.compactions:
        record = trajectory.compactions[0].record
        own = [turn for turn in trajectory.turns if turn.seq <= record.last_seq]
        rest = record.tokens_before
        rest -= sum((turn.tokens or 0) + saved.get(turn.seq, 0) for turn in own)
        are_counted = all(turn.tokens is not None for turn in own)
        if not record.from_watermark and are_counted and rest >= Usage.REPLY:
            return rest, len(own) == record.last_seq
    return Usage.REPLY + (estimated([system_message(system)]) if system else 0), not system


def _seq_of(record: Any, turns: Sequence[TrajectoryTurn]) -> int:
    """The newest turn there was; a rollback stands after the turns that it set aside."""
    seq: int = record.last_seq
    if record.strategy == "rollback":
        for turn in turns:
            if turn.seq > seq and turn.state != "rolled-back":
                break
            seq = max(seq, turn.seq)
    return seq


def estimated(messages: Sequence[JsonMessage]) -> int:
    """About how many tokens these messages are: 3.5 characters each, images by their size."""
    text, images = without_images(encode_json(list(messages)), FORMULAS[DEFAULT_FORMULA])
    return estimate_tokens(text.decode(errors="replace")) + images


# --- the drawing ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chart:
    """Where the curve's points and limits are in an SVG's coordinates."""

    curve: TokenCurve
    hard: int
    soft: int
    width: int = 1040
    height: int = 320
    left: int = 58
    top: int = 16
    bottom: int = 290

    most: float = field(init=False)

    def __post_init__(self) -> None:
        most = max(self.hard, self.soft, 1, *(tokens for _, tokens in self.curve.points))
        object.__setattr__(self, "most", 1.08 * most)

    def x(self, seq: int) -> float:
        """Of a turn."""
        first, last = self.curve.points[0][0], self.curve.points[-1][0]
        share = (seq - first) / max(1, last - first)
        return round(self.left + share * (self.width - 14 - self.left), 1)

    def y(self, tokens: int) -> float:
        """Of a number of tokens."""
        return round(self.bottom - tokens / self.most * (self.bottom - self.top), 1)

    @property
    def line(self) -> str:
        """The curve as a path."""
        return "M" + "L".join(
            f"{self.x(seq)} {self.y(tokens)}" for seq, tokens in self.curve.points
        )

    @property
    def across(self) -> range:
        """Round numbers of tokens."""
        return range(0, int(self.most) + 1, _round(self.most / 5))

    @property
    def down(self) -> range:
        """Round numbers of turns."""
        first, last = self.curve.points[0][0], self.curve.points[-1][0]
        step = _round((last - first) / 12)
        return range(math.ceil(max(1, first) / step) * step, last + 1, step)


def _round(least: float) -> int:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(1.0, least)))
    return int(next(times * power for times in (1, 2, 5, 10) if times * power >= least))


# --- the page -------------------------------------------------------------------------------------

DOES = {
    "images": "A short note replaced each older image.",
    "elide": "A short note replaced each bulky older tool result.",
    "window": "The oldest turns were left out. A receipt says which.",
    "rolling": "A new summary replaced older turns and the last summary.",
    "managed": "A text that follows a template replaced older turns.",
    "iterations": "A summary of its own replaced each finished iteration.",
    "rollback": "The session went back to an earlier state.",
    "fork": "The session began as another one was.",
    "child": "A sub-agent's session began with the rules and requests of its parent.",
    "erase": "Words were erased, and the context is made anew of what remains.",
}


def page(trajectory: Trajectory) -> str:
    """The session as one HTML document that loads nothing and runs nothing.

    Complete: long texts are folded, never cut. Encodes as UTF-8 whatever the conversation holds.
    """
    curve, style = token_curve(trajectory), _file("page.css")
    commits = trajectory.compactions
    watermark = commits[-1].context.watermark if commits else 0
    cleared = max((each.seq for each in trajectory.turns if each.state == "cleared"), default=0)
    return _template().render(
        style=Markup(style),  # noqa: S704 - a file of this package
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        trajectory=trajectory,
        curve=curve,
        chart=Chart(curve, trajectory.hard_limit, trajectory.soft_limit),
        parts=Parts().of,
        watermark=max(watermark, cleared),
        missing=max(0, trajectory.turns[-1].seq - len(trajectory.turns)) if trajectory.turns else 0,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"clock": clock, "json": as_json, "number": "{:,}".format, "of": count}
    environment.globals |= {
        "does": DOES,
        "event_text": event_text,
        "receipt_text": receipt_text,
        "changed_in": changed_in,
    }
    return environment.get_template("page.html.jinja")


@cache
def _file(name: str) -> str:
    return (files("turnmill_cli.visualize") / name).read_text(encoding="utf-8")
