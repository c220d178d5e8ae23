"""Tokenizers of files: exact where bytes bound them, refused by name elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.tokenizer_files import TEXT, byte_fallback, byte_level, saved
from turnmill.contract.errors import UnknownEncoding
from turnmill_worker.tokens import CountedOnce, count_message, counter_for

SPACE = "\u2581"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(byte_level(), tmp_path, "own")


def test_text_counts_as_the_file_says(folder: Path) -> None:
    counter = counter_for("file:own", folder=folder)
    plain = byte_level()

    for text in TEXT:
        assert counter.count(text) == len(plain.encode(text).ids) < len(text.encode())


def test_special_tokens_in_a_text_are_text(folder: Path) -> None:
    counter = counter_for("file:own", folder=folder)

    assert counter.count("<|end|>") > 1
    assert counter.count("<tool>") == 1


def test_a_text_of_any_kind_is_counted(folder: Path) -> None:
    counter = counter_for("file:own", folder=folder)

    assert counter.count("") == 0
    assert counter.count("\ud800") > 0


def test_a_file_that_cuts_or_pads_counts_whole_texts_alone(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=64)
    counter = counter_for("file:own", folder=saved(tokenizer, tmp_path, "own"))

    assert counter.count("a") == 1
    assert counter.count("Anna " * 50) >= 50


def test_a_message_is_framed_as_templates_of_local_models_do(folder: Path) -> None:
    counter = counter_for("file:own", "gpt-4.1-mini", folder)
    message = {"role": "user", "content": TEXT[0]}
    text = counter.count("user") + counter.count(TEXT[0])

    assert count_message(counter, message) == 6 + text
    assert CountedOnce(counter).count_messages([message]) == 6 + text


def test_the_basis_names_the_file_and_what_was_in_it(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    saved(byte_level(300), other, "own")
    first, second = (counter_for("file:own", "o3", at).basis for at in (folder, other))

    assert first.startswith("file:own@")
    assert first.endswith("/2/o3")
    assert first != second


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("file:absent", r"absent\.json in the workers' TURNMILL_TOKENIZER_DIR cannot be read"),
        ("file:broken", r"broken\.json is no tokenizer\.json"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(folder: Path, encoding: str, why: str) -> None:
    (folder / "broken.json").write_text('{"model": "of the user"}')

    with pytest.raises(UnknownEncoding, match=why) as raised:
        counter_for(encoding, folder=folder)
    assert "of the user" not in str(raised.value)


def test_a_file_that_was_absent_is_read_once_it_is_there(folder: Path) -> None:
    with pytest.raises(UnknownEncoding):
        counter_for("file:late", folder=folder)
    saved(byte_level(), folder, "late")

    assert counter_for("file:late", folder=folder).count("a") == 1


def test_without_a_folder_the_error_names_the_setting() -> None:
    with pytest.raises(UnknownEncoding, match="TURNMILL_TOKENIZER_DIR is not set"):
        counter_for("file:own")


def test_without_the_library_the_error_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    saved(byte_level(), folder, "fresh")

    with pytest.raises(UnknownEncoding, match="extra tokenizers"):
        counter_for("file:fresh", folder=folder)


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


def test_common_kinds_of_tokenizers_are_taken(tmp_path: Path) -> None:
    split = pre_tokenizers.Split("a", "isolated")
    parts = [split, BYTES(add_prefix_space=False, use_regex=False)]
    made = {
        "llama3": _with(byte_level(), pre_tokenizer=pre_tokenizers.Sequence(parts)),
        "qwen": byte_level(form="NFC"),
        "llama2": byte_fallback(),
        "mistral": _with(
            byte_fallback(), normalizer=None, pre_tokenizer=pre_tokenizers.Metaspace()
        ),
        "gemma": _with(
            byte_fallback(),
            normalizer=normalizers.Replace(" ", SPACE),
            pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
        ),
    }

    for name, tokenizer in made.items():
        assert counter_for(f"file:{name}", folder=saved(tokenizer, tmp_path, name)).count("ab") > 0
