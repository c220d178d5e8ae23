"""Exact counts by a ``tokenizer.json`` from the operator's folder, as models come with it.

Only tokenizers that have a bound by bytes are used: no text has more tokens than bytes, and one.
Agents weigh turns that nobody has counted by their bytes (``contract.encodings.bound_by_bytes``).
That holds where each token stands for a byte or more of the text:

- byte-level BPE (GPT-2, Llama 3, Qwen): the text's bytes, as one character each, are merged;
- BPE with byte fallback (Llama 2, Mistral, Gemma): characters are merged, and a character that the
  vocabulary lacks becomes its bytes.

Steps before may split the text, take something away or put one character before it, but not write
it longer. Others are refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnmill.contract.errors import UnknownEncoding
from turnmill.contract.estimate import FILE
from turnmill_worker.tokens.bpe_openai import mended
from turnmill_worker.tokens.messages import TokenCounter, basis

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_SPACE: Final = "\u2581"
"""What stands for a space where bytes are not characters."""

_SPLITS: Final = frozenset({"Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"})
_BYTES: Final = 256


def why_unbounded(tokenizer: Tokenizer) -> str:
    """Why no text is bounded by its bytes, naming what is to blame; ``""`` where it is."""
    model = tokenizer.model
    kind = type(model).__name__
    if kind != "BPE":
        return f"its model is {kind}, not BPE"
    if getattr(model, "dropout", None):
        return "its BPE has dropout, which gives another count each time"
    parts = list(_parts(tokenizer.pre_tokenizer, "pretokenizers"))
    is_fallback = bool(getattr(model, "byte_fallback", False))
    if is_fallback == any(each["type"] == "ByteLevel" for each in parts):
        return "its BPE must be byte-level or fall back to bytes, one of the two"
    steps = [_why_longer(each, tokenizer) for each in _parts(tokenizer.normalizer, "normalizers")]
    steps += [_why_split(each, tokenizer, at) for at, each in enumerate(parts)]
    return next(filter(None, steps), "") or _why_added(tokenizer, is_fallback=is_fallback)


def _parts(step: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """The step's parts in order."""
    waiting = [] if step is None else [json.loads(step.__getstate__())]
    while waiting:
        part = waiting.pop(0)
        if part["type"] == "Sequence":
            waiting[:0] = part[name]
        else:
            yield part


def _why_longer(part: Mapping[str, Any], tokenizer: Tokenizer) -> str:
    match part:
        case {"type": "NFC"}:
            return ""
        case {"type": "Prepend", "prepend": str(put)} if _is_one(put, tokenizer):
            return ""
        case {"type": "Replace", "pattern": {"String": " "}, "content": str(put)}:
            return "" if _is_one(put, tokenizer) else "its spaces become several tokens"
    return f"its normalizer {part['type']} may write text longer"


def _why_split(part: Mapping[str, Any], tokenizer: Tokenizer, at: int) -> str:
    match part:
        case {"type": str(kind)} if kind in _SPLITS:
            return ""
        case {"type": "ByteLevel", "add_prefix_space": bool(adds)} if not (adds and at):
            return ""
        case {"type": "Metaspace", "replacement": str(put)} if not at and _is_one(put, tokenizer):
            return ""
    return f"its pre-tokenizer {part['type']} may write text longer"


def _is_one(put: str, tokenizer: Tokenizer) -> bool:
    return len(put) == 1 and tokenizer.token_to_id(put) is not None


def _why_added(tokenizer: Tokenizer, *, is_fallback: bool) -> str:
    """What is put before a text is put before each part that an added token leaves, too."""
    added = tokenizer.get_added_tokens_decoder().values()
    short = [each for each in added if not each.special and len(each.content.encode()) < 2]  # noqa: PLR2004
    if short:
        return "it has an added token of one byte"
    vocabulary = tokenizer.get_vocab()
    if is_fallback and not all(f"<0x{byte:02X}>" in vocabulary for byte in range(_BYTES)):
        return "it falls back to bytes that its vocabulary lacks"
    return ""


if TYPE_CHECKING:
    from tokenizers import Tokenizer


class FileCounter(TokenCounter):
    """Counts text with a tokenizer of a file; special tokens in the text are text.

    Chat templates write other tokens around a message than OpenAI's three: by those published,
    Llama 3, Qwen and Gemma write 4 beside the role, and Mistral's first 8 for a question with its
    answer. So 6 is a guess on the safe side.
    """

    framing = 6

    def __init__(self, name: str, folder: Path | None) -> None:
        """Load ``NAME.json`` from the folder: some tenths of a second, once per process.

        Raises:
            UnknownEncoding: there is no such file here, or it cannot be used; says why.
        """
        body = _body(name, folder)
        self._tokenizer = _loaded(name, body)
        self._basis = basis(f"{FILE}{name}@{hashlib.sha256(body).hexdigest()[:8]}")

    @property
    def basis(self) -> str:
        """The file's name and contents, and the formula version: another file counts anew."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the exact number of tokens in `text`; never raises, whatever the text."""
        try:
            return len(self._tokenizer.encode(text, add_special_tokens=False))
        except TypeError:  # lone surrogates
            return len(self._tokenizer.encode(mended(text), add_special_tokens=False))


def _body(name: str, folder: Path | None) -> bytes:
    if folder is None:
        raise _unknown(name, "the workers' TURNMILL_TOKENIZER_DIR is not set")
    try:
        return (folder / f"{name}.json").read_bytes()
    except OSError as error:
        why = f"{name}.json in the workers' TURNMILL_TOKENIZER_DIR cannot be read"
        raise _unknown(name, f"{why} ({error.strerror})") from None


def _loaded(name: str, body: bytes) -> Tokenizer:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
    except ImportError:
        raise _unknown(name, "the worker lacks the package tokenizers (extra tokenizers)") from None
    try:
        tokenizer = Tokenizer.from_buffer(body)
    # The library raises plain exceptions, whose words may quote the file.
    except Exception:  # noqa: BLE001
        raise _unknown(name, f"{name}.json is no tokenizer.json that it can read") from None
    if why := why_unbounded(tokenizer):
        raise _unknown(name, f"no bound by bytes holds for its tokens: {why}")
    # Files carry what suits training: each text is counted whole, and alone.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _unknown(name: str, why: str) -> UnknownEncoding:
    return UnknownEncoding(f"encoding {FILE}{name}: {why}")
