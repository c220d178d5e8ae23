"""Pushes: ready to be sent, in parts that fit into memory, and what their replies mean; no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from turnmill.contract.codec import decode_json
from turnmill.contract.context import Pushed
from turnmill.contract.correction import LEAST_TOKENS, Told
from turnmill.contract.errors import StoreUnavailable, TurnConflict, TurnmillError
from turnmill.contract.estimate import Exact, bound_turn
from turnmill.contract.images import StoredImage
from turnmill.contract.log_entry import LogEntry
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.scripts import Call, Command
from turnmill.contract.sealing import Secret
from turnmill.push.too_large import bytes_of
from turnmill.read.view import DEFAULT_POLICY

CHUNK = 500
"""Turns per pipeline of ``push_many``."""

DEDUPE_WINDOW = 10_000
"""How many of a session's newest turn_ids are remembered."""

RETRY_WINDOW = 2 * CHUNK
"""The same where clients made all of them: only a retry, of a chunk at most, brings one again."""

QUIET_MS = 60_000
"""How long turns that make nothing due may wait to be counted."""

SAME_FOR_ALL: Final = {
    "ttl_ms": DEFAULT_POLICY.ttl_s * 1000,
    "window": DEDUPE_WINDOW,
    "retry_window": RETRY_WINDOW,
    "checkpoint_every": DEFAULT_POLICY.checkpoint_interval,
    "keep_checkpoints": DEFAULT_POLICY.keep_checkpoints,
    "hard": DEFAULT_POLICY.hard_limit,
    "quiet_ms": QUIET_MS,
}
"""For sessions that were never opened, the policy's numbers are the default's."""

CHUNK_BYTES = 32 * 1024 * 1024
"""Bytes of images per pipeline of ``push_many``."""

MOST_COUNTED = 65_536
"""Bytes of a turn that is counted when it is pushed: at most some two milliseconds."""

_OTHER: Final = 2
"""Where Redis says whether a turn was there: another one was, under this id."""

PUT_MS = 300_000
"""How long Redis keeps an image that was put but never pushed."""


class PushCall(NamedTuple):
    """A push ready to be sent after its images, and what is needed to report it.

    Attributes:
        made_ns: when, by the monotonic clock; of a client that notes it.
        cut: as in ``Pushed``.
        given: what is stored under an id that a caller gave; ``b""`` where the client made it.
    """

    call: Call
    session: SessionId
    turn_id: str
    images: tuple[StoredImage, ...] = ()
    made_ns: int = 0
    cut: int = 0
    given: bytes = b""


def chunks(pushes: Sequence[PushCall]) -> Iterator[list[PushCall]]:
    """The pushes in order, in parts small enough to hold in memory for one round trip."""
    chunk: list[PushCall] = []
    size = 0
    for push in pushes:
        own = bytes_of(push.images)
        if chunk and (len(chunk) == CHUNK or size + own > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(push)
        size += own
    if chunk:
        yield chunk


def puts(pushes: Sequence[PushCall], keys: Collection[str]) -> list[Command]:
    """Puts the images of these keys, each once; they expire unless a push follows.

    Plain commands: a script would copy every image into Lua and back, while others wait.
    """
    found = {p.key: p.data for push in pushes for p in push.images if p.key in keys}
    return [("SET", key, Secret(data), "NX", "PX", PUT_MS) for key, data in found.items()]


def settled(replies: Sequence[Any], *, puts: int) -> list[Any]:
    """The replies to the pushes; if a push lacks an image, the error of the image's put."""
    refused = [reply for reply in replies[:puts] if isinstance(reply, TurnmillError)]
    return [
        refused[0] if refused and isinstance(reply, list) and lacks_images(reply) else reply
        for reply in replies[puts:]
    ]


def lacks_images(reply: Sequence[Any]) -> bool:
    """Whether nothing was stored, because Redis lacks an image it was believed to have."""
    return bool(reply[0] == 0)


def is_known(push: PushCall, reply: Any) -> bool:
    """Whether a turn was there under the id that a caller gave: this one, as far as Redis knows."""
    return bool(push.given) and not isinstance(reply, TurnmillError) and reply[2] == 1


def compared(push: PushCall, reply: Sequence[Any], found: Sequence[Any]) -> Sequence[Any]:
    """The reply as it is where Redis compares: ``found`` is the log where the known turn stood."""
    for entry in map(LogEntry.of, found):
        # What was erased, or is covered, cannot be compared.
        if not entry.is_erased and decode_json(entry.messages) != decode_json(push.given):
            return [*reply[:2], _OTHER, *reply[3:]]
    return reply


def pushed(push: PushCall, reply: Sequence[Any] | TurnmillError) -> tuple[Pushed, bool]:
    """Where the turn went, and whether the workers want a hint.

    Raises:
        TurnmillError: the reply is this error.
        TurnConflict: another turn was pushed under its id.
        StoreUnavailable: Redis lacks an image of the turn, so it did not store the turn.
    """
    if isinstance(reply, TurnmillError):
        raise reply
    seq, hint, duplicate, checkpoint = reply[:4]
    if not seq:
        raise StoreUnavailable(
            "Redis lost the turn's images before the turn was there: does it evict keys?"
        )
    if duplicate == _OTHER:
        raise TurnConflict(
            f"turn_id: turn {seq} was pushed under it before, with other messages; nothing was "
            "stored"
        )
    done = Pushed(
        session=push.session,
        seq=Seq(seq),
        turn_id=push.turn_id,
        duplicate=bool(duplicate),
        checkpoint=checkpoint.decode() if checkpoint else None,
        cut=push.cut,
    )
    return done, bool(hint)


def bound_of(messages: bytes, exact: Exact | None) -> dict[str, int | str]:
    """Tokens of a turn's messages at most, and the encoding they were counted by, if they were."""
    # An image's price is the policy's, not the vocabulary's; and counting must not hold agents up.
    if exact is None or len(messages) > MOST_COUNTED or b'"image_url"' in messages:
        return {"bound": bound_turn(messages), "counted_by": ""}
    return {"bound": exact.count(decode_json(messages)), "counted_by": exact.encoding}


def telling(told: Told | None) -> dict[str, int | str]:
    """What a provider counted, and whether something can be learned from it."""
    if told is None:
        return {"told": "", "is_telling": 0}
    return {"told": told.encode(), "is_telling": int(told.tokens >= LEAST_TOKENS)}
