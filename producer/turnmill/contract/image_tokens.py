"""Images: what a provider charges for one, and how a message refers to one kept elsewhere.

Prices follow OpenAI's guide "Images and vision", section "Calculating costs"
(https://developers.openai.com/api/docs/guides/images-vision, read in its edition of 2026), and
where the guide is silent or the bill says otherwise, what people measured:

- Tiles are never scaled up, and a scaled side is rounded to the nearest pixel: gpt-4.1 was billed
  for 8 tiles of 2049 x 513 and for 4 of 2050 x 513 (https://community.openai.com/t/1281361).
- A patch formula fits the image into 2048 x 2048 first: gpt-4.1-mini was billed 1536 patches for
  4000 x 1474 (same thread).
- ``low`` saves nothing where patches are counted, and the models without a multiplier in the guide
  (`gpt-5.2`, `gpt-5.3-codex`, `gpt-5.4`) were billed 1.2 (https://community.openai.com/t/1377015).
  The same thread was billed less than the guide says for the small gpt-5 models: the guide stands.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct, error
from types import MappingProxyType
from typing import Any, Final, Self

MOST_SIDE: Final = 2**31 - 1
"""The longest side any of these formats can state."""

# JPEGs carry hundreds of segments at most; a hostile file must not be walked byte by byte.
_MOST_SEGMENTS: Final = 1024
_NO_FRAME: Final = frozenset((0xC4, 0xC8, 0xCC))
_STANDALONE: Final = frozenset((0x01, *range(0xD0, 0xD8)))

_BIG_U32S: Final = Struct(">II")
_BIG_U16S: Final = Struct(">HH")
_BIG_U16: Final = Struct(">H")
_U16S: Final = Struct("<HH")
_I32S: Final = Struct("<ii")
_U32: Final = Struct("<I")

_Size = tuple[int, int] | None


def dimensions(data: bytes) -> tuple[int, int] | None:
    """The (width, height) in pixels that a PNG, JPEG, GIF, WebP or BMP states, else None.

    The start of a file suffices; of a JPEG, as much as precedes its frame header. None, too, for
    a file cut short, a side of 0 and a side above ``MOST_SIDE``. A photograph's EXIF rotation is
    not applied. Takes microseconds whatever the bytes are.
    """
    read = next((read for magic, read in _READERS if data.startswith(magic)), None)
    if read is None:
        return None
    try:
        size = read(data)
    except (error, IndexError):  # cut short
        return None
    return size if size and all(1 <= side <= MOST_SIDE for side in size) else None


def _png(data: bytes) -> _Size:
    return _two(_BIG_U32S, data, 16) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> _Size:
    return _two(_U16S, data, 6)


def _bmp(data: bytes) -> _Size:
    (header,) = _U32.unpack_from(data, 14)
    if header == 12:  # noqa: PLR2004 - OS/2's header has 12 bytes, and shorter numbers
        return _two(_U16S, data, 18)
    width, height = _I32S.unpack_from(data, 18)
    return width, abs(height)  # rows from the top down are a negative height


def _webp(data: bytes) -> _Size:
    if data[8:12] != b"WEBP":
        return None
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _U16S.unpack_from(data, 26)
            return width & 0x3FFF, height & 0x3FFF  # the upper two bits scale the display
        case b"VP8L" if data[20] == 0x2F:  # noqa: PLR2004 - the format's signature
            (bits,) = _U32.unpack_from(data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(data) >= 30:  # noqa: PLR2004 - where the height ends
            return int.from_bytes(data[24:27], "little") + 1, (
                int.from_bytes(data[27:30], "little") + 1
            )
        case _:
            return None


def _jpeg(data: bytes) -> _Size:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if data[at] != 0xFF:  # noqa: PLR2004 - starts every marker
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # noqa: PLR2004 - padding
            at += 1
        elif marker in _STANDALONE:
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:  # noqa: PLR2004 - a frame header
            height, width = _BIG_U16S.unpack_from(data, at + 5)
            return width, height
        else:
            (length,) = _BIG_U16.unpack_from(data, at + 2)
            at += 2 + length
    return None


def _two(numbers: Struct, data: bytes, at: int) -> _Size:
    first, second = numbers.unpack_from(data, at)
    return first, second


_READERS: Final[tuple[tuple[bytes, Callable[[bytes], _Size]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"GIF87a", _gif),
    (b"GIF89a", _gif),
    (b"RIFF", _webp),
    (b"BM", _bmp),
)


_FIT_SIDE: Final = 2048
_SHORT_SIDE: Final = 768
_TILE_SIDE: Final = 512
_MOST_TILES: Final = (_FIT_SIDE // _TILE_SIDE) * math.ceil(_SHORT_SIDE / _TILE_SIDE)
_PATCH_SIDE: Final = 32


@dataclass(frozen=True, slots=True)
class TileFormula:
    """``base`` tokens and ``tile`` more for each 512-pixel square of the scaled image.

    Scaled to fit 2048 x 2048, then down to a shorter side of 768; ``low`` detail costs ``base``.
    Guide: for gpt-4o 1024 x 1024 costs 765, 2048 x 4096 costs 1105, and 85 in low detail.
    """

    base: int
    tile: int

    def tokens(self, width: int, height: int, detail: object) -> int:
        """The price; for an image of unknown size, the highest there is."""
        if detail == "low":
            return self.base
        if width < 1 or height < 1:
            return self.base + self.tile * _MOST_TILES
        scale = min(1.0, _FIT_SIDE / max(width, height), _SHORT_SIDE / min(width, height))
        wide, high = (math.ceil(side / _TILE_SIDE) for side in _scaled(width, height, scale))
        return self.base + self.tile * wide * high


@dataclass(frozen=True, slots=True)
class PatchFormula:
    """``multiplier`` tokens for each 32-pixel square, of which there are at most ``patches``.

    The image is scaled to fit ``side`` x ``side``, then down until ``patches`` suffice. Detail
    makes no difference, but for ``original`` where the model has it (``original_patches``).
    Guide: with 1536 patches 1024 x 1024 takes 1024 and 1800 x 2400, scaled to 1056 x 1408, 1452.
    """

    multiplier: float
    patches: int = 1536
    side: int = 2048
    original_patches: int = 0
    original_side: int = 0

    def tokens(self, width: int, height: int, detail: object) -> int:
        """The price; for an image of unknown size, the highest there is."""
        most, side = self.patches, self.side
        if detail == "original" and self.original_patches:
            most, side = self.original_patches, self.original_side
        if width < 1 or height < 1:
            return math.ceil(most * self.multiplier)
        width, height = _scaled(width, height, min(1.0, side / max(width, height)))
        if _patches(width, height) > most:
            shrink = math.sqrt(_PATCH_SIDE**2 * most / (width * height))
            fit = min(_whole(width * shrink), _whole(height * shrink))
            width, height = _scaled(width, height, shrink * fit)
        return math.ceil(min(_patches(width, height), most) * self.multiplier)


ImageFormula = TileFormula | PatchFormula
"""How a model's provider prices an image by its size and the detail asked for.

