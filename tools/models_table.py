"""Writes the table of models in the package from genai-prices; with ``--check`` only compares.

A model's window is genai-prices'. What follows from its provider is in ``FAMILIES``: whose tokens
are like those of which encoding, how many of them there are for one of it, and what of the window
its longest replies take.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from genai_prices.data_snapshot import get_snapshot

from turnmill.contract.image_tokens import FORMULAS

TABLE: Final = Path(__file__).parents[1] / "producer" / "turnmill" / "contract" / "models.json"


class Family(NamedTuple):
    """Models of one provider that share a tokenizer.

    Attributes:
        ratio: the model's tokens for one of the encoding, on the safe side, until usage tells.
        reply: tokens of the window set apart for a reply; at most a third of it.
    """

    provider: str
    names: str
    encoding: str = "o200k_base"
    ratio: float = 1.0
    reply: int = 32_000


FAMILIES: Final = (
    Family("openai", r"gpt-oss-", "o200k_harmony"),
    Family("openai", r"gpt-(4|4-32k|4-turbo|3\.5-turbo)$", "cl100k_base", reply=4_096),
    Family("openai", r"gpt-4", reply=16_384),
    # The input of a 400,000 window may have 272,000 (OpenAI's pages of the models).
    Family("openai", r"gpt-[5-9]", reply=128_000),
    Family("openai", r"o\d", reply=100_000),
    # Up to 1.3 tokens for one of GPT-4o's on code; another 1.35 in the tokenizer since Opus 4.7.
    Family("anthropic", r"claude-(3|opus-4-[0-6]$|sonnet-4-|haiku-4-)", ratio=1.35),
    Family("anthropic", r"claude-[a-z]", ratio=1.8),
    # No provider publishes a number; others measured 0.9 to 1.25 on English and code.
    Family("google", r"gemini-", ratio=1.3),
    Family("mistral", r"(codestral|devstral|magistral|ministral|mistral)-", ratio=1.3),
    Family("deepseek", r"deepseek-", ratio=1.3),
    Family("x-ai", r"grok-", ratio=1.3),
    Family("moonshotai", r"kimi-", ratio=1.3),
)

NO_CHAT: Final = re.compile(
    r"embed|tts|audio|realtime|transcri|image|ocr|live|instruct|vision|voice|search|saba|cyber|:"
)
LEAST_WINDOW: Final = 8_000


def main(*options: str) -> int:
    """Write or check; returns the exit code."""
    text = written()
    if "--check" in options:
        if TABLE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TABLE.name} is not what genai-prices says: run `make pages`")
        return 1
    TABLE.write_text(text, encoding="utf-8")
    return 0


def written() -> str:
    """The table, a model a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each model's name and what is known about it."""
    for provider in get_snapshot().providers:
        for model in provider.models:
            window = model.context_window or 0
            family = family_of(provider.id, model.id)
            if family is None or model.deprecated or window < LEAST_WINDOW:
                continue
            yield (
                model.id.removesuffix("-latest"),
                {
                    "window": window,
                    "reply": min(family.reply, window // 3),
                    "encoding": family.encoding,
                    "ratio": family.ratio,
                    **({"image_formula": model.id} if model.id in FORMULAS else {}),
                },
            )


def family_of(provider: str, model: str) -> Family | None:
    """The first that has the model; None for one that does not chat."""
    if NO_CHAT.search(model):
        return None
    ours = (each for each in FAMILIES if each.provider == provider)
    return next((each for each in ours if re.match(each.names, model)), None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
