"""bpe-openai's wheel, without importing its package.

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
