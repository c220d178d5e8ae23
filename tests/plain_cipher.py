"""A cipher for tests without a package for it: refuses what was altered or moved."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from turnmill import Cipher

KEY = b"of nothing that anybody keeps"
NONCE_BYTES = 16


def _encrypt(data: bytes, place: bytes) -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    hidden = _mixed(data, nonce)
    return nonce + _mark(nonce + hidden, place) + hidden


def _decrypt(stored: bytes, place: bytes) -> bytes:
    nonce, hidden = stored[:NONCE_BYTES], stored[NONCE_BYTES + 32 :]
    if _mark(nonce + hidden, place) != stored[NONCE_BYTES : NONCE_BYTES + 32]:
        raise ValueError("altered, or moved")
    return _mixed(hidden, nonce)


def _mixed(data: bytes, nonce: bytes) -> bytes:
    stream = hashlib.shake_256(KEY + nonce).digest(len(data))
    return bytes(a ^ b for a, b in zip(data, stream, strict=True))


def _mark(data: bytes, place: bytes) -> bytes:
    return hmac.digest(KEY, place + b"\0" + data, "sha256")


cipher = Cipher(encrypt=_encrypt, decrypt=_decrypt)
