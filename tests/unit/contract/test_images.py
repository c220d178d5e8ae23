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
    PatchFormula,
    dimensions,
    image_tokens,
    is_base64,
    part_tokens,
)
from turnmill.contract.images import UNAVAILABLE, blobs_of, join_images, split_images
from turnmill.contract.shorten import IMAGE_REMOVED, shorten
from turnmill.contract.turns import Part, Turn, encode_turn, to_turn

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


@pytest.mark.parametrize(("width", "height", "patches"), [(1024, 1024, 1024), (1800, 2400, 1452)])
def test_patches_are_counted_as_in_the_guide_s_examples(
    width: int, height: int, patches: int
) -> None:
    assert image_tokens(width, height, "high", PatchFormula(1.0)) == patches


def test_patches_fit_the_largest_side_as_the_bill_shows() -> None:
    # Billed 1536 x 1.62 = 2488, rounded down (community.openai.com/t/1281361).
    assert image_tokens(4000, 1474, "high", FORMULAS["gpt-4.1-mini"]) == 2489


def test_original_detail_counts_more_patches_where_the_model_has_it() -> None:
    assert image_tokens(3200, 3200, "original", FORMULAS["gpt-5.4"]) == 12_000
    assert image_tokens(3200, 3200, "auto", FORMULAS["gpt-5.4"]) == 3000
    assert image_tokens(1024, 1024, "original", FORMULAS["gpt-5-mini"]) == 1659


@pytest.mark.parametrize("detail", ["auto", None, "odd", 7])
def test_any_other_detail_counts_as_high(detail: object) -> None:
    for formula in FORMULAS.values():
        assert image_tokens(900, 700, detail, formula) == image_tokens(900, 700, "high", formula)


@pytest.mark.parametrize(("width", "height"), [(0, 0), (0, 9), (9, 0), (-1, 9)])
def test_an_image_of_unknown_size_costs_the_most_there_is(width: int, height: int) -> None:
    assert image_tokens(width, height, None, FORMULAS["gpt-4o"]) == 85 + 8 * 170
    assert image_tokens(width, height, None, FORMULAS["o4-mini"]) == 2642


@pytest.mark.parametrize(
    ("url", "tokens"),
    [
        (data_url(png(64, 64)), 255),
        (data_url(png(64, 64)).replace("image/png", "image/png;x=y"), 255),
        ("data:image/png;base64,iVB", 1445),
        ("data:image/png,iVBORw0KGgo=", 1445),
        ("file:///a,b", 1445),
        (f"blob:{SHA256};image/png;64x64", 255),
        (None, 1445),
    ],
)
def test_a_part_is_priced_by_the_size_its_url_tells(url: str | None, tokens: int) -> None:
    assert part_tokens({"image_url": {"url": url}}, FORMULAS["gpt-4o"]) == tokens
    assert part_tokens({"image_url": url}, FORMULAS["gpt-4o"]) == tokens


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
        jpeg(640, 480, b"\xff" * 9 + b"\xe1\0\6\xff\xc0\0\0"),
        b"GIF89a" + struct.pack("<HH", 640, 480),
        b"BM" + bytes(12) + struct.pack("<Iii", 40, 640, -480),
        b"BM" + bytes(12) + struct.pack("<IHH", 12, 640, 480),
        webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640 | 0x4000, 480 | 0x8000)),
        webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
        webp(b"VP8X", bytes(4) + b"\x7f\x02\0\xdf\x01\0"),
    ],
)
def test_a_size_is_read_from_the_first_bytes(data: bytes) -> None:
    assert dimensions(data) == (640, 480)


@pytest.mark.parametrize("data", [png(640, 480, 0), jpeg(640, 480), b"GIF87a\0\2\0\2"])
def test_a_file_cut_short_has_no_size(data: bytes) -> None:
    for end in range(len(data)):
        assert dimensions(data[:end]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg width='9' height='9'/>",
        png(0, 480),
        png(2**31, 480),
        jpeg(640, 0),
        b"\xff\xd8\0",
        b"\xff\xd8\xff\xd9",
        b"BM" + bytes(12) + struct.pack("<Iii", 40, -640, 480),
        webp(b"ALPH", bytes(30)),
        b"RIFF\0\0\0\0WAVEfmt ",
    ],
)
def test_what_is_no_image_has_no_size(data: bytes) -> None:
    assert dimensions(data) is None


