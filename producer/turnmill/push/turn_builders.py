"""Turns made of what an agent has at hand: a step with an image, a question with its answer."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnmill.contract.codec import sendable
from turnmill.contract.errors import InvalidTurn

Image = bytes | str | Path
"""An image: its bytes, the same as base64, a file's path, or an URL (``data:``, ``http(s):``,
``file:``)."""

_ALLOWED = "allowed are bytes, base64, a path, or a data:, http(s): or file: URL"

_MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}


def step(
    *,
    image: Image | None,
    reasoning: str,
    action: str,
    region: Any = None,
    text: str | None = None,
    iteration: int | None = None,
    source: str | None = None,
) -> dict[str, Any]:
    """One step of an agent that looks and acts: what it saw, what it thought, what it did.

    A user message with ``text`` and the image, then an assistant message with the reasoning and
    the action; without both, the user message alone, to be answered. Action and region are kept
    as metadata, too; a region may be anything JSON can hold, a pydantic model included.

    Raises:
        InvalidTurn: the image is not one of the kinds in ``Image``, or its file cannot be read;
            or the step has nothing in it.
    """
    _check_texts(reasoning=reasoning, action=action)
    _check_texts(text=text or "", source=source or "")
    if image is None and not (reasoning or action or text):
        raise InvalidTurn("step: needs an image, text, reasoning or an action")
    region = _jsonable(region)
    parts: list[dict[str, Any]] = [{"type": "text", "text": text or _caption(image, region)}]
    if image is not None:
        parts.append({"type": "image_url", "image_url": {"url": image_url(image)}})
    messages: list[dict[str, Any]] = [{"role": "user", "content": parts}]
    said = "\n\n".join(part for part in (reasoning, action and f"Action: {action}") if part)
    if said:
        messages.append({"role": "assistant", "content": said})
    metadata = {"reasoning": reasoning, "action": action, "region": region, "source": source}
    return {
        "messages": messages,
        "iteration": iteration,
        "metadata": {name: value for name, value in metadata.items() if value not in (None, "")},
    }


def _check_texts(**texts: object) -> None:
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InvalidTurn(f"{name}: must be a str, got {type(value).__name__}")


def _jsonable(region: Any) -> Any:
    try:
        return to_jsonable_python(sendable(region))
    except (PydanticSerializationError, ValueError):
        raise InvalidTurn(f"region: must be JSON, got {type(region).__name__}") from None


def _caption(image: Image | None, region: Any) -> str:
    """What the user message says where the agent gives no text."""
    if image is None:
        return "There is no image of this step."
    if region is None:
        return "Here is the current view."
    return f"Here is the region {region if isinstance(region, str) else json.dumps(region)}."


def interaction(user_query: str, assistant_response: str) -> dict[str, Any]:
    """A question and its answer as one turn.

    Raises:
        InvalidTurn: one of them is no text.
    """
    _check_texts(user_query=user_query, assistant_response=assistant_response)
    return {
        "messages": [
            {"role": "user", "content": user_query},
            {"role": "assistant", "content": assistant_response},
        ]
    }


def image_url(image: Image) -> str:
    """The URL a message carries for an image: as it is, or a data URL of the bytes.

    Raises:
        InvalidTurn: not an image anybody can read.
    """
    if isinstance(image, str) and image.startswith(("data:image/", "http://", "https://", "file:")):
        return image
    if isinstance(image, str | Path):
        image = _from_base64(image) or _read(Path(image))
    elif not isinstance(image, bytes):
        raise InvalidTurn(f"image: got {type(image).__name__}; {_ALLOWED}")
    media = _media_type(image)
    if media is None:
        raise InvalidTurn(
            f"image: {len(image)} bytes that are no PNG, JPEG, GIF, WebP or BMP image"
        )
    return f"data:{media};base64,{base64.b64encode(image).decode()}"


def _media_type(data: bytes) -> str | None:
    media = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if media == "image/webp" and data[8:12] != b"WEBP":  # RIFF holds sounds, too
        return None
    return media


def _from_base64(text: str | Path) -> bytes | None:
    """The image in this base64 text; None when the text is a file's name."""
    if isinstance(text, Path):
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if _media_type(data) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidTurn(
            f"image: no readable file of that name ({type(error).__name__}); {_ALLOWED}"
        ) from None