``auto`` or no detail counts as ``high``: the provider chooses, but never above that."""

_GPT_4O: Final = TileFormula(85, 170)
_GPT_5: Final = TileFormula(70, 140)
_O_SERIES: Final = TileFormula(75, 150)

FORMULAS: Final[Mapping[str, ImageFormula]] = MappingProxyType(
    {
        "gpt-4o": _GPT_4O,
        "gpt-4.1": _GPT_4O,
        "gpt-4.5": _GPT_4O,
        "gpt-4o-mini": TileFormula(2833, 5667),
        "gpt-5": _GPT_5,
        "gpt-5-chat-latest": _GPT_5,
        "o1": _O_SERIES,
        "o1-pro": _O_SERIES,
        "o3": _O_SERIES,
        "computer-use-preview": TileFormula(65, 129),
        "gpt-4.1-mini": PatchFormula(1.62),
        "gpt-4.1-nano": PatchFormula(2.46),
        "gpt-5-mini": PatchFormula(1.62),
        "gpt-5-nano": PatchFormula(2.46),
        "gpt-5.4-mini": PatchFormula(1.62),
        "gpt-5.4-nano": PatchFormula(2.46),
        "o4-mini": PatchFormula(1.72),
        "gpt-5.2": PatchFormula(1.2),
        "gpt-5.3-codex": PatchFormula(1.2),
        "gpt-5.4": PatchFormula(1.2, 2500, 2048, original_patches=10_000, original_side=6000),
    }
)
"""Formulas by the name of a model. Models without a highest price are left out (``gpt-5.5`` and
later take ``auto`` for ``original``, in part without a limit)."""

DEFAULT_FORMULA: Final = "gpt-4o"
"""The formula used when none is named."""


def _scaled(width: int, height: int, scale: float) -> tuple[int, int]:
    return max(1, round(width * scale)), max(1, round(height * scale))


def _patches(width: int, height: int) -> int:
    return math.ceil(width / _PATCH_SIDE) * math.ceil(height / _PATCH_SIDE)


def _whole(side: float) -> float:
    """The share of a side left when it is cut down to whole patches, at least one."""
    return min(1.0, max(1, math.floor(side / _PATCH_SIDE)) / (side / _PATCH_SIDE))


def image_tokens(width: int, height: int, detail: object, formula: ImageFormula) -> int:
    """The tokens of an image; a side of 0 means unknown, and costs the formula's most."""
    return formula.tokens(width, height, detail)


