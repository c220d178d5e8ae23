"""Images: what they cost, how large they are, and that they come back as they went."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import least_cpu_s
from tests.realdata import DATA_DIR, requires_data, sessions
from turnmill.contract.codec import decode_json
from turnmill.contract.image_tokens import (
    FORMULAS,
    ImageFormula,
    ImageRef,
    dimensions,
    image_tokens,
)
from turnmill.contract.images import UNAVAILABLE, blobs_of, join_images, split_images
from turnmill.contract.shorten import IMAGE_REMOVED, shorten
from turnmill.contract.turns import Turn, encode_turn, to_turn

SHA256 = "0f" * 32


def png(width: int, height: int, size: int = 2000) -> bytes:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return head + random.Random(width).randbytes(size)


def jpeg(width: int, height: int, before: bytes = b"\xff\xe0\0\4ab") -> bytes:
    return b"\xff\xd8" + before + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width)


def webp(chunk: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + chunk + b"\0\0\0\0" + body


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image(url: str, **others: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **others}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def stored(turn: Turn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = decode_json(encode_turn(turn, max_bytes=1 << 30)[0])
    return messages


# What an image costs


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [
        (1024, 1024, "high", 765),
        (2048, 4096, "high", 1105),
        (4096, 8192, "low", 85),
        # Billed, as reported on community.openai.com/t/1281361, less 8 tokens of text.
        (2049, 513, "high", 1445),
        (2050, 513, "high", 765),
    ],
)
def test_tiles_cost_what_the_guide_s_examples_say(
    width: int, height: int, detail: str, tokens: int
) -> None:
    assert image_tokens(width, height, detail, FORMULAS["gpt-4o"]) == tokens


SIDES = st.integers(1, 2**31 - 1) | st.integers(1, 7000)


@given(SIDES, SIDES, st.sampled_from(sorted(FORMULAS)), st.sampled_from(["low", "original", None]))
def test_no_size_costs_more_than_an_unknown_one_and_turning_changes_nothing(
    width: int, height: int, name: str, detail: str | None
) -> None:
    formula: ImageFormula = FORMULAS[name]

    tokens = image_tokens(width, height, detail, formula)

    assert 0 < tokens <= image_tokens(0, 0, detail, formula)
    assert tokens == image_tokens(height, width, detail, formula)


# How large it is


@pytest.mark.parametrize(
    "data",
    [
        png(640, 480),
        jpeg(640, 480),
        b"GIF89a" + struct.pack("<HH", 640, 480),
        b"BM" + bytes(12) + struct.pack("<Iii", 40, 640, -480),
        webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 0x4000, 480 | 0x8000)),
        webp(b"VP8X", bytes(4) + b"\x7f\x02\0\xdf\x01\0"),
    ],
)
def test_a_size_is_read_from_the_first_bytes(data: bytes) -> None:
    assert dimensions(data) == (640, 480)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\xff\xe0\0\2", b"\xff\xd0"])
def test_a_hostile_file_is_given_up_at_once(filler: bytes) -> None:
    data = b"\xff\xd8" + filler * (3_000_000 // len(filler))

    assert dimensions(data) is None
    assert least_cpu_s(lambda: dimensions(data)) < 0.05


# How it is referred to


@pytest.mark.parametrize(
    "url",
    [
        None,
        "blob:https://host/x",
        f"blob:{SHA256.upper()};image/png;1x1",
        f"blob:{SHA256};image/png;01x1",
        f"blob:{SHA256};image/png;1x1\n",
        f"blob:{SHA256};image/png;x=1;1x1",
        f"blob:{SHA256};image/png;1x99999999999",
    ],
)
def test_nothing_else_is_a_reference(url: object) -> None:
    assert ImageRef.parse(url) is None


def test_a_large_image_leaves_its_message_and_comes_back_as_it_was() -> None:
    data = png(640, 480)
    message = user({"type": "text", "text": "see"}, image(data_url(data), detail="high", x_own=1))

    turn, blobs = split_images(to_turn(message))

    sha256 = hashlib.sha256(data).hexdigest()
    assert blobs == {sha256: data}
    assert stored(turn)[0]["content"][1] == image(
        f"blob:{sha256};image/png;640x480", detail="high", x_own=1
    )
    assert blobs_of(stored(turn)) == [sha256]
    assert join_images(stored(turn), blobs) == [message]


@given(st.binary(min_size=1024, max_size=1100), st.booleans())
def test_whatever_was_pushed_is_read_back(data: bytes, damaged: bool) -> None:  # noqa: FBT001
    url = data_url(data, "image/webp")
    if damaged and url.endswith("="):
        url = url[:-3] + "/" + url[-2:] if url.endswith("==") else url[:-2] + "/="
    message = user(image(url))

    turn, blobs = split_images(to_turn(message))

    assert join_images(stored(turn), blobs) == [message]


def test_an_image_whose_bytes_are_gone_becomes_a_line_of_text() -> None:
    kept, lost = data_url(png(1, 1)), data_url(png(2, 2))
    turn, blobs = split_images(to_turn(user(image(lost), image(kept))))
    gone = blobs_of(stored(turn))[0]

    joined = join_images(stored(turn), {**blobs, gone: None})

    assert joined == [user({"type": "text", "text": UNAVAILABLE}, image(kept))]


@requires_data
def test_every_real_screenshot_comes_back_and_says_its_size() -> None:
    for session in sessions("webvoyager"):
        turn, blobs = split_images(to_turn(session["messages"]))

        assert join_images(stored(turn), blobs) == session["messages"]
        assert all(dimensions(data) for data in blobs.values())
    assert DATA_DIR is not None
    for path in DATA_DIR.glob("images/**/*.png"):
        assert dimensions(path.read_bytes()) is not None


# Base64, and images that must go


def test_images_give_way_when_texts_alone_do_not_suffice() -> None:
    message = user({"type": "text", "text": "look"}, image("https://host/x.png"), {"type": "odd"})

    def count(messages: Any) -> int:
        return 100 * str(messages).count("https:") + 20

    assert shorten([message], 50, count) == [
        user(
            {"type": "text", "text": "look"},
            {"type": "text", "text": IMAGE_REMOVED},
            {"type": "text", "text": "[odd removed]"},
        )
    ]
