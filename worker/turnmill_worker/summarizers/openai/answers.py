"""A model's answer as items, however it is written: JSON, broken or cut off JSON, or a list.

Nothing is believed here, and nothing is made up: what cannot be read as an item is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from turnmill_worker.compaction.items import KINDS, Item

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "enum": [kind for kind in KINDS if kind != "said"]},
                    "text": {"type": "string"},
                    "seqs": {"type": "array", "items": {"type": "integer"}},
                    "quote": {"type": "string"},
                },
                "required": ["kind", "text", "seqs", "quote"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["items"],
    "additionalProperties": False,
}
"""What an answer looks like, where the endpoint can be told."""


def lines_schema(seqs: Iterable[int]) -> Mapping[str, Any]:
    """What an answer looks like that says one thing of each of these messages."""
    names = [str(seq) for seq in seqs]
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }


_MOST: Final = 200
"""Items of one answer that are looked at, and places where one may begin."""

_MOST_SEQS: Final = 4
_LONGEST: Final = 2_000
"""Characters of an item that are read: one that has more is too long anyway."""

_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"\A```[a-z]{0,12}\n(.*)\n```\Z", re.DOTALL)
_COMMA = re.compile(r",(?=\s*[}\]])")
_HEADING = re.compile(r"(?:#{1,6}\s*\*{0,2}|\*\*)([^*\n:]{1,64}?)\*{0,2}:?\*{0,2}\s*$")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s*)?")
_LABEL = re.compile(r"\*{0,2}([^\W\d_][^\n:*]{0,24}?)\*{0,2}\s?[:：]\*{0,2}\s*")
_SPAN = r"#\d{1,12}(?:\s?[-–—]\s?#?\d{1,12}|\s?,\s?#\d{1,12}){0,8}"
_SEQS = re.compile(_SPAN)
_IN_BRACKETS = re.compile(rf"\s?[\[(（][^\W\d]{{0,12}}\s?{_SPAN}[\])）]")
_IS_SEQ = re.compile(r"#?\d{1,12}")
_NUMBER = re.compile(r"\d{1,12}")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{8,600})[\"”“»]")


def unwrapped(text: str) -> str:
    """The answer without a model's thoughts before it and a code fence around all of it."""
    thoughts = _THOUGHTS.match(text)
    bare = (text[thoughts.end() :] if thoughts else text).strip()
    fence = _FENCE.match(bare)
    return fence[1].strip() if fence else bare


def items_in(text: str) -> list[Item]:
    """The items that can be read in an answer, in its order."""
    bare = unwrapped(text)
    found = list(_of_values(_values(bare)))
    if not found and "{" not in bare[:_MOST]:
        found = list(_of_lines(bare))
    return found[:_MOST]


def _values(text: str) -> Iterator[Any]:
    """The objects of an answer: of all of it, or those that are whole."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return
    whole = _COMMA.sub("", text[start:])
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(whole)
    except (ValueError, RecursionError):
        yield from _whole_objects(whole)
        return
    yield from _flat(value)


def _whole_objects(text: str) -> Iterator[Any]:
    """The objects that are whole in a text that is not; a brace in a string begins none."""
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(_MOST):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield value


def _flat(value: Any) -> Iterator[Any]:
    """The items in a value: a list of them, under one name or under one of each kind."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, Mapping) and "text" not in value:
        for name, own in value.items():
            kind = kind_of(str(name))
            if isinstance(own, str) and _IS_SEQ.fullmatch(str(name)):
                yield {"kind": "finding", "text": own, "seqs": name}
            for each in own if isinstance(own, list) else ():
                if isinstance(each, str):
                    yield from ({"kind": kind, "text": each},) if kind else ()
                elif isinstance(each, Mapping):
                    yield {"kind": kind, **each}
    else:
        yield value


def _of_values(values: Iterator[Any]) -> Iterator[Item]:
    for value in values:
        if not isinstance(value, Mapping):
            continue
        text, quote = value.get("text"), value.get("quote")
        kind = kind_of(str(value.get("kind") or ""))
        if isinstance(text, str) and kind:
            seqs = _seqs(value.get("seqs", value.get("seq")))
            yield _item(kind, text, seqs, quote if isinstance(quote, str) else "")


def _of_lines(text: str) -> Iterator[Item]:
    """The bullets of a list, each under a heading or behind a label that names its kind."""
    under = ""
    for line in text.split("\n"):
        if heading := _HEADING.match(line.strip()):
            under = kind_of(heading[1])
            continue
        bullet = _BULLET.match(line.strip())
        own = line.strip()[bullet.end() :] if bullet else ""
        label = _LABEL.match(own)
        kind = kind_of(label[1]) if label else ""
        if label and kind:
            own = own[label.end() :]
        if own and (kind or under):
            quoted = _QUOTED.search(own)
            yield _item(kind or under, own, _seqs(own), quoted[1] if quoted else "")


def _item(kind: str, text: str, seqs: tuple[int, ...], quote: str) -> Item:
    """An item with its text on one line, without the numbers that stand in ``seqs``."""
    plain = " ".join(_IN_BRACKETS.sub("", text[:_LONGEST]).split())
    return Item(kind, plain.rstrip(" ,;"), tuple(sorted(dict.fromkeys(seqs))), quote.strip())


def _seqs(value: Any) -> tuple[int, ...]:
    """Numbers of messages: ``12``, ``[12, 13]``, ``"#12–#18"``, or those in a line."""
    if isinstance(value, bool) or value is None:
        return ()
    if isinstance(value, int):
        return (value,)
    if isinstance(value, str):
        spans = [value] if value.strip("# ").isdigit() else _SEQS.findall(value)
        return tuple([int(each) for span in spans for each in _NUMBER.findall(span)][:_MOST_SEQS])
    if isinstance(value, list):
        return tuple([seq for each in value[:_MOST_SEQS] for seq in _seqs(each)])
    return ()


def kind_of(word: str) -> str:
    """The kind that a word names; ``""`` if it is none of the prompt's own words."""
    plain = re.sub(r"[^a-z]", "", word.lower())
    return next((kind for kind in KINDS if plain.startswith(kind) or plain[:-1].endswith(kind)), "")