def part_tokens(part: Mapping[str, Any], formula: ImageFormula) -> int:
    """The tokens of an ``image_url`` part, by the size its URL states or carries.

    An image at an address, and one that cannot be read, costs the formula's most. Takes any
    mapping; decodes no more than the first 64 Ki characters of inline data.
    """
    image = part.get("image_url")
    holder = image if isinstance(image, Mapping) else part
    url = image.get("url") if isinstance(image, Mapping) else image
    width, height = _size(url)
    return formula.tokens(width, height, holder.get("detail"))


def _size(url: object) -> tuple[int, int]:
    if not isinstance(url, str):
        return 0, 0
    ref = ImageRef.parse(url)
    if ref is not None:
        return ref.width, ref.height
    return dimensions(_inline_head(url)) or (0, 0)


def _inline_head(url: str) -> bytes:
    """The first bytes a base64 data URL carries; none when it is something else."""
    comma = url.find(",", 0, _MOST_MEDIA_TYPE)
    if comma < 0 or not url.startswith("data:") or not url.endswith(";base64", 0, comma):
        return b""
    try:
        return binascii.a2b_base64(url[comma + 1 : comma + 1 + _HEAD])
    except ValueError:  # not base64 after all
        return b""


_HEAD: Final = 65_536  # a multiple of four
_MOST_MEDIA_TYPE: Final = 300
_REFERENCE: Final = re.compile(
    r"blob:([0-9a-f]{64});([^;,\s]{1,255});(0|[1-9][0-9]{0,9})x(0|[1-9][0-9]{0,9})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """Stands in a message for an image whose bytes are kept once, under their hash.

    Attributes:
        sha256: of the bytes, as 64 hexadecimal digits.
        media_type: what the image's data URL said, such as ``image/png``.
        width, height: in pixels; both 0 when the bytes do not say.
    """

    sha256: str
    media_type: str
    width: int
    height: int

    @property
    def url(self) -> str:
        """What stands in ``image_url.url``: ``blob:<sha256>;<media type>;<width>x<height>``."""
        return f"blob:{self.sha256};{self.media_type};{self.width}x{self.height}"

    @classmethod
    def parse(cls, url: object) -> Self | None:
        """The reference this URL spells, or None for any other URL."""
        found = _REFERENCE.fullmatch(url) if isinstance(url, str) else None
        if found is None:
            return None
        sha256, media_type, width, height = found.groups()
        return cls(sha256=sha256, media_type=media_type, width=int(width), height=int(height))


_MOST_PADDING: Final = 2
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def is_base64(text: str) -> bool:
    """Whether this is base64 in groups of four, padded at the end only; does not decode."""
    if len(text) % 4 or not text.isascii():
        return False
    data = text.rstrip("=")
    return len(text) - len(data) <= _MOST_PADDING and not data.encode().translate(None, _ALPHABET)
