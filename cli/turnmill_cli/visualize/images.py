"""Pictures a page may show: bytes it carries itself, each of them once."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from typing import Any

from turnmill.contract.images.cost import ImageRef, is_base64
from turnmill.contract.images.size import dimensions
from turnmill_cli.visualize.safe_text import size, visible

__all__ = ["Album", "Picture"]

_SHOWABLE = re.compile(r"data:(image/[\w.+-]{1,60})(?:;[\w.+-]+=[\w.+-]+){0,4};base64,")
_HEAD_CHARS = 65_536  # a multiple of four
_MOST_URL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture where it is shown.

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


class Album:
    """The pictures of one page; remembers which it carries already."""

    def __init__(self) -> None:
        self._first: dict[str, Picture] = {}

    def picture(self, url: Any, where: str) -> Picture:
        """The picture at this URL, shown at a place such as ``turn 7``.

        Only pictures carried inline are shown: a page must not ask any server for anything.
        """
        head = _SHOWABLE.match(url) if isinstance(url, str) else None
        if head is None or not is_base64(url[head.end() :]):
            return Picture(about=_unshown(url))
        first = self._first.get(url)
        if first is not None:
            return Picture(
                id=first.id,
                where=first.where,
                width=first.width,
                height=first.height,
                about=first.about,
            )
        made = self._first[url] = _shown(url, head, f"picture-{len(self._first) + 1}", where)
        return Picture(url=url, id=made.id, width=made.width, height=made.height, about=made.about)


def _shown(url: str, head: re.Match[str], name: str, where: str) -> Picture:
    data = binascii.a2b_base64(url[head.end() : head.end() + _HEAD_CHARS])
    width, height = dimensions(data) or (0, 0)
    sides = f", {width}×{height} pixels" if width else ""
    about = f"{head[1]}{sides}, {size((len(url) - head.end()) * 3 // 4)}"
    return Picture(id=name, where=where, width=width, height=height, about=about)


def _unshown(url: Any) -> str:
    if not isinstance(url, str):
        return "picture without an address"
    ref = ImageRef.parse(url)
    if ref is not None:
        return f"picture, {ref.media_type}, {ref.width}×{ref.height} pixels, not part of this file"
    if url.startswith("data:"):
        kind = visible(url[5:65].partition(",")[0].partition(";")[0]) or "of no stated type"
        return f"not shown: data of type {kind}, {len(url):,} characters"
    shown = visible(url[:_MOST_URL]) + ("…" if len(url) > _MOST_URL else "")
    return f"not loaded: {shown}"
