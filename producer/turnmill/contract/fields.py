"""Fields of messages, parts and calls: what providers and compatible servers take or answer.

A provider refuses a field that it does not know, at every step until the turn is covered: so a push
does. ``tests/unit/contract/test_fields.py`` holds the tables against the types of the ``openai``
and ``anthropic`` packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

OWN: Final = ("x_", "provider_")
"""What names of fields begin with that only an agent and its server know: they are kept."""

_BOTH: Final = frozenset({"native", "cache_control", "extra_content", "thought_signature"})
"""Also of compatible servers, of messages and of all in them: Gemini's, LiteLLM's, OpenRouter's."""

RESPONSES_MESSAGE: Final = frozenset({"type", "role", "content", "id", "status", "phase"})
"""``EasyInputMessageParam`` and ``ResponseOutputMessageParam``."""

ANTHROPIC_MESSAGE: Final = frozenset(
    {
        *("id", "type", "role", "content", "model", "stop_reason", "stop_sequence"),
        *("stop_details", "usage", "container", "diagnostics", "context_management"),
    }
)
"""``MessageParam``, and what an answer has beside: it is not sent again."""

MESSAGE: Final = (
    _BOTH
    | RESPONSES_MESSAGE
    | {
        # openai: ChatCompletion…MessageParam, ChatCompletionMessage, ParsedChatCompletionMessage
        *("name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"),
        *("annotations", "parsed"),
        # DeepSeek, vLLM, OpenRouter, LiteLLM, Ollama, Mistral, Moonshot, Cohere, fine-tuning
        *("reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"),
        *("images", "tool_name", "prefix", "partial", "tool_plan", "citations", "weight"),
        *("reasoning_items", "metadata"),
    }
)
PART: Final = _BOTH | {
    # openai: ChatCompletionContentPart…Param, Response(Input|Output)…Param
    *("type", "text", "image_url", "input_audio", "file", "refusal", "annotations", "logprobs"),
    *("detail", "file_data", "file_id", "file_url", "filename", "prompt_cache_breakpoint"),
    # anthropic: TextBlockParam, ImageBlockParam, DocumentBlockParam, SearchResultBlockParam
    *("source", "title", "context", "citations", "content", "transformations", "tool_name"),
    # Qwen, vLLM
    *("min_pixels", "max_pixels", "uuid"),
}
CALL: Final = _BOTH | {"id", "type", "function", "custom", "index"}
FUNCTION: Final = _BOTH | {"name", "arguments", "parsed_arguments"}

ANTHROPIC_CALL: Final = _BOTH | {"type", "id", "name", "input", "caller", "toolset_name"}
ANTHROPIC_RESULT: Final = _BOTH | {"type", "tool_use_id", "content", "is_error", "toolset_name"}
RESPONSES_CALL: Final = _BOTH | {
    *("type", "id", "call_id", "name", "arguments", "status", "caller", "namespace", "async"),
    *("input", "action", "actions", "operation", "environment", "pending_safety_checks"),
    "created_by",
}
RESPONSES_RESULT: Final = _BOTH | {
    *("type", "id", "call_id", "name", "output", "status", "caller", "namespace", "created_by"),
    *("acknowledged_safety_checks", "max_output_length"),
}

WITHIN: Final = {
    "image_url": frozenset({"url", "detail", "format", "min_pixels", "max_pixels"}),
    "input_audio": frozenset({"data", "format"}),
    "file": frozenset({"file_data", "file_id", "filename", "format", "detail", "video_metadata"}),
    "audio": frozenset({"id", "data", "expires_at", "transcript"}),
    "custom": frozenset({"name", "input"}),
    "function_call": frozenset({"name", "arguments"}),
    "source": frozenset({"type", "data", "media_type", "url", "file_id", "content"}),
    "cache_control": frozenset({"type", "ttl"}),
}
"""Of what a message, a part or a call holds; OpenAI's, Anthropic's, LiteLLM's, Qwen's."""

PARSED: Final = frozenset({"parsed", "parsed_arguments", "parsed_output"})
"""What providers' packages make of a text beside it: they do not send it, and no API takes it."""

TURN: Final = frozenset({"messages", "turn_id", "iteration", "metadata", "pinned"})

_NAME: Final = re.compile(r"[a-z][A-Za-z0-9_]{0,39}")


def wrong_in(fields: Mapping[str, object], known: frozenset[str]) -> str:
    """What is wrong, behind its place, with the first field that no provider takes; or ``""``.

    It is none of these nor an agent's own, or something in it is none of those ``WITHIN`` it.
    """
    for name, value in fields.items():
        if name in WITHIN and name in known:
            if isinstance(value, Mapping):
                if said := wrong_in(value, WITHIN[name] | _BOTH):
                    return f".{name}{said}"
            elif name == "cache_control" and value is not None:
                return f".{name}: must be an object, got {type(value).__name__}"
        elif name not in known and not name.startswith(OWN):
            return no_field(name, known)
    return ""


def no_field(name: str, known: Iterable[str], *, own: bool = True) -> str:
    """What to say of an unknown field, behind the place it is in; ``own``: where ``OWN`` are kept.

    Names it if it looks like a name: one that does not may be content.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

    names = sorted(set(known) - {"native"})
    kept = f", and what begins with {' or '.join(OWN)}" if own else ""
    allowed = f"allowed are {', '.join(names)}{kept}"
    if not _NAME.fullmatch(name):
        return f": an unknown field, its name has {len(name)} characters; {allowed}"
    if close := get_close_matches(name, {*names, *TURN}, n=1):
        where = "" if close[0] in names else ", a field of the turn, beside messages"
        allowed = f"did you mean {close[0]}{where}?"
    return f".{name}: no such field; {allowed}"
