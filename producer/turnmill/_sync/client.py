# Generated from _async/client.py: change that, then run `make sync`.
"""The synchronous client: push turns, read contexts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, overload

from turnmill._sync.connection import Connection
from turnmill._sync.erasing import Erasing
from turnmill._sync.parking import Parking
from turnmill._sync.pushing import Pushing
from turnmill._sync.session import ContextManager
from turnmill._sync.waiting import Redis
from turnmill.commands import Call, Commands
from turnmill.contract import jobs
from turnmill.contract.correction import LastReads
from turnmill.contract.errors import UnknownSession
from turnmill.contract.images.stored import DEFAULT_MAX_IMAGE_BYTES
from turnmill.contract.info import ContextInfo
from turnmill.contract.keys import REGISTER_EVERY_S
from turnmill.contract.names import SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.results import (
    Checkpoint,
    Forgotten,
    GroundedContext,
    RollbackResult,
    SummarizationResult,
)
from turnmill.contract.sealing import Cipher
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES
from turnmill.exact_tokens import exact_by
from turnmill.given_seqs import GivenSeqs
from turnmill.image_cache import DEFAULT_CACHE_BYTES, ImageCache
from turnmill.lately_read import LatelyRead
from turnmill.requests import Ask, ask
from turnmill.transport import new_id
from turnmill.wake import HintCounts, Waker, waker_for

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools
    from turnmill.contract.trajectory import Trajectory

__all__ = ["ContextClient"]


class ContextClient(Pushing, Parking, Erasing):
    """Pushes turns and reads contexts; safe to share between threads.

    Args:
        redis: URL of the state store (``redis+sentinel://`` and ``redis+cluster://`` too), or a
            redis client that does not decode responses.
        namespace: separates tenants; sessions of two namespaces never meet.
        broker: URL of the Celery broker the workers listen to, or a ``Waker``. By default the
            state store's URL; with a redis-py client, none: the sweep finds new turns in seconds.
        timeout_s: how long a call may take when Redis is slow or down.
        max_turn_bytes: largest turn accepted, in bytes of JSON, its images apart.
        max_image_bytes: largest images of one turn accepted, in bytes together.
        image_cache_bytes: memory for images shown before, so that a read need not fetch them.
        cipher: what encrypts content before it is stored; the workers need the same.
        counts_by: the encoding of the sessions' policies, such as ``o200k_base``, by which pushed
            turns are counted here, exactly: then no read is cut for the margin of a bound. Needs
            the extra ``counting``; loading takes 0.4 s of CPU and 90 MB, once per process.

    Every method raises ``StoreUnavailable`` within ``timeout_s`` while Redis is down, and works
    again when it is back. Pushes are retried safely: a turn has an id.
    """

    def __init__(  # noqa: PLR0913 - all but the first have defaults that suit most
        self,
        redis: str | Redis = "redis://localhost:6379/0",
        *,
        namespace: str = "default",
        broker: str | Waker | None = None,
        timeout_s: float = 5.0,
        max_turn_bytes: int = DEFAULT_MAX_TURN_BYTES,
        max_image_bytes: int = DEFAULT_MAX_IMAGE_BYTES,
        image_cache_bytes: int = DEFAULT_CACHE_BYTES,
        cipher: Cipher | None = None,
        counts_by: str = "",
    ) -> None:
        self._commands = Commands.of(namespace, max_turn_bytes, max_image_bytes)
        self._namespace = self._commands.namespace
        self._images = ImageCache(image_cache_bytes)
        self._given = GivenSeqs()
        self._reads = LastReads()
        self._lately = LatelyRead()
        self._exact = exact_by(counts_by) if counts_by else None
        self._waker = waker_for(redis, broker)
        self._redis = Connection(redis, timeout_s, cipher, self._commands.registration)

    @property
    def namespace(self) -> str:
        """The namespace of all sessions here."""
        return self._commands.namespace

    @property
    def hints(self) -> HintCounts:
        """How many hints were published and dropped by this client."""
        return self._waker.counts

    def info(self, session: str) -> ContextInfo:
        """The session in numbers, without its content.

        Turns that make nothing due are counted when somebody looks: the next look sees it.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        reply = self._redis.run(self._commands.info(session))
        found = self._commands.context_info(session, reply)
        if found.counted_seq < found.last_seq:
            self._waker.wake(self._commands.namespace, found.session)
        return found

    def forget(self, session: str) -> Forgotten:
        """Remove the session from Redis at once, and from the archive as soon as a worker can.

        The result is true when there was such a session, and says how many keys are left.
        """
        self._lately.take(session)
        done = self._commands.forgotten(self._list(self._commands.forget(session)))
        self._waker.wake(self._commands.namespace, SessionId(session), task=jobs.FORGET)
        return done

    def clear(self, session: str) -> int:
        """Set the conversation aside, and keep the system prompt; returns how many turns left.

        The archive keeps them, marked; checkpoints are gone.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        call = self._commands.clear(session, new_id=new_id)
        return self._commands.cleared(session, self._list(call))

    def checkpoint(self, session: str, message: str = "", *, name: str = "") -> str | None:
        """Remember the context as it is now; returns the checkpoint's id.

        None where the policy keeps no checkpoints. A name used again moves to the present.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        reply = self._redis.run(self._commands.checkpoint(session, message, name))
        return self._commands.checkpointed(session, reply)

    def checkpoints(self, session: str) -> list[Checkpoint]:
        """What a rollback can restore, oldest first.

        Raises:
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        reply = self._redis.pipeline(self._commands.list_checkpoints(session))
        return self._commands.checkpoints(session, reply)

    def rollback(
        self, session: str, to: str | int | None = None, *, timeout_s: float = 10.0
    ) -> RollbackResult:
        """Restore a checkpoint: the newest, one by its id, or the context of a version.

        Turns after it leave the session; the archive keeps them, marked. The newest checkpoint
        is used up by it; one restored by its id stays. Atomic: a compaction under way is dropped,
        and a turn pushed meanwhile is either rolled back too, or follows the restored state.

        Raises:
            NoCheckpoint: there is none, or none of this id or version.
            NotAnswered: no worker was done in time; says whether one is at it.
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        answer = self._ask(jobs.ROLLBACK, session, self._commands.rollback(to), timeout_s)
        return RollbackResult.model_validate(answer)

    @overload
    def summarize(
        self, session: str, *, template: str = "", timeout_s: float = 60.0
    ) -> SummarizationResult: ...
    @overload
    def summarize(
        self, session: str, *, template: str = "", wait: bool, timeout_s: float = 60.0
    ) -> SummarizationResult | None: ...
    def summarize(
        self, session: str, *, template: str = "", wait: bool = True, timeout_s: float = 60.0
    ) -> SummarizationResult | None:
        """Summarize all but the newest turns now, whatever the limits say.

        In the policy's own way, or by a managed template when one is named. With ``wait`` the
        result, else None at once.

        Raises:
            UnknownTemplate: no such template where the worker looks.
            InvalidName: no template can have this name.
            SessionBusy: another worker is compacting it, and takes long.
            NotAnswered: no worker was done in time; says whether one is at it.
            UnknownSession: never opened nor pushed to, forgotten, or expired.
        """
        body = self._commands.summarize(template)
        if not wait:
            self._put(ask(jobs.FORCE, self._namespace, session, body, timeout_s=timeout_s))
            return None
        answer = self._ask(jobs.FORCE, session, body, timeout_s)
        return SummarizationResult.model_validate(answer)

    def trajectory(self, session: str, *, timeout_s: float = 30.0) -> Trajectory:
        """The whole session from its first turn on, complete whatever was compacted.

        Raises:
            NotAnswered: no worker was done in time; says whether one is at it.
            UnknownSession: neither in Redis nor in the archive.
        """
        from turnmill.contract.trajectory import Trajectory  # noqa: PLC0415 - few agents need it

        found = Trajectory.model_validate(self._ask(jobs.EXPORT, session, {}, timeout_s))
        with suppress(UnknownSession):  # expired: the archive has it all the same
            now = self.read(session)
            return found.model_copy(update={"context": tuple(now.messages_for("chat"))})
        return found

    def ground(
        self, query: str, k: int = 5, *, session: str | None = None, timeout_s: float = 5.0
    ) -> GroundedContext:
        """What the namespace, or one session of it, remembers: at most ``k`` memories, best first.

        Raises:
            InvalidInput: ``k`` is not in 1..100.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        body = self._commands.ground(query, k, session)
        return GroundedContext.model_validate(self._ask(jobs.GROUND, "", body, timeout_s))

    def remember(self, text: str, *, timeout_s: float = 5.0) -> str:
        """Have the namespace remember a text; returns the memory's id once it is stored.

        Raises:
            InvalidInput: not text, blank, or more than 100,000 characters.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        return str(self._ask(jobs.REMEMBER, "", self._commands.remember(text), timeout_s))

    def manager(
        self,
        session: str,
        policy: Policy | str | None = None,
        system_prompt: str | None = None,
        *,
        tools: Tools | None = None,
    ) -> ContextManager:
        """The handle of one session; opens it when policy, system prompt or tools are given."""
        if any(given is not None for given in (policy, system_prompt, tools)):
            self.open(session, policy, system_prompt, tools=tools)
        return ContextManager(self, session)

    def sessions(self) -> list[SessionId]:
        """All sessions of the namespace, the most recently pushed first."""
        keys = self._commands.index_keys()
        found = self._redis.pipeline([("ZRANGE", k, 0, -1, "WITHSCORES") for k in keys])
        return self._commands.sessions(found)

    def close(self) -> None:
        """Publish waiting hints, briefly, and close the connections made here."""
        self._waker.close()
        self._redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, asked: Ask) -> None:
        """Lay a question down, and hint the job that answers it."""
        self._redis.register(REGISTER_EVERY_S)
        self._redis.plain(asked.put)
        self._waker.wake(asked.namespace, asked.session, task=asked.task, ask=asked.id)

    def _ask(self, task: str, session: str, body: dict[str, object], timeout_s: float) -> Any:
        """What a worker answers."""
        wait_s = self._redis.look_s
        asked = ask(task, self._namespace, session, body, timeout_s=timeout_s, look_s=wait_s)
        self._put(asked)
        while not asked.is_over():
            if (reply := self._redis.plain(asked.look)) is not None:
                return asked.answer(reply)
        raise asked.not_answered(withdrawn=bool(self._redis.plain(asked.withdraw)))

    def _list(self, call: Call) -> Any:
        """The reply of a script that may leave work to the sweep."""
        self._redis.register(REGISTER_EVERY_S)
        return self._redis.run(call)
