"""What a chat message costs in tokens.

The formula, version 2. A message costs the sum of

    3                                   framing (OpenAI cookbook, "How to count tokens": gpt-4o);
                                        6 where a file's tokenizer counts, see `tokenizer_files`
    tokens(role)
    tokens(content)                     a string; or each part by its kind; or nothing for null
    tokens(name) + 1                    when there is a name (cookbook)
    tokens(tool_call_id) + 1            when there is one
    8 + tokens(id) + tokens(name) + tokens(arguments)    per tool call, custom calls alike
    tokens(JSON of the value) + tokens(field) + 1        per field we do not know

and a list of messages costs 3 more, which prime the reply. Providers publish no formula for tool
calls: a call costs its name, its arguments and some framing, and 8 and the id keep us above what
OpenAI reports for it. An image costs `images.image_tokens`, by its size and the formula the
counter's basis names; sound and files are weighed by size. Base64 is never counted as text.
Change any of it: raise `formula.FORMULA_VERSION`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from turnmill.contract.estimate import Counter
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS, part_tokens

FORMULA_VERSION: Final = 2
"""Raised whenever `messages` or `images` changes what a message costs: old counts then go stale."""


def basis(name: str, images: str = DEFAULT_FORMULA) -> str:
    """Name what a count is made with: vocabulary, message formula, images' formula.

    Such as `o200k_base/2/gpt-4o`; the last is a key of `FORMULAS`.
    """
    return f"{name}/{FORMULA_VERSION}/{images}"


def image_formula(basis: str) -> str:
    """Return the images' formula a basis names; the default where it names none."""
    named = basis.rpartition("/")[2]
    return named if named in FORMULAS else DEFAULT_FORMULA


def image_tokens(part: Mapping[str, Any], basis: str) -> int:
    """Return the tokens of one `image_url` part, by the formula that `basis` names.

    The size comes from the part's reference or from the first bytes of its data URL; an image
    whose size is unknown costs the formula's most.
    """
    return part_tokens(part, FORMULAS[image_formula(basis)])


REPLY_TOKENS: Final = 3
"""Every reply is primed with `<|start|>assistant<|message|>` (OpenAI cookbook)."""

_FIELD_TOKENS: Final = 1
_CALL_TOKENS: Final = 8
_PART_TOKENS: Final = 1
_ATTACHMENT_TOKENS: Final = 16
# Sound costs 10 tokens a second; speech is rarely packed below 2 KB a second, or 270 base64
# characters per token. 100 leaves room, and for files too.
_ATTACHMENT_CHARS_PER_TOKEN: Final = 100
_SENTENCE_CHARS: Final = 240
_LINE_CHARS: Final = 1024
_KNOWN: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})


