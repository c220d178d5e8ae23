"""Content that is stored encrypted: what is sealed before it leaves, and opened when it is back.

Whoever builds a command marks content as ``Secret``. Without a cipher that changes nothing. With
one, each such word is replaced by a mark, and by what the cipher makes of it together with the name
of the place it is for: the keys of its session, or the key of an image. A reply's words that begin
with the mark are opened with the place of the command that asked. So a value that was moved to
another session, or altered, is refused. Words without the mark are read as they are: what was
stored before there was a cipher stays readable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnmill.contract.codec import decode_json
from turnmill.contract.errors import CannotDecrypt

MARK: Final = b"\xf5\x01sealed1:"
"""Begins with a byte that no UTF-8 has, and so no text of a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cipher:
    """What encrypts content, given to every client and worker that reads it.

    Attributes:
        encrypt: bytes and the name of their place to bytes that only ``decrypt`` understands.
        decrypt: the way back, with the same place; raises whatever it likes if it cannot.
    """

    encrypt: Callable[[bytes, bytes], bytes]
    decrypt: Callable[[bytes, bytes], bytes]


class Secret(bytes):
    """Content among the words of a command; ``place`` if it is not that of the command's keys."""

    place: str = ""

    @classmethod
    def at(cls, place: str, data: bytes) -> Secret:
        """Content for this place."""
        made = cls(data)
        made.place = place
        return made


class Digest(bytes):
    """Of all content among a command's words, whatever else is made of it.

    Whoever knows the digest can try what it may be of. So with a cipher it is of what is stored.
    """

    @classmethod
    def of(cls, *contents: bytes) -> Digest:
        """The digest; quick, and the same for the same."""
        return cls(hashlib.sha256(b"\0".join(contents)).hexdigest().encode())


class Fingerprint(bytes):
    """Seven hexadecimal digits of a digest of messages, for Redis to compare them; or ``b""``.

    With a cipher there is none: it would tell whoever guesses what they are.
    """

    @classmethod
    def of(cls, messages: bytes) -> Fingerprint:
        """The same for the same messages, whatever the order of their fields."""
        said = json.dumps(decode_json(messages), sort_keys=True)
        return cls(hashlib.sha256(said.encode()).hexdigest()[:7].encode())


def seal(cipher: Cipher, data: bytes, place: str) -> bytes:
    """The content as it is stored."""
    return MARK + cipher.encrypt(bytes(data), place.encode())


def sealed(cipher: Cipher, command: Sequence[str | bytes | int]) -> tuple[str | bytes | int, ...]:
    """The command with its secrets sealed."""
    if not any(isinstance(word, Secret) for word in command):
        return tuple(command)
    place = place_of(command)
    words: list[str | bytes | int] = []
    stored: list[bytes] = []
    for word in command:
        made = word
        if isinstance(word, Secret):
            made = seal(cipher, word, word.place or place) if word else word
            stored.append(made)
        words.append(made)
    digest, content = Digest.of(*stored), Fingerprint()
    return tuple(
        digest if isinstance(word, Digest) else content if isinstance(word, Fingerprint) else word
        for word in words
    )


def opened(cipher: Cipher | None, found: Any, place: str) -> Any:
    """What was found, however deep, with all that is sealed in it opened.

    Raises:
        CannotDecrypt: there is no cipher, or this one cannot.
    """
    match found:
        case bytes():
            return _opened(cipher, found, place) if found.startswith(MARK) else found
        case list() | tuple():
            return [opened(cipher, each, place) for each in found]
        case dict():
            return {key: opened(cipher, value, place) for key, value in found.items()}
    return found


def check_plain(*values: bytes | None) -> None:
    """Nothing, if none of the values is sealed: to tell a missing cipher from a damaged value.

    Raises:
        CannotDecrypt: one is.
    """
    for value in values:
        if value is not None and value.startswith(MARK):
            _opened(None, value, "")


def text_of(value: bytes | None) -> str:
    """The text, ``""`` for none.

    Raises:
        CannotDecrypt: it is sealed.
        UnicodeDecodeError: it is no text.
    """
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        check_plain(value)
        raise


def place_of(command: Sequence[str | bytes | int]) -> str:
    """What a command's values are bound to: its session, its image, or its namespace's shard."""
    is_script = command[0] in ("EVAL", "EVALSHA")
    keys = command[3 : 3 + int(command[2])] if is_script else command[1:2]
    names = [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
    own = next((name for name in names if "}:s:" in name), "")
    if own:
        return own.rpartition(":")[0]
    first = names[0] if names else ""
    return first if "}:blob:" in first else first.partition("}")[0]


def _opened(cipher: Cipher | None, value: bytes, place: str) -> bytes:
    if cipher is None:
        raise CannotDecrypt("stored content is encrypted, and no cipher is set here")
    try:
        return cipher.decrypt(value[len(MARK) :], place.encode())
    except Exception as error:  # noqa: BLE001 - whatever somebody else's cipher raises
        # Not chained: it may hold what it was given.
        kind = type(error).__name__
        raise CannotDecrypt(f"the cipher cannot read what is stored ({kind}): its key?") from None
