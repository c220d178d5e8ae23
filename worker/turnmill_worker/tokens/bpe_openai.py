"""Exact counts by bpe-openai: tiktoken's numbers, in linear time on any input, offline.

tiktoken merges a run of one character in time that grows faster than its length; bpe-openai does
not, and its wheel carries the vocabularies, so it is the first choice wherever it has the encoding.

`import bpe_openai` builds Python dictionaries of all three vocabularies, which nothing here needs:
1 s and 70 MB per process beside the 0.1 s and 65 MB of the Rust tokenizer, and on Python 3.11 and
3.12 a DeprecationWarning. So its compiled module is loaded, and its data read, by path.
"""

from __future__ import annotations

import gzip
import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from turnmill_worker.tokens.messages import TokenCounter, basis


def vocabulary(file: str) -> bytes:
    """Return OpenAI's vocabulary `file`, such as `o200k_base.tiktoken`, as OpenAI publishes it.

    Raises ImportError when bpe-openai is not installed, OSError when it does not carry the file.
    """
    return gzip.decompress((Path(_folders()[0]) / "data" / f"{file}.gz").read_bytes())


def bindings() -> ModuleType:
    """Return bpe-openai's compiled module. Raises ImportError when it is not installed."""
    name = "bpe_openai._bindings"
    spec = importlib.machinery.PathFinder.find_spec(name, _folders())
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not installed", name=name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _folders() -> list[str]:
    # Finding a top-level package does not import it.
    try:
        spec = importlib.util.find_spec("bpe_openai")
    except ValueError:  # the module was put in sys.modules without a spec, or as None
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("bpe-openai is not installed", name="bpe_openai")
    return list(spec.submodule_search_locations)


def mended(text: str) -> str:
    """Return `text` as valid Unicode: surrogate pairs joined, lone surrogates become U+FFFD.

    This is what tiktoken does with such text (`Encoding.encode`), so counts stay identical.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


if TYPE_CHECKING:
    from collections.abc import Callable

# o200k_harmony is o200k_base with more special tokens, and here those are counted as plain text.
_SAME_TEXT_COUNTS = {"o200k_harmony": "o200k_base"}


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


class BpeCounter(TokenCounter):
    """Counts text with bpe-openai; special tokens in the text are text."""

    splits_lines = True
    """Both vocabularies split a text before they merge, and always there."""

    def __init__(self, encoding: str) -> None:
        """Load the vocabulary of `encoding`: about 0.1 s and 65 MB, once per process.

        Raises ImportError when bpe-openai is not installed, ValueError when it lacks `encoding`.
        """
        build = cast("Callable[[str], _Tokenizer]", bindings().tokenizer_for_encoding)
        self._tokenizer = build(_SAME_TEXT_COUNTS.get(encoding, encoding))
        self._basis = basis(encoding)

    @property
    def basis(self) -> str:
        """The vocabulary and formula version; the same whichever exact library counted."""
        return self._basis

    def count(self, text: str) -> int:
        """Return the exact number of tokens in `text`; never raises, whatever the text."""
        try:
            return self._tokenizer.count(text)
        except UnicodeEncodeError:
            return self._tokenizer.count(mended(text))