class TokenCounter(ABC):
    """Counts tokens of text, and of messages by the formula; its basis says with what."""

    framing: int = 3
    """Tokens around each message."""

    splits_lines: bool = False
    """Whether no token reaches over a line's end, but where a space or a slash is behind it."""

    @property
    @abstractmethod
    def basis(self) -> str:
        """What counts are made with: `<vocabulary or heuristic>/<version>/<images' formula>`."""

    @abstractmethod
    def count(self, text: str) -> int:
        """Return the tokens of `text`: linear in its length, never raises, special tokens as text.

        Whether that is exact or near is what `basis` says.
        """

    def count_messages(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Return the tokens of the messages, without the reply's opening."""
        tokens = 0
        for message in messages:
            tokens += count_message(self, message)
        return tokens


class CountedOnce(TokenCounter):
    """One job's counter: a text that plan, prompt and context show is counted once.

    A sentence or a line is counted once in a process, as far as it is remembered: each compaction
    weighs all that earlier ones kept, and shows most of it again.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.framing = counter.framing
        self._by_lines = isinstance(counter, TokenCounter) and counter.splits_lines
        self._known: dict[str, int] = {}

    @property
    def basis(self) -> str:
        """The counter's."""
        return self._counter.basis

    def count(self, text: str) -> int:
        """Return the tokens of `text`, as the counter says."""
        if len(text) <= _SENTENCE_CHARS:
            return _count_sentence(self._counter, text)
        tokens = self._known.get(text)
        if tokens is None:
            parts = _lines(text) if self._by_lines else (text,)
            tokens = self._known[text] = sum(map(self._of_line, parts))
        return tokens

    def _of_line(self, line: str) -> int:
        if len(line) <= _SENTENCE_CHARS:
            return _count_sentence(self._counter, line)
        if len(line) <= _LINE_CHARS:
            return _count_line(self._counter, line)
        tokens = self._known.get(line)
        if tokens is None:
            tokens = self._known[line] = self._counter.count(line)
        return tokens


@lru_cache(maxsize=1 << 15)
def _count_sentence(counter: Counter, text: str) -> int:
    return counter.count(text)


@lru_cache(maxsize=1 << 13)
def _count_line(counter: Counter, text: str) -> int:
    return counter.count(text)


def _lines(text: str) -> Iterator[str]:
    """The text's lines, each with its end, and with those that tokens may join to it."""
    first, *others = text.split("\n")
    held = [first]
    for line in others:
        if line and line[0] != "/" and not line[0].isspace():
            yield "\n".join([*held, ""])
            held.clear()
        held.append(line)
    yield "\n".join(held)


def count_request(counter: TokenCounter, messages: Iterable[Mapping[str, Any]]) -> int:
    """Return the tokens of a request made of `messages`, reply priming included."""
    return REPLY_TOKENS + counter.count_messages(messages)


def count_message(counter: TokenCounter, message: Mapping[str, Any]) -> int:
    """Return the tokens of one OpenAI chat message, by the formula above.

    Linear in the message's size; never below the OpenAI cookbook's number. Reads what it gets: a
    field of an unexpected type is counted as the text of its JSON, and null fields cost nothing.
    """
    tokens = counter.framing + _text(counter, message.get("role"))
    tokens += _content(counter, message.get("content"))
    for field in ("name", "tool_call_id"):
        if message.get(field) is not None:
            tokens += _text(counter, message[field]) + _FIELD_TOKENS
    tokens += _calls(counter, message.get("tool_calls"))
    return tokens + _others(counter, message, _KNOWN)


def _content(counter: TokenCounter, content: object) -> int:
    if not isinstance(content, list):
        return _text(counter, content)
    return sum(_part(counter, part) for part in content)


def _part(counter: TokenCounter, part: object) -> int:
    """Return the tokens of one content part by its kind; of an unknown kind, those of its JSON."""
    if not isinstance(part, Mapping):
        return _PART_TOKENS + _text(counter, part)
    match part.get("type"):
        case "text" | "refusal" as kind:
            known, tokens = {"type", kind}, _text(counter, part.get(kind))
        case "image_url":
            known, tokens = {"type", "image_url", "detail"}, image_tokens(part, counter.basis)
        case "input_audio" | "file" as kind:
            known, tokens = {"type", kind}, _attachment(counter, part.get(kind))
        case _:
            return _PART_TOKENS + _text(counter, part)
    return _PART_TOKENS + tokens + _others(counter, part, known)


def _attachment(counter: TokenCounter, value: object) -> int:
    """Return the tokens of a sound or a file: by its size where carried inline, by name if not."""
    if not isinstance(value, Mapping):
        return _ATTACHMENT_TOKENS + _text(counter, value)
    tokens = _ATTACHMENT_TOKENS + _others(counter, value, {"data", "file_data"})
    for field in ("data", "file_data"):
        carried = value.get(field)
        if isinstance(carried, str):
            tokens += -(-len(carried) // _ATTACHMENT_CHARS_PER_TOKEN)
        else:
            tokens += _text(counter, carried)
    return tokens


def _calls(counter: TokenCounter, calls: object) -> int:
    if not isinstance(calls, list):
        return _text(counter, calls)
    return sum(_call(counter, call) for call in calls)


def _call(counter: TokenCounter, call: object) -> int:
    """Return the tokens of one tool call: `function` with arguments, or `custom` with input."""
    if not isinstance(call, Mapping):
        return _CALL_TOKENS + _text(counter, call)
    tokens = _CALL_TOKENS + _text(counter, call.get("id"))
    for kind in ("function", "custom"):
        body = call.get(kind)
        if not isinstance(body, Mapping):
            tokens += _text(counter, body)
            continue
        said = {"name", "arguments", "input"}
        tokens += sum(_text(counter, body.get(field)) for field in said)
        tokens += _others(counter, body, said)
    return tokens + _others(counter, call, {"id", "type", "function", "custom"})


def _others(counter: TokenCounter, value: Mapping[str, Any], known: Iterable[str]) -> int:
    """Return the tokens of the fields not in `known`, each as its name and the text of its JSON."""
    return sum(
        _text(counter, field) + _text(counter, value[field]) + _FIELD_TOKENS
        for field in value.keys() - known
        if value[field] is not None
    )


def _text(counter: TokenCounter, value: object) -> int:
    """Return the tokens of a string, or of the JSON of anything else; null costs nothing."""
    if value is None:
        return 0
    if isinstance(value, str):
        return counter.count(value)
    return counter.count(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
