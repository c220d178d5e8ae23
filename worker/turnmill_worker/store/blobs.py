"""Images in Redis: taken out for the archive, released when nothing shows them, put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from turnmill.contract.sealing import Secret
from turnmill_worker.ports.records import Blob
from turnmill_worker.ports.values import SessionRef
from turnmill_worker.store.scripts import keys_of, run, translated

__all__ = ["blobs", "hold", "release"]


def blobs(client: Any, ref: SessionRef, hashes: Sequence[str]) -> list[Blob]:
    """The images of the session's shard with these sha256. One round trip."""
    prefix = keys_of(ref).blob
    with translated(), client.pipeline(transaction=False) as pipe:
        for sha256 in hashes:
            pipe.get(f"{prefix}{sha256}")
            pipe.hget(f"{prefix}{sha256}:held", "type")
        replies = pipe.execute()
    return [
        Blob(sha256=sha256, media_type=media_type.decode(), data=data)
        for sha256, data, media_type in zip(hashes, replies[::2], replies[1::2], strict=True)
        if data is not None and media_type is not None
    ]


def release(client: Any, ref: SessionRef) -> int:
    """Release every image that nothing of the session in Redis shows any more; returns how many.

    Looks at all images the session holds, not at candidates: some were shown only by a
    checkpoint, a pin or a context that is gone by now.
    """
    return int(run(client, "release_images", keys_of(ref), session=ref.session))


def hold(client: Any, ref: SessionRef, epoch: str, images: Iterable[Blob]) -> bool:
    """Let the session hold these images; False when it was forgotten meanwhile.

    A rollback calls it for images of turns that come back from the archive, just before it
    writes: the next ``release`` would release images that are held and not shown.
    """
    prefix = keys_of(ref).blob
    words = [
        word
        for blob in images
        for word in (
            blob.sha256,
            blob.media_type,
            Secret.at(f"{prefix}{blob.sha256}", blob.data),
        )
    ]
    done = run(client, "restore_images", keys_of(ref), words, session=ref.session, epoch=epoch)
    return bool(done)
