"""Turns as they are stored: one that is too large is refused, or cut in the middle; no I/O."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidInput, TurnTooLarge
from turnmill.contract.images import StoredImage
from turnmill.contract.sealing import Fingerprint
from turnmill.contract.shorten import IMAGE_REMOVED, shorten, texts_of
from turnmill.contract.turns import Turn, encode_turn

OnTooLarge = Literal["raise", "cut"]
"""What becomes of a turn over the size limit."""

_NOTE: Final = re.compile(r"\[… (\d{1,9}) characters removed …\]")


class Encoded(NamedTuple):
    """A turn as it is stored.

    Attributes:
        content: of the messages as they were given, whole.
        cut: how many characters of texts, and bytes of images, are not kept.
    """

    messages: bytes
    fields: bytes
    images: tuple[StoredImage, ...]
    content: Fingerprint
    cut: int = 0


class Most(NamedTuple):
    """The largest turn that a client stores, in bytes of JSON, and its images' bytes."""

    json: int
    images: int


def encoded(
    turn: Turn,
    images: tuple[StoredImage, ...],
    most: Most,
    *,
    on_too_large: OnTooLarge,
    under: str = "",
) -> Encoded:
    """The turn, whose images were taken out; thoughts carry along ``under`` which prefix they were.

    Raises:
        TurnTooLarge: it is, and may not be cut or has nothing that can be.
        InvalidInput: it is not known what to do then.
    """
    if on_too_large not in get_args(OnTooLarge):
        raise InvalidInput("on_too_large: allowed are 'raise' and 'cut'")
    size, is_cut = bytes_of(images), on_too_large == "cut"
    if size > most.images and not is_cut:
        raise TurnTooLarge(f"turn: {size} bytes of images; at most {most.images} are allowed")
    messages, fields = encode_turn(
        turn, max_bytes=sys.maxsize if is_cut else most.json, under=under
    )
    # Only an id that a caller gave can come with something else.
    content = Fingerprint.of(messages) if turn.turn_id else Fingerprint()
    whole = Encoded(messages, fields, images, content)
    fits = size <= most.images and len(messages) + len(fields) <= most.json
    return whole if fits else _cut(whole, most)


def bytes_of(images: Iterable[StoredImage]) -> int:
    """Bytes of images together."""
    return sum(len(image.data) for image in images)


def _cut(whole: Encoded, most: Most) -> Encoded:
    """The turn with its longest texts cut, and without the images that have no room."""
    gone, room = set(), most.images
    for image in whole.images:
        if len(image.data) > room:
            gone.add(image.ref.url)
        else:
            room -= len(image.data)
    given: list[JsonMessage] = decode_json(whole.messages)
    most_messages = most.json - len(whole.fields)
    shorter = shorten(
        [_without(message, gone) for message in given] if gone else given,
        most_messages,
        lambda messages: len(encode_json(messages)),
    )
    if shorter is None:
        raise TurnTooLarge(
            f"turn: {len(whole.messages) + len(whole.fields)} bytes of JSON, too few of them texts "
            f"that could be cut; at most {most.json} are allowed"
        )
    body = encode_json(shorter)
    images = tuple(each for each in whole.images if each.ref.url.encode() in body)
    lost = bytes_of(whole.images) - bytes_of(images)
    cut = _noted(given, shorter) + lost or len(whole.messages) - len(body)
    return whole._replace(messages=body, images=images, cut=cut)


def _without(message: JsonMessage, gone: set[str]) -> JsonMessage:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    removed = {"type": "text", "text": IMAGE_REMOVED}
    parts = [removed if _url(part) in gone else part for part in content]
    return {**message, "content": parts}


def _url(part: JsonMessage) -> object:
    return (part.get("image_url") or {}).get("url")


def _noted(before: Sequence[JsonMessage], after: Sequence[JsonMessage]) -> int:
    """How many characters are gone by the notes in the texts that were not there before."""
    old, new = (
        Counter(int(n) for m in messages for text in texts_of(m) for n in _NOTE.findall(text))
        for messages in (before, after)
    )
    return sum((new - old).elements())
