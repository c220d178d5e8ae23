"""Images in messages: found, stored apart under their hash, put back; references for them."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic_core import SchemaValidator, core_schema

from turnmill.contract.context import JsonMessage
from turnmill.contract.image_tokens import ImageRef, dimensions
from turnmill.contract.turns import Message, Part, Turn

LEAST_BLOB_CHARS: Final = 1024
"""Data URLs shorter than this stay where they are: a reference would save next to nothing."""

UNAVAILABLE: Final = "[Image no longer available]"
"""The text that replaces an image whose bytes are gone."""

_BASE64: Final = SchemaValidator(
    core_schema.bytes_schema(), core_schema.CoreConfig(val_json_bytes="base64")
)
_PLAIN: Final = re.compile(r"data:([\w.+-]{1,127}/[\w.+-]{1,127});base64,")


def split_images(turn: Turn) -> tuple[Turn, dict[str, bytes]]:
    """The turn with references for its inline images, and their bytes by SHA-256.

    Returns the same turn when it has none. Decodes and hashes each image once.
    """
    blobs: dict[str, bytes] = {}
    messages = tuple(_without_images(message, blobs) for message in turn.messages)
    return (turn.model_copy(update={"messages": messages}) if blobs else turn), blobs


def _without_images(message: Message, blobs: dict[str, bytes]) -> Message:
    if not isinstance(message.content, tuple):
        return message
    known = len(blobs)
    parts = tuple(_referring(part, blobs) for part in message.content)
    if len(blobs) == known and all(map(_same, parts, message.content)):
        return message
    return message.model_copy(update={"content": parts})


def _same(one: Part, other: Part) -> bool:
    return one is other


def _referring(part: Part, blobs: dict[str, bytes]) -> Part:
    image = part.image_url
    if part.type != "image_url" or image is None:
        return part
    url = image.get("url")
    taken = _take(url) if isinstance(url, str) and len(url) >= LEAST_BLOB_CHARS else None
    if taken is None:
        return part
    ref, data = taken
    blobs[ref.sha256] = data
    return part.model_copy(update={"image_url": {**image, "url": ref.url}})


def _take(url: str) -> tuple[ImageRef, bytes] | None:
    """The reference and the bytes of a data URL; None when they would not restore it exactly."""
    head = _PLAIN.match(url)
    if head is None:
        return None
    data = _decoded(url[head.end() :])
    if data is None:
        return None
    width, height = dimensions(data) or (0, 0)
    ref = ImageRef(
        sha256=hashlib.sha256(data).hexdigest(),
        media_type=head[1],
        width=width,
        height=height,
    )
    return ref, data


def _decoded(text: str) -> bytes | None:
    """The bytes, or None if RFC 4648 spells them otherwise; five times as fast as ``binascii``."""
    if len(text) % 4 or "-" in text or "_" in text:  # the decoder accepts other spellings, too
        return None
    try:
        data: bytes = _BASE64.validate_strings(text)  # type: ignore[arg-type]  # a str will do
    except ValueError:
        return None
    return data


def refs_of(messages: Sequence[JsonMessage]) -> list[ImageRef]:
    """Every image these messages refer to, each once, in order."""
    refs = (ImageRef.parse(part["image_url"].get("url")) for part in image_parts(messages))
    return list(dict.fromkeys(ref for ref in refs if ref))


def blobs_of(messages: Sequence[JsonMessage]) -> list[str]:
    """The SHA-256 of every image these messages refer to, each once, in order."""
    return list(dict.fromkeys(ref.sha256 for ref in refs_of(messages)))


def image_parts(messages: Iterable[JsonMessage]) -> Iterator[dict[str, Any]]:
    """The parts of the messages that show an image, in order."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            yield from filter(_is_image, content)


def _is_image(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "image_url" and isinstance(part.get("image_url"), dict)


def data_url(ref: ImageRef, data: bytes) -> str:
    """The data URL the image came in."""
    return f"data:{ref.media_type};base64,{binascii.b2a_base64(data, newline=False).decode()}"


def join_images(
    messages: Sequence[JsonMessage], blobs: Mapping[str, bytes | None]
) -> list[JsonMessage]:
    """The messages with their images inline again, bytes by SHA-256; as ``inline_images``."""
    found = ((ref, blobs.get(ref.sha256)) for ref in refs_of(messages))
    return inline_images(messages, {ref.url: data_url(ref, d) for ref, d in found if d is not None})


def inline_images(
    messages: Sequence[JsonMessage], urls: Mapping[str, str | None]
) -> list[JsonMessage]:
    """The messages with a data URL for each reference; without one, it becomes ``UNAVAILABLE``.

    Messages without references are the same objects; none is changed in place.
    """
    return [_inlined(message, urls) for message in messages]


def _inlined(message: JsonMessage, urls: Mapping[str, str | None]) -> JsonMessage:
    if not refs_of([message]):
        return message
    return {**message, "content": [_inline(part, urls) for part in message["content"]]}


def _inline(part: dict[str, Any], urls: Mapping[str, str | None]) -> dict[str, Any]:
    ref = ImageRef.parse(part["image_url"].get("url")) if _is_image(part) else None
    if ref is None:
        return part
    url = urls.get(ref.url)
    if url is None:
        return {"type": "text", "text": UNAVAILABLE}
    return {**part, "image_url": {**part["image_url"], "url": url}}


DEFAULT_MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024


class StoredImage(NamedTuple):
    """An image taken out of a turn.

    Attributes:
        key: where Redis keeps it.
        ref: what stands for it in the message.
        url: the data URL it came as.
    """

    key: str
    ref: ImageRef
    data: bytes
    url: str


def take_images(turn: Turn, prefix: str) -> tuple[Turn, tuple[StoredImage, ...]]:
    """The turn with references in place of its inline images, and those images, each once."""
    stored, blobs = split_images(turn)
    if not blobs:
        return turn, ()
    found = {ref.sha256: (ref, url) for ref, url in _replaced(turn, stored)}
    return stored, tuple(
        StoredImage(f"{prefix}{sha256}", ref, blobs[sha256], url)
        for sha256, (ref, url) in found.items()
    )


def _replaced(turn: Turn, stored: Turn) -> Iterator[tuple[ImageRef, str]]:
    """The reference in place of each image, and the data URL it replaces."""
    for one, other in zip(turn.messages, stored.messages, strict=True):
        if isinstance(one.content, tuple) and isinstance(other.content, tuple):
            for before, after in zip(one.content, other.content, strict=True):
                ref = ImageRef.parse((after.image_url or {}).get("url"))
                if before is not after and ref and before.image_url:
                    yield ref, str(before.image_url["url"])
