"""Tokenizers as models come with, made on the spot: small ones, and the worst there are."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

TEXT = (
    "Parcel 12 goes to street 84, said Anna on day 3, not to the shop in room 7.",
    "def main() -> None: return {'a': [1, 2, 3], \"b\": None}",
    "Größe, naïve, Ελλάδα, 日本語, 👩‍🚀, and so on; see https://example.org/x?y=1.",
)


def byte_level(size: int = 400, *, prefix: bool = False, form: str = "") -> Tokenizer:
    """Byte-level BPE, trained on a few sentences, with a special token and an added one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if form:
        tokenizer.normalizer = getattr(normalizers, form)()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for text in TEXT for _ in range(20)], trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer


def byte_fallback() -> Tokenizer:
    """BPE that knows three letters and no merges; all else falls back to bytes."""
    known = ["<unk>", "\u2581", "a", "b", "c", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {token: at for at, token in enumerate(known)}
    model = models.BPE(vocabulary, [], byte_fallback=True, fuse_unk=True)
    model.unk_token = known[0]
    tokenizer = Tokenizer(model)
    put, replace = normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")
    tokenizer.normalizer = normalizers.Sequence([put, replace])
    return tokenizer


def worst() -> list[Tokenizer]:
    """Tokenizers without a merge: a token for each byte, and one before each text."""
    return [byte_level(257, prefix=True, form="NFC"), byte_level(257, form="NFC"), byte_fallback()]


WORST = worst()


def saved(tokenizer: Tokenizer, folder: Path, name: str) -> Path:
    """The folder, with the tokenizer in it."""
    tokenizer.save(str(folder / f"{name}.json"))
    return folder
