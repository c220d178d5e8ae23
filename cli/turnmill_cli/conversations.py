"""Conversations from JSONL files, checked when they are loaded: a replay can rely on them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from turnmill.contract.context import JsonMessage
from turnmill.contract.errors import InvalidTurn
from turnmill.contract.turns import encode_turn, to_turn
from turnmill.push.turn_builders import image_url
from turnmill_cli.output import WrongUsage

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS = 100


class BadInput(WrongUsage):
    """A file cannot be read as conversations; names the file and the line, never the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session to replay.

    Attributes:
        name: a session name, unique among those numbered together.
        system_prompt: the first message's text when its role is system, else ``""``.
        messages: all others, one turn each.
    """

    name: str
    system_prompt: str
    messages: tuple[JsonMessage, ...]


def load(paths: Iterable[Path]) -> Iterator[Conversation]:
    """Yield the files' conversations, in order.

    A line is a JSON object with ``messages`` and, optionally, ``session_id``; blank lines are
    skipped, and a name ending in ``.gz`` is unpacked. An image at ``file://<path>`` is read from
    below the file's own folder.

    Raises:
        BadInput: names the file, the line, and what is wrong there.
    """
    for path in paths:
        for line, text in json_lines(path):
            try:
                yield _conversation(text, default_name=f"line-{line}", folder=path.parent)
            except ValueError as error:
                raise BadInput(f"{path}:{line}: {error}") from None


def numbered(found: Iterable[Conversation], *, limit: int | None = None) -> list[Conversation]:
    """The first ``limit`` conversations, each under a name of its own."""
    several = list(islice(found, limit))
    width = len(str(len(several)))
    return [
        replace(conversation, name=f"{at:0{width}}-{conversation.name}")
        for at, conversation in enumerate(several, 1)
    ]


def json_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The file's lines that are not blank, with their numbers; ``.gz`` is unpacked.

    Raises:
        BadInput: names the file, and the line if it is one line's fault.
    """
    line = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line, raw in enumerate(file, 1):
                if raw.strip():
                    yield line, raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{path}:{line}: not UTF-8") from None
    except EOFError:
        raise BadInput(f"{path}:{line + 1}: the compressed file ends too early") from None
    except OSError as error:  # a bad gzip header is one too
        raise BadInput(f"{path}: {error.strerror or 'not a gzip file'}") from None


def _conversation(text: str, *, default_name: str, folder: Path) -> Conversation:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise ValueError("not an object with a list of `messages`")  # noqa: TRY004 - one kind for all
    name = value.get("session_id")
    prompt, messages = _split(value["messages"])
    for at, message in enumerate(messages, len(value["messages"]) - len(messages)):
        _check(at, message)
        for part in _images(message):
            part["image_url"]["url"] = _inline(at, part["image_url"]["url"], folder)
    return Conversation(
        name=_NOT_IN_NAMES.sub("-", name if isinstance(name, str) else default_name)[
            :_NAME_CHARACTERS
        ],
        system_prompt=prompt,
        messages=tuple(messages),
    )


def _split(messages: Sequence[Any]) -> tuple[str, list[Any]]:
    """The system prompt, when the first message is one of plain text, and the other messages."""
    first = messages[0] if messages else None
    if isinstance(first, Mapping) and first.get("role") == "system":
        content = first.get("content")
        if isinstance(content, str) and set(first) == {"role", "content"}:
            return content, list(messages[1:])
    return "", list(messages)


def _check(at: int, message: object) -> None:
    if not isinstance(message, dict):
        raise ValueError(f"messages[{at}]: not an object")  # noqa: TRY004 - one kind for all
    try:
        encode_turn(to_turn(message))
    except InvalidTurn as error:
        # The turn is that message alone; its place here is another one in the file's list.
        where = str(error).removeprefix("messages[0]")
        raise ValueError(f"messages[{at}]{'' if where != str(error) else ': '}{where}") from None


def _images(message: JsonMessage) -> Iterator[dict[str, Any]]:
    """The message's images whose URL names a file, not by an absolute path."""
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if part.get("type") == "image_url":
            url = part["image_url"]["url"]
            if url.startswith("file://") and not url.startswith("file:///"):
                yield part


def _inline(at: int, url: str, folder: Path) -> str:
    # A recording is somebody else's file: it must not get hold of what lies elsewhere.
    path = (folder / unquote(url.removeprefix("file://"))).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"messages[{at}]: an image's file lies outside the recording's folder")
    try:
        return image_url(path)
    except InvalidTurn as error:
        raise ValueError(f"messages[{at}]: {error}") from None
