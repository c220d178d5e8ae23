"""Images a page may show: bytes it carries itself, each of them once."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass, replace
from typing import Any

from turnmill.contract.image_tokens import ImageRef, dimensions, is_base64
from turnmill_cli.visualize.visible_text import size, visible

__all__ = ["Image", "PageImages"]

_SHOWABLE = re.compile(r"data:(image/[\w.+-]{1,60})(?:;[\w.+-]+=[\w.+-]+){0,4};base64,")
_HEAD_CHARS = 65_536  # a multiple of four
_MOST_URL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image where it is shown.

    Attributes:
        url: its data URL where it is shown first; ``""`` where it is shown again, or cannot be.
        id: of the place that carries the data; ``""`` when it cannot be shown.
        where: that place, in words, when it is another.
        width, height: in pixels; 0 when unknown.
        about: what it is, in words.
    """

    url: str = ""
    id: str = ""
    where: str = ""
    width: int = 0
    height: int = 0
    about: str


class PageImages:
    """The images of one page; remembers which it carries already."""

    def __init__(self) -> None:
        self._first: dict[str, Image] = {}

    def image(self, url: Any, where: str) -> Image:
        """The image at this URL, shown at a place such as ``turn 7``.

        Only images carried inline are shown: a page must not ask any server for anything.
        """
        head = _SHOWABLE.match(url) if isinstance(url, str) else None
        if head is None or not is_base64(url[head.end() :]):
            return Image(about=_unshown(url))
        first = self._first.get(url)
        if first is not None:
            return first
        made = self._first[url] = _shown(url, head, f"image-{len(self._first) + 1}", where)
        return replace(made, url=url, where="")


def _shown(url: str, head: re.Match[str], name: str, where: str) -> Image:
    data = binascii.a2b_base64(url[head.end() : head.end() + _HEAD_CHARS])
    width, height = dimensions(data) or (0, 0)
    sides = f", {width}×{height} pixels" if width else ""
    about = f"{head[1]}{sides}, {size((len(url) - head.end()) * 3 // 4)}"
    return Image(id=name, where=where, width=width, height=height, about=about)


def _unshown(url: Any) -> str:
    if not isinstance(url, str):
        return "image without an address"
    ref = ImageRef.parse(url)
    if ref is not None:
        return f"image, {ref.media_type}, {ref.width}×{ref.height} pixels, not part of this file"
    if url.startswith("data:"):
        kind = visible(url[5:65].partition(",")[0].partition(";")[0]) or "of no stated type"
        return f"not shown: data of type {kind}, {len(url):,} characters"
    shown = visible(url[:_MOST_URL]) + ("…" if len(url) > _MOST_URL else "")
    return f"not loaded: {shown}"
