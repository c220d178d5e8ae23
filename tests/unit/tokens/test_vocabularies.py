"""Vocabularies without the network, and tokenizers of files: exact, or refused by name."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from benchmarks import hostile_text
from tests.effort import assert_linear
from tests.tokenizer_files import TEXT, byte_fallback, byte_level, saved
from turnmill.contract.errors import UnknownEncoding
from turnmill_worker.tokens import counter_for
from turnmill_worker.tokens.bpe_openai import BpeCounter
from turnmill_worker.tokens.tiktoken import TiktokenCounter

# tiktoken without the network, and what counts exactly like it.

tiktoken = pytest.importorskip("tiktoken")
ENCODINGS = ("o200k_base", "cl100k_base")
# The name tiktoken gives o200k_base.tiktoken in its cache.
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


@pytest.fixture(scope="module")
def references() -> dict[str, TiktokenCounter]:
    return {encoding: TiktokenCounter(encoding) for encoding in ENCODINGS}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_hostile_text_counts_like_tiktoken(
    encoding: str, references: dict[str, TiktokenCounter]
) -> None:
    counter = BpeCounter(encoding)

    for kind, text in hostile_text.hostile(random.Random(7), 400):
        assert counter.count(text) == references[encoding].count(text), kind


@pytest.mark.parametrize("kind", [*HOSTILE_MEGABYTES, "a", " "])
def test_a_hostile_megabyte_is_counted_in_linear_time(kind: str) -> None:
    text = HOSTILE_MEGABYTES.get(kind, kind * MEGABYTE)
    counter = BpeCounter("o200k_base")

    assert_linear(lambda size: counter.count(text[:size]), size=MEGABYTE // 4)


# Tokenizers of files: exact where bytes bound them, refused by name elsewhere.

SPACE = "\u2581"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(byte_level(), tmp_path, "own")


def test_text_counts_as_the_file_says(folder: Path) -> None:
    counter = counter_for("file:own", folder=folder)
    plain = byte_level()

    for text in TEXT:
        assert counter.count(text) == len(plain.encode(text).ids) < len(text.encode())


def test_the_basis_names_the_file_and_what_was_in_it(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    saved(byte_level(300), other, "own")
    first, second = (counter_for("file:own", "o3", at).basis for at in (folder, other))

    assert first.startswith("file:own@")
    assert first.endswith("/2/o3")
    assert first != second


def _with(tokenizer: Tokenizer, **parts: object) -> Tokenizer:
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def _word_piece() -> Tokenizer:
    return Tokenizer(models.WordPiece({"[UNK]": 0}))


def _by_characters() -> Tokenizer:
    return Tokenizer(models.BPE({"a": 0}, []))


def _one_byte_added() -> Tokenizer:
    tokenizer = byte_level()
    tokenizer.add_tokens(["\n"])
    return tokenizer


def _without_bytes() -> Tokenizer:
    return Tokenizer(models.BPE({SPACE: 0}, [], byte_fallback=True))


BYTES = pre_tokenizers.ByteLevel
REFUSED = [
    (_word_piece, "its model is WordPiece, not BPE"),
    (_by_characters, "byte-level or fall back to bytes"),
    (lambda: _with(byte_level(), normalizer=normalizers.NFKC()), "its normalizer NFKC"),
    (lambda: _with(byte_level(), normalizer=normalizers.Lowercase()), "its normalizer Lowercase"),
    (
        lambda: _with(byte_fallback(), normalizer=normalizers.Replace(" ", "__")),
        "its spaces become several tokens",
    ),
    (
        lambda: _with(byte_fallback(), pre_tokenizer=BYTES(add_prefix_space=False)),
        "one of the two",
    ),
    (
        lambda: _with(
            byte_level(),
            pre_tokenizer=pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), BYTES(add_prefix_space=True)]
            ),
        ),
        "its pre-tokenizer ByteLevel",
    ),
    (_one_byte_added, "an added token of one byte"),
    (_without_bytes, "falls back to bytes that its vocabulary lacks"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_a_tokenizer_without_a_bound_by_bytes_is_refused_by_name(
    tmp_path: Path, make: object, why: str
) -> None:
    assert callable(make)
    saved(make(), tmp_path, "own")

    with pytest.raises(UnknownEncoding, match=why):
        counter_for("file:own", folder=tmp_path)
