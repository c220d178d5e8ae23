"""What clients send to Redis, as far as a proxy must know: where a command ends, and its name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from turnmill import lua as client_scripts
from turnmill.contract.scripts import load_script
from turnmill_worker.store import lua as worker_scripts

__all__ = ["commands", "session_of"]


@cache
def _scripts() -> dict[str, str]:
    """Scripts by their SHA-1."""
    found = {}
    for package in (client_scripts.__name__, worker_scripts.__name__):
        files = [file.name for file in resources.files(package).iterdir()]
        for name in sorted(file.removesuffix(".lua") for file in files if file.endswith(".lua")):
            found[load_script(package, name).sha] = name
    return found


def commands(buffer: bytes) -> Iterator[tuple[int, str]]:
    """Where each whole command in the buffer ends, and its name."""
    at = 0
    while words := _words(buffer, at):
        at, name, argument = words
        yield at, _name(name, argument)


def _words(buffer: bytes, at: int) -> tuple[int, bytes, bytes] | None:
    """The end of the command that begins here, and its first two words; None when it is cut off."""
    line = buffer.find(b"\r\n", at)
    if line < 0:
        return None
    count, at = int(buffer[at + 1 : line]), line + 2
    words: list[bytes] = []
    for _ in range(count):
        line = buffer.find(b"\r\n", at)
        if line < 0:
            return None
        start = line + 2
        at = start + int(buffer[at + 1 : line]) + 2
        if at > len(buffer):
            return None
        if len(words) < 2:
            words.append(buffer[start : at - 2])
    return at, words[0], words[1] if len(words) > 1 else b""


def session_of(command: bytes) -> str:
    """Whose keys the command names, or ``""``."""
    named = re.search(rb":s:([^:\r]+):", command)
    return named[1].decode() if named else ""


def _name(command: bytes, argument: bytes) -> str:
    if command == b"EVALSHA":
        return _scripts().get(argument.decode(), "")
    if command == b"EVAL":
        return _scripts().get(hashlib.sha1(argument, usedforsecurity=False).hexdigest(), "")
    return command.decode(errors="replace").upper()
