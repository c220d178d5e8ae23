"""Turns made of what an agent has at hand: a step with a picture, a question with its answer."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Any

from turnmill.contract.errors import InvalidTurn

__all__ = ["image_url", "interaction", "step"]

Image = bytes | str | Path
"""A picture: its bytes, a file's path, or an URL (``data:``, ``http:``, ``https:``, ``file:``)."""

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

    A user message with ``text`` and the picture, then an assistant message with the reasoning and
    the action. Action and region are kept as metadata, too.

    Raises:
        InvalidTurn: the picture is not one of the kinds in ``Image``, or its file cannot be read.
    """
    if text is None:
        text = "Here is the current view." if region is None else f"Here is the region {region}."
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if image is not None:
        parts.append({"type": "image_url", "image_url": {"url": image_url(image)}})
    said = "\n\n".join(part for part in (reasoning, f"Action: {action}") if part)
    metadata = {"reasoning": reasoning, "action": action, "region": region, "source": source}
    return {
        "messages": [
            {"role": "user", "content": parts},
            {"role": "assistant", "content": said},
        ],
        "iteration": iteration,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }


def interaction(user_query: str, assistant_response: str) -> dict[str, Any]:
    """A question and its answer as one turn."""
    return {
        "messages": [
            {"role": "user", "content": user_query},
            {"role": "assistant", "content": assistant_response},
        ]
    }


def image_url(image: Image) -> str:
    """The URL a message carries for a picture: as it is, or a data URL of the bytes.

    Raises:
        InvalidTurn: not a picture anybody can read.
    """
    if isinstance(image, str) and image.startswith(("data:", "http://", "https://", "file:")):
        return image
    if isinstance(image, str | Path):
        image, media = _read(Path(image))
    elif isinstance(image, bytes):
        media = next((kind for magic, kind in _MAGIC.items() if image.startswith(magic)), "")
    else:
        raise InvalidTurn(
            f"image: got {type(image).__name__}; allowed are bytes, a path, or a data:, http(s): "
            "or file: URL"
        )
    if not media.startswith("image/"):
        raise InvalidTurn(
            f"image: {len(image)} bytes that are no PNG, JPEG, GIF, WebP or BMP picture"
        )
    return f"data:{media};base64,{base64.b64encode(image).decode()}"


def _read(path: Path) -> tuple[bytes, str]:
    try:
        return path.read_bytes(), mimetypes.guess_type(path.name)[0] or ""
    except (OSError, ValueError) as error:
        raise InvalidTurn(
            f"image: no readable file of that name ({type(error).__name__}); allowed are bytes, a "
            "path, or a data:, http(s): or file: URL"
        ) from None
