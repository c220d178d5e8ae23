"""Appending turns: the calls, and what their replies mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from turnmill.commands.calls import LUA, Base, Call, Command
from turnmill.contract.codec import decode_json
from turnmill.contract.context import Pushed
from turnmill.contract.correction import LEAST_TOKENS, Told
from turnmill.contract.errors import (
    InvalidInput,
    StoreUnavailable,
    TurnmillError,
    TurnTooLarge,
)
from turnmill.contract.estimate import bound_turn
from turnmill.contract.images.stored import StoredImage, take_images
from turnmill.contract.names import Seq, SessionId
from turnmill.contract.scripts import load_script
from turnmill.contract.sealing import Digest, Secret
from turnmill.contract.token_counters import Exact
from turnmill.contract.turns import TurnLike, encode_turn, to_turn
from turnmill.dialects.turns import turn_in_chat
from turnmill.read_reply import DEFAULT_POLICY

__all__ = ["CHUNK", "CHUNK_BYTES", "DEDUPE_WINDOW", "RETRY_WINDOW", "PushCall", "Pushing"]

CHUNK = 500
"""Turns per pipeline of ``push_many``."""

DEDUPE_WINDOW = 10_000
"""How many of a session's newest turn_ids are remembered."""

RETRY_WINDOW = 2 * CHUNK
"""The same where clients made all of them: only a retry, of a chunk at most, brings one again."""

QUIET_MS = 60_000
"""How long turns that make nothing due may wait to be counted."""

_SAME_FOR_ALL: Final = {
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

PUT_MS = 300_000
"""How long Redis keeps an image that was put but never pushed."""


class PushCall(NamedTuple):
    """A push ready to be sent after its images, and what is needed to report it.

    Attributes:
        made_ns: when, by the monotonic clock; of a client that notes it.
    """

    call: Call
    session: SessionId
    turn_id: str
    images: tuple[StoredImage, ...] = ()
    made_ns: int = 0


class Pushing(Base):
    """Pushing turns with their images."""

    def push(
        self,
        session: str,
        turn: TurnLike,
        turn_id: str | None = None,
        *,
        told: Told | None = None,
        exact: Exact | None = None,
        new_id: Callable[[], str],
    ) -> PushCall:
        """Append a turn; one without an id gets a new one, so that a retry cannot double it.

        What counts it exactly gives its bound, else that is fitted.
        """
        name, keys = self._keys(session)
        dialect, in_chat = turn_in_chat(turn)
        value, images = take_images(to_turn(in_chat, turn_id=turn_id), keys.blob)
        size = _bytes_of(images)
        if size > self.max_image_bytes:
            raise TurnTooLarge(
                f"turn: {size} bytes of images; at most {self.max_image_bytes} are allowed"
            )
        messages, fields = encode_turn(value, max_bytes=self.max_turn_bytes)
        chosen = value.turn_id or new_id()
        script = load_script(LUA, "push")
        words = script.call(
            keys,
            [word for p in images for word in (p.ref.sha256, p.ref.media_type)],
            session=name,
            turn_id=chosen,
            messages=Secret(messages),
            fields=Secret(fields),
            digest=Digest.of(messages, fields),
            is_new_id=int(not value.turn_id),
            **_bound(messages, exact),
            **_SAME_FOR_ALL,
            dialect=dialect or "",
            **_telling(told),
        )
        return PushCall(Call(script, words), name, chosen, images)

    def push_many(
        self, turns: Iterable[tuple[str, TurnLike, Exact | None]], *, new_id: Callable[[], str]
    ) -> list[PushCall]:
        """One push per (session, turn, its count); all are checked before any is sent."""
        calls = []
        known: dict[str, StoredImage] = {}  # an image in many turns is in memory once
        for at, (session, turn, exact) in enumerate(turns):
            try:
                push = self.push(session, turn, exact=exact, new_id=new_id)
            except InvalidInput as error:
                raise type(error)(f"turns[{at}]: {error}") from None
            images = tuple(known.setdefault(each.key, each) for each in push.images)
            calls.append(push._replace(images=images))
        return calls

    @staticmethod
    def chunks(pushes: Sequence[PushCall]) -> Iterator[list[PushCall]]:
        """The pushes in order, in parts small enough to hold in memory for one round trip."""
        chunk: list[PushCall] = []
        size = 0
        for push in pushes:
            own = _bytes_of(push.images)
            if chunk and (len(chunk) == CHUNK or size + own > CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(push)
            size += own
        if chunk:
            yield chunk

    @staticmethod
    def puts(pushes: Sequence[PushCall], keys: Collection[str]) -> list[Command]:
        """Puts the images of these keys, each once; they expire unless a push follows.

        Plain commands: a script would copy every image into Lua and back, while others wait.
        """
        found = {p.key: p.data for push in pushes for p in push.images if p.key in keys}
        return [("SET", key, Secret(data), "NX", "PX", PUT_MS) for key, data in found.items()]

    @staticmethod
    def settled(replies: Sequence[Any], *, puts: int) -> list[Any]:
        """The replies to the pushes; if a push lacks an image, the error of the image's put."""
        refused = [reply for reply in replies[:puts] if isinstance(reply, TurnmillError)]
        return [
            refused[0]
            if refused and isinstance(reply, list) and Pushing.lacks_images(reply)
            else reply
            for reply in replies[puts:]
        ]

    @staticmethod
    def lacks_images(reply: Sequence[Any]) -> bool:
        """Whether nothing was stored, because Redis lacks an image it was believed to have."""
        return bool(reply[0] == 0)

    @staticmethod
    def pushed(push: PushCall, reply: Sequence[Any] | TurnmillError) -> tuple[Pushed, bool]:
        """Where the turn went, and whether the workers want a hint.

        Raises:
            TurnmillError: the reply is this error.
            StoreUnavailable: Redis lacks an image of the turn, so it did not store the turn.
        """
        if isinstance(reply, TurnmillError):
            raise reply
        seq, hint, duplicate, checkpoint = reply[:4]
        if not seq:
            raise StoreUnavailable(
                "Redis lost the turn's images before the turn was there: does it evict keys?"
            )
        done = Pushed(
            session=push.session,
            seq=Seq(seq),
            turn_id=push.turn_id,
            duplicate=bool(duplicate),
            checkpoint=checkpoint.decode() if checkpoint else None,
        )
        return done, bool(hint)


def _bound(messages: bytes, exact: Exact | None) -> dict[str, int | str]:
    """Tokens of a turn's messages at most, and the encoding they were counted by, if they were."""
    # An image's price is the policy's, not the vocabulary's; and counting must not hold agents up.
    if exact is None or len(messages) > MOST_COUNTED or b'"image_url"' in messages:
        return {"bound": bound_turn(messages), "counted_by": ""}
    return {"bound": exact.count(decode_json(messages)), "counted_by": exact.encoding}


def _telling(told: Told | None) -> dict[str, int | str]:
    """What a provider counted, and whether something can be learned from it."""
    if told is None:
        return {"told": "", "is_telling": 0}
    return {"told": told.encode(), "is_telling": int(told.tokens >= LEAST_TOKENS)}


def _bytes_of(images: Iterable[StoredImage]) -> int:
    return sum(len(image.data) for image in images)
