"""Width and height of an image, read from its first bytes. Pure, bounded, and never raises."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Final

__all__ = ["MOST_SIDE", "dimensions"]

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
