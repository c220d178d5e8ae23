"""tiktoken without the network, and what counts exactly like it."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from pathlib import Path

import pytest

from benchmarks import hostile_text
from tests.effort import assert_linear
from turnmill_worker.tokens.bpe_openai import BpeCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter, _load, cache_dir, seed_cache

tiktoken = pytest.importorskip("tiktoken")
ENCODINGS = ("o200k_base", "cl100k_base")
# The name tiktoken gives o200k_base.tiktoken in its cache.
O200K_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
MEGABYTE = 1 << 20

HOSTILE_MEGABYTES = {
    "words and spaces": ("word" + " " * 1000) * (MEGABYTE // 1004),
    "newlines": "\n" * MEGABYTE,
    "mixed whitespace": " \t\n\r" * (MEGABYTE // 4),
    "cjk": "漢字仮名交じり文" * (MEGABYTE // 24),
    "emoji": "👨‍👩‍👧‍👦🏳️‍🌈" * (MEGABYTE // 40),
    "base64": base64.b64encode(random.Random(1).randbytes(MEGABYTE * 3 // 4)).decode(),
    "nulls": "\0" * MEGABYTE,
}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def references() -> dict[str, TiktokenCounter]:
    return {encoding: TiktokenCounter(encoding) for encoding in ENCODINGS}


def test_the_bundled_vocabulary_is_put_where_tiktoken_looks(own_cache: Path) -> None:
    assert seed_cache("o200k_base")

    content = (own_cache / O200K_FILE).read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith("446a9538")
    assert [path.name for path in own_cache.iterdir()] == [O200K_FILE]


def test_a_damaged_vocabulary_is_replaced(own_cache: Path) -> None:
    (own_cache / O200K_FILE).write_bytes(b"half a file")

    assert seed_cache("o200k_base")

    assert (own_cache / O200K_FILE).stat().st_size > MEGABYTE


def test_harmony_uses_the_vocabulary_of_its_base(own_cache: Path) -> None:
    assert seed_cache("o200k_harmony")

    assert (own_cache / O200K_FILE).exists()


def test_an_encoding_that_is_not_bundled_is_not_seeded(own_cache: Path) -> None:
    assert not seed_cache("r50k_base")
    assert not list(own_cache.iterdir())


def test_a_folder_that_cannot_be_written_is_not_an_error(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "file").touch()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(own_cache / "file"))

    assert not seed_cache("o200k_base")


def test_a_cache_that_is_switched_off_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")

    assert cache_dir() is None
    assert not seed_cache("o200k_base")


def test_a_download_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: time.sleep(60))
    began = time.monotonic()

    with pytest.raises(TimeoutError, match="o200k_base within"):
        _load("o200k_base", 0.05)

    assert time.monotonic() - began < 30


def test_a_download_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(tiktoken, "get_encoding", refuse)

    with pytest.raises(OSError, match="o200k_base"):
        _load("o200k_base", 1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_hostile_text_counts_like_tiktoken(
    encoding: str, references: dict[str, TiktokenCounter]
) -> None:
    counter = BpeCounter(encoding)

    for kind, text in hostile_text.hostile(random.Random(7), 400):
        assert counter.count(text) == references[encoding].count(text), kind


@pytest.mark.parametrize("kind", HOSTILE_MEGABYTES)
@pytest.mark.slow
def test_a_hostile_megabyte_counts_like_tiktoken(
    kind: str, references: dict[str, TiktokenCounter]
) -> None:
    text = HOSTILE_MEGABYTES[kind]

    assert BpeCounter("o200k_base").count(text) == references["o200k_base"].count(text)


def test_a_megabyte_of_one_character_counts_like_tiktoken(
    references: dict[str, TiktokenCounter],
) -> None:
    text = "a" * MEGABYTE

    assert BpeCounter("o200k_base").count(text) == references["o200k_base"].count(text)


def test_whitespace_that_overflows_tiktoken_is_counted_all_the_same(
    references: dict[str, TiktokenCounter],
) -> None:
    text = " " * MEGABYTE

    exact = BpeCounter("o200k_base").count(text)

    assert exact <= references["o200k_base"].count(text) <= exact * 1.01


@pytest.mark.parametrize("kind", [*HOSTILE_MEGABYTES, "a", " "])
def test_a_hostile_megabyte_is_counted_in_linear_time(kind: str) -> None:
    text = HOSTILE_MEGABYTES.get(kind, kind * MEGABYTE)
    counter = BpeCounter("o200k_base")

    assert_linear(lambda size: counter.count(text[:size]), size=MEGABYTE // 4)
