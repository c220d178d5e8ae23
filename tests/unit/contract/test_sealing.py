"""What a cipher makes of a command's words."""

from __future__ import annotations

import pytest

from tests.plain_cipher import cipher
from turnmill.client.commands import Commands
from turnmill.contract.errors import CannotDecrypt
from turnmill.contract.formats import readable
from turnmill.contract.log_entry import decode_turns
from turnmill.contract.sealing import MARK, Digest, sealed


def push(content: str) -> tuple[str | bytes | int, ...]:
    turn = {"role": "user", "content": content}
    made = Commands.of("shop", 1000, 1000).push("s", turn, "t", new_id=str)
    return ("EVALSHA", made.call.script.sha, *made.call.words)


def digest_of(words: tuple[str | bytes | int, ...]) -> Digest:
    [found] = [word for word in words if isinstance(word, Digest)]
    return found


def test_the_digest_of_a_turn_is_of_what_is_stored_and_so_tells_nobody_what_it_may_be() -> None:
    plain, one, other = push("guess"), sealed(cipher, push("guess")), sealed(cipher, push("guess"))

    assert digest_of(plain) == digest_of(push("guess")) != digest_of(push("other"))
    assert len({digest_of(words) for words in (plain, one, other)}) == 3
    stored = [word for word in one if isinstance(word, bytes) and word.startswith(MARK)]
    assert digest_of(one) == Digest.of(*stored, b"")  # it has no fields
    assert not any(b"guess" in word for word in one if isinstance(word, bytes))


def test_whoever_lacks_the_cipher_is_told_and_nothing_is_called_corrupt() -> None:
    body = MARK + cipher.encrypt(b'{"format":"9.0"}', b"")

    for read in (lambda: decode_turns([body]), lambda: readable(body, "stored context")):
        with pytest.raises(CannotDecrypt, match="no cipher"):
            read()