@given(
    st.binary(max_size=200), st.sampled_from([b"\xff\xd8", b"BM", b"RIFF....WEBPVP8", b"GIF89a"])
)
def test_reading_a_size_never_fails(data: bytes, magic: bytes) -> None:
    dimensions(magic + data)


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\xff\xe0\0\2", b"\xff\xd0"])
def test_a_hostile_file_is_given_up_at_once(filler: bytes) -> None:
    data = b"\xff\xd8" + filler * (3_000_000 // len(filler))

    assert dimensions(data) is None
    assert least_cpu_s(lambda: dimensions(data)) < 0.05


# How it is referred to


def test_a_reference_is_read_back_from_its_url() -> None:
    ref = ImageRef(sha256=SHA256, media_type="image/png", width=640, height=480)

    assert ref.url == f"blob:{SHA256};image/png;640x480"
    assert ImageRef.parse(ref.url) == ref


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
    message = user({"type": "text", "text": "see"}, image(data_url(data), detail="high", x=1))

    turn, blobs = split_images(to_turn(message))

    sha256 = hashlib.sha256(data).hexdigest()
    assert blobs == {sha256: data}
    assert stored(turn)[0]["content"][1] == image(
        f"blob:{sha256};image/png;640x480", detail="high", x=1
    )
    assert blobs_of(stored(turn)) == [sha256]
    assert join_images(stored(turn), blobs) == [message]


def test_an_image_shown_twice_is_taken_once() -> None:
    url = data_url(png(640, 480))
    pushed = [user(image(url), image(url)), user(image(url))]

    turn, blobs = split_images(to_turn(pushed))

    assert len(blobs) == 1
    assert len(blobs_of(stored(turn))) == 1
    assert join_images(stored(turn), blobs) == pushed


def test_a_turn_keeps_what_else_it_says() -> None:
    given_turn = Turn.model_validate(
        {
            "messages": [{**user(image(data_url(png(9, 9)))), "odd": 1}],
            "turn_id": "t",
            "pinned": True,
        }
    )

    turn, _ = split_images(given_turn)

    assert (turn.turn_id, turn.pinned) == ("t", True)
    assert stored(turn)[0]["odd"] == 1


@pytest.mark.parametrize(
    "url",
    [
        data_url(png(9, 9, 100)),  # short
        data_url(bytes(1000)).replace("AA==", "AB=="),  # another spelling of the same bytes
        data_url(bytes(1001)).replace("AAA=", "AAB="),
        data_url(png(9, 9)).replace("image/png", "image/png;x=y"),
        "https://host/" + "x" * 2000,
        "file:///" + "x" * 2000,
    ],
)
def test_other_urls_stay_where_they_are(url: str) -> None:
    turn = to_turn([user(image(url)), {"role": "user", "content": "text"}])

    assert split_images(turn) == (turn, {})
    assert split_images(turn)[0] is turn


def test_a_turn_made_without_validation_keeps_what_it_has() -> None:
    turn = to_turn(user(image(data_url(png(9, 9)))))
    parts = turn.messages[0].content
    assert isinstance(parts, tuple)
    broken = Part.model_construct(type="image_url", image_url={"url": data_url(png(9, 9)) + "="})
    message = turn.messages[0].model_copy(update={"content": (*parts, broken)})

    split, blobs = split_images(turn.model_copy(update={"messages": (message,)}))

    assert len(blobs) == 1
    assert stored(split)[0]["content"][1]["image_url"] == broken.image_url


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


def test_messages_without_references_are_not_touched() -> None:
    messages = [
        {"role": "user", "content": "text"},
        user({"type": "odd", "image_url": {"url": f"blob:{SHA256};image/png;1x1"}}),
        user(image("https://host/x.png"), {"type": "image_url", "image_url": None}),
    ]

    joined = join_images(messages, {SHA256: b"someone else's"})

    assert all(one is other for one, other in zip(joined, messages, strict=True))


def test_a_reference_cannot_be_pushed() -> None:
    with pytest.raises(ValueError, match="must be a data:"):
        to_turn(user(image(f"blob:{SHA256};image/png;1x1")))


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


@given(st.text("ABab09+/=\n-é", max_size=12))
def test_base64_told_without_decoding_is_base64(text: str) -> None:
    if is_base64(text):
        assert base64.b64encode(base64.b64decode(text, validate=True)).decode()[:-3] == text[:-3]


@given(st.binary())
def test_every_encoding_is_base64(data: bytes) -> None:
    assert is_base64(base64.b64encode(data).decode())


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
