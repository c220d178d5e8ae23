from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from turnmill_cli.conversations import BadInput, Conversation, load, numbered

HELLO = {"role": "user", "content": "hello"}
SECRET = "the password is swordfish"  # noqa: S105 - it must not be quoted


def write(folder: Path, *lines: str) -> Path:
    path = folder / "sessions.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def session(*messages: object, **fields: object) -> str:
    return json.dumps({"messages": messages, **fields})


def conversation(name: str, *texts: str) -> Conversation:
    messages = tuple({"role": "user", "content": text} for text in texts)
    return Conversation(name=name, system_prompt="", messages=messages)


def test_the_first_system_message_becomes_the_system_prompt(tmp_path: Path) -> None:
    system = {"role": "system", "content": "be brief"}
    path = write(tmp_path, session(system, HELLO, system, session_id="a b/ä"))

    (found,) = load([path])

    assert found.name == "a-b-"
    assert found.system_prompt == "be brief"
    assert found.messages == (HELLO, system)


def test_packed_files_and_blank_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sessions.jsonl.gz"
    path.write_bytes(gzip.compress(f"{session(HELLO)}\n\n{session(HELLO)}\n".encode()))

    assert [found.name for found in load([path])] == ["line-1", "line-3"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON: Expecting property name"),
        ("[]", "not an object with a list of `messages`"),
        ('{"messages": 1}', "not an object with a list of `messages`"),
        (session(SECRET), "messages[0]: not an object"),
        (session(HELLO, {"role": SECRET}), "messages[1].role: "),
        (session({"role": "system", "content": ""}, {"role": "tool"}), "messages[1]"),
    ],
)
def test_a_bad_line_is_refused_by_file_and_line_without_its_content(
    tmp_path: Path, line: str, why: str
) -> None:
    path = write(tmp_path, session(HELLO), line)

    with pytest.raises(BadInput) as caught:
        list(load([path]))

    assert str(caught.value).startswith(f"{path}:2: {why}")
    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_unpacked_is_refused_by_name(tmp_path: Path) -> None:
    packed = gzip.compress(session(HELLO).encode() * 50)
    for name, content in (("plain.gz", b"{}"), ("cut.gz", packed[:-9])):
        (tmp_path / name).write_bytes(content)

        with pytest.raises(BadInput, match=name):
            list(load([tmp_path / name]))


def test_a_missing_file_and_one_that_is_not_text_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\n")

    with pytest.raises(BadInput, match=r"absent\.jsonl: No such file"):
        list(load([tmp_path / "absent.jsonl"]))
    with pytest.raises(BadInput, match=r"binary\.jsonl:1: not UTF-8"):
        list(load([tmp_path / "binary.jsonl"]))


def test_sessions_are_limited_and_have_different_names() -> None:
    found = [conversation("a", "1"), conversation("a", "2"), conversation("c", "4")]

    assert [made.name for made in numbered(found, limit=2)] == ["1-a", "2-a"]


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8"
    "ffff3f0005fe02fea735819f0000000049454e44ae426082"
)


def looking(url: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def test_an_image_beside_the_file_is_read_into_the_message(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a b.png").write_bytes(PIXEL)
    web = looking("https://example.com/a.png")
    path = write(tmp_path, session(looking("file://images/a%20b.png"), web))

    (found,) = load([path])

    data = base64.b64encode(PIXEL).decode()
    assert found.messages == (looking(f"data:image/png;base64,{data}"), web)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file://none.png", "messages[0]: image: no readable file"),
        ("file://../outside.png", "messages[0]: an image's file lies outside"),
        ("file://sessions.jsonl", "messages[0]: image: "),
    ],
)
def test_an_image_that_cannot_be_read_is_refused_by_file_and_line(
    tmp_path: Path, url: str, why: str
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "outside.png").write_bytes(PIXEL)
    path = write(tmp_path / "here", session(looking(url)))

    with pytest.raises(BadInput) as caught:
        list(load([path]))

    assert str(caught.value).startswith(f"{path}:1: {why}")
