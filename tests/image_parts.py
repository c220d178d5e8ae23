"""Made-up images of any size, and messages that show them."""

from __future__ import annotations

import base64
import random
import struct
from typing import Any


def png(seed: int = 0, *, width: int = 640, height: int = 480, size: int = 3000) -> bytes:
    """Bytes that begin as a PNG of these sides does; each seed makes others."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return head + random.Random(seed).randbytes(size)


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """The bytes as agents send them."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image(url: str, **others: Any) -> dict[str, Any]:
    """An image part."""
    return {"type": "image_url", "image_url": {"url": url, **others}}


def showing(*images: bytes, text: str = "Look:") -> dict[str, Any]:
    """A user message with these images."""
    parts = [image(data_url(data)) for data in images]
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}
