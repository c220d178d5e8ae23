"""Content encrypted with AES-GCM before it is stored, with keys that can be rotated.

Agents: ``ContextClient(…, cipher=aes_gcm_cipher.cipher)``. Workers and commands, with this file on
their path: ``TURNMILL_CIPHER=aes_gcm_cipher:cipher``. All of them read the keys from the JSON file
that ``CIPHER_KEYS_FILE`` names, and read it again when it has changed:

    {"current": "2026-11", "keys": {"2026-11": "<32 random bytes, base64>"}}

To rotate: add a key to the file everywhere; then name it as current everywhere; take the old one
out when nothing is stored under it any more. Needs the package ``cryptography``.
"""

from __future__ import annotations

import base64
import json
import os
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from turnmill import Cipher

NONCE_BYTES = 12


def encrypt(data: bytes, place: bytes) -> bytes:
    """The current key's id, a fresh nonce, and the content bound to its place."""
    current, keys = _keys(*_version())
    name = current.encode()
    nonce = os.urandom(NONCE_BYTES)
    head = bytes([len(name)]) + name + nonce
    return head + keys[current].encrypt(nonce, data, head + place)


def decrypt(sealed: bytes, place: bytes) -> bytes:
    """The content; raises if it was altered or moved, or its key is not in the file."""
    start = 1 + sealed[0]
    end = start + NONCE_BYTES
    _, keys = _keys(*_version())
    key = keys[sealed[1:start].decode()]
    return key.decrypt(sealed[start:end], sealed[end:], sealed[:end] + place)


def _version() -> tuple[str, int]:
    file = os.environ["CIPHER_KEYS_FILE"]
    return file, Path(file).stat().st_mtime_ns


@lru_cache(maxsize=1)
def _keys(file: str, _changed_ns: int) -> tuple[str, dict[str, AESGCM]]:
    told = json.loads(Path(file).read_text(encoding="utf-8"))
    keys = {name: AESGCM(base64.b64decode(key)) for name, key in told["keys"].items()}
    return told["current"], keys


cipher = Cipher(encrypt=encrypt, decrypt=decrypt)
