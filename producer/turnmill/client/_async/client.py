"""The asynchronous client: push turns, read contexts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

from redis.asyncio import Redis

from turnmill import telemetry
from turnmill.client._async.connection import AsyncConnection
from turnmill.client._async.session import AsyncContextManager
from turnmill.client._async.trips import in_thread
from turnmill.client.bills import SESSIONS_AT_ONCE, bills_in, fields_of, summed
from turnmill.client.caches import DEFAULT_CACHE_BYTES, GivenSeqs, ImageCache, LatelyRead
from turnmill.client.commands import DEFAULT_NAME, Commands
from turnmill.client.exact_tokens import exact_by, exact_tokens
from turnmill.client.requests import Ask, ask
from turnmill.connection.transport import new_id
from turnmill.contract import jobs
from turnmill.contract.context import Pushed
from turnmill.contract.correction import LastReads
from turnmill.contract.errors import (
    CannotDecrypt,
    NewerFormat,
    SystemPromptTooLarge,
    TurnmillError,
    UnknownSession,
)
from turnmill.contract.images import DEFAULT_MAX_IMAGE_BYTES
from turnmill.contract.keys import REGISTER_EVERY_S
from turnmill.contract.names import SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.results import (
    Bill,
    Checkpoint,
    ContextInfo,
    Forgotten,
    Forked,
    GroundedContext,
    ParkedSession,
    RollbackResult,
    SessionPage,
    SummarizationResult,
)
from turnmill.contract.rules import Rule
from turnmill.contract.scripts import Call, Command
from turnmill.contract.sealing import Cipher
from turnmill.contract.turns import DEFAULT_MAX_TURN_BYTES, TurnLike
from turnmill.hint.waker import HintCounts, Waker, waker_for
from turnmill.push import push_calls
from turnmill.push.push_calls import PushCall
from turnmill.push.too_large import OnTooLarge
from turnmill.read.context import Context
from turnmill.read.reply import Known, known_since, read_context, whole_context

if TYPE_CHECKING:
    from turnmill.contract.erasure import Erased
    from turnmill.contract.tools import Tools
    from turnmill.contract.trajectory import Trajectory, TrajectoryTurn


_Found = tuple[Known, Context]
"""What is known of a session, and the context that was made of it."""


class _Replies(NamedTuple):
    """To pushes, and to what was read behind them; errors among them."""

    pushes: list[Any]
    read: list[Any]


class _Settled(NamedTuple):
    """Where turns went, the sessions that want a hint, and what came of the first that failed."""

    pushed: list[Pushed]
    hints: list[SessionId]
    failed: TurnmillError | None


class AsyncContextClient:
    """Pushes turns and reads contexts; one per event loop, shared by its tasks.

    Args:
        redis: URL of the state store (``redis+sentinel://`` and ``redis+cluster://`` too), or a
            redis.asyncio client that does not decode responses.
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
    again when it is back. Pushes are retried safely: a turn has an id. What needs a session raises
    ``UnknownSession`` where there is none: never opened nor pushed to, forgotten, or expired.
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
        self._redis = AsyncConnection(redis, timeout_s, cipher, self._commands.registration)

    @property
    def namespace(self) -> str:
        """The namespace of all sessions here."""
        return self._commands.namespace

    @property
    def hints(self) -> HintCounts:
        """How many hints were published and dropped by this client."""
        return self._waker.counts

    async def push(
        self,
        session: str,
        turn: TurnLike,
        *,
        turn_id: str | None = None,
        usage: object = None,
        on_too_large: OnTooLarge = "raise",
    ) -> Pushed:
        """Append a turn: a ``Turn``, one message, or a list of messages. One round trip.

        Pushing the same ``turn_id`` again stores nothing and returns the same seq; with other
        messages it is a ``TurnConflict``. With a cipher that takes another round trip, and is seen
        only while the turn is in the log: no compaction covers it.

        A turn over the client's limits is refused; with ``on_too_large="cut"`` its longest texts
        lose their middle, images that have no room go, notes in their places say so, and
        ``Pushed.cut`` says how much it was.

        ``usage`` is what the provider reported for the request that this client's last ``read``
        of the session made: its object, its JSON, or the number of its input tokens. From that is
        learned what the provider's tokens are; push it with the answer.

        Raises:
            InvalidTurn, TurnTooLarge, TurnConflict, InvalidName, InvalidInput, QuotaExceeded:
                nothing was stored.
        """
        push = await self._admitted(session, turn, turn_id, usage, on_too_large)
        [done] = await self._push([push])
        if done.seq == 1:
            await self._welcome(done.session)
        return done

    async def step(
        self,
        session: str,
        turn: TurnLike,
        *,
        turn_id: str | None = None,
        usage: object = None,
        beside: int = 0,
        on_too_large: OnTooLarge = "raise",
    ) -> Context:
        """Append a turn, as ``push``, and return the context with it, as ``read``.

        One round trip for both; two for new images of others, and for a session's first turn.

        Raises:
            InvalidTurn, TurnTooLarge, TurnConflict, InvalidName, InvalidInput, QuotaExceeded:
                nothing was stored.
            CorruptContext, NewerFormat, CannotDecrypt: the turn is stored, but cannot be read.
        """
        push = await self._admitted(session, turn, turn_id, usage, on_too_large)
        _, context = await self._step([push], beside)
        return context

    async def step_many(
        self,
        session: str,
        turns: Iterable[TurnLike],
        *,
        beside: int = 0,
        on_too_large: OnTooLarge = "raise",
    ) -> tuple[list[Pushed], Context]:
        """Append turns, as ``push_many``, and return where they went and the context with them.

        One round trip for 500 turns. With no turns at all it only reads, and raises what that
        does.
        """
        calls = await self._many_admitted(((session, turn) for turn in turns), on_too_large)
        done: list[Pushed] = []
        *chunks, last = list(push_calls.chunks(calls)) or [[]]
        for chunk in chunks:
            done += await self._push(chunk)
        if done and done[0].seq == 1 and not done[0].duplicate:
            await self._welcome(done[0].session)
        if not last:
            return done, await self.read(session, beside=beside)
        pushed, context = await self._step(last, beside)
        return [*done, *pushed], context

    async def push_many(
        self, turns: Iterable[tuple[str, TurnLike]], *, on_too_large: OnTooLarge = "raise"
    ) -> list[Pushed]:
        """Append many (session, turn) pairs, pipelined, in the order given.

        All are checked before any is sent. When Redis fails midway some may be stored; give the
        turns ids and push again. After a ``TurnConflict`` with an earlier turn the others are
        stored.
        """
        calls = await self._many_admitted(turns, on_too_large)
        done: list[Pushed] = []
        for chunk in push_calls.chunks(calls):
            done += await self._push(chunk)
        for pushed in done:
            if pushed.seq == 1 and not pushed.duplicate:
                await self._welcome(pushed.session)
        return done

    async def _admitted(
        self,
        session: str,
        turn: TurnLike,
        turn_id: str | None,
        usage: object,
        on_too_large: OnTooLarge,
    ) -> PushCall:
        """The push of a turn that was checked and that quotas have room for."""
        told = self._reads.told(session, usage)
        exact = self._exact and self._exact.under(self._lately.encoding(session))
        under = self._reads.prefix(session)
        push = self._commands.push(
            session,
            turn,
            turn_id,
            told=told,
            exact=exact,
            under=under,
            on_too_large=on_too_large,
            new_id=new_id,
        )
        push = self._given.dated(push)
        await self._redis.register(REGISTER_EVERY_S)
        await self._redis.admit(map(self._commands.exists, [session]), pushes=1)
        return push

    async def _many_admitted(
        self, turns: Iterable[tuple[str, TurnLike]], on_too_large: OnTooLarge
    ) -> list[PushCall]:
        exact, encoding = self._exact, self._lately.encoding
        counted = ((s, turn, exact and exact.under(encoding(s))) for s, turn in turns)
        pushes = self._commands.push_many(
            counted, under=self._reads.prefix, on_too_large=on_too_large, new_id=new_id
        )
        calls = list(map(self._given.dated, pushes))
        await self._redis.register(REGISTER_EVERY_S)
        sessions = {call.session for call in calls}
        await self._redis.admit(map(self._commands.exists, sessions), pushes=len(calls))
        return calls

    async def _push(self, pushes: Sequence[PushCall]) -> list[Pushed]:
        with telemetry.call("push", self._namespace, pushes[0].session, len(pushes)):
            settled = self._settle(pushes, await self._send(pushes, ()))
            self._hint(settled)
            if settled.failed:
                raise settled.failed
            return settled.pushed

    async def _step(self, pushes: Sequence[PushCall], beside: int) -> tuple[list[Pushed], Context]:
        """Send pushes of one session with a read behind them."""
        session = pushes[0].session
        with telemetry.call("step", self._namespace, session, len(pushes)) as told:
            pushed, context = await self._stepped(session, pushes, beside)
            told.read(context.version, projected=context.projection is not None)
        return pushed, context

    async def _stepped(
        self, session: SessionId, pushes: Sequence[PushCall], beside: int
    ) -> tuple[list[Pushed], Context]:
        before = self._known(session)
        replies = await self._send(pushes, self._asked(session, before))
        settled = self._settle(pushes, replies)
        try:
            if settled.failed:
                self._know_again(before)
                raise settled.failed
            # One that is there already may be this client's own, sent twice.
            first = settled.pushed[0]
            if first.seq == 1 and not (first.duplicate and len(pushes) > 1):
                # The policy it has may be settled only now.
                await self._welcome(session)
                return settled.pushed, await self._read(session, beside)
            found = await self._heard(session, beside, before, replies.read)
            return settled.pushed, await self._shown(session, beside, found)
        finally:
            # Last: the thread that sends a hint takes its time from what is done beside it.
            self._hint(settled)

    async def _send(self, pushes: Sequence[PushCall], reads: Sequence[Command]) -> _Replies:
        """The replies to pushes and reads sent together, images of the pushes before them.

        A single push takes along what Redis is not known to have, and all if that was not enough.
        Of many all images go: one sent again would come after those that followed it.
        """
        every = {image.key for push in pushes for image in push.images}
        if len(pushes) > 1:
            return await self._sent(pushes, every, reads)
        replies = await self._sent(pushes, self._images.unsent(pushes[0].images), reads)
        [reply] = replies.pushes
        if not isinstance(reply, TurnmillError) and push_calls.lacks_images(reply):
            return await self._sent(pushes, every, reads)
        return replies

    async def _sent(
        self, pushes: Sequence[PushCall], keys: Collection[str], reads: Sequence[Command]
    ) -> _Replies:
        puts = push_calls.puts(pushes, keys)
        calls = [push.call for push in pushes]
        replies = await self._redis.scripts(calls, before=puts, after=reads)
        after = len(puts) + len(pushes)
        answers = push_calls.settled(replies[:after], puts=len(puts))
        return _Replies(await self._compared(pushes, answers), list(replies[after:]))

    async def _compared(self, pushes: Sequence[PushCall], replies: list[Any]) -> list[Any]:
        """The replies; turns that a cipher kept Redis from comparing are compared here."""
        if not self._redis.is_sealed:
            return replies
        both = list(zip(pushes, replies, strict=True))
        known = [at for at, each in enumerate(both) if push_calls.is_known(*each)]
        asked = [self._commands.logged(pushes[at].session, replies[at][0]) for at in known]
        with suppress(CannotDecrypt, NewerFormat):  # what cannot be read stays as it is
            for at, found in zip(known, await self._redis.pipeline(asked), strict=True):
                replies[at] = push_calls.compared(pushes[at], replies[at], found)
        return replies

    def _settle(self, pushes: Sequence[PushCall], replies: _Replies) -> _Settled:
        done: list[Pushed] = []
        hints: list[SessionId] = []
        failed: list[TurnmillError] = []
        for push, reply in zip(pushes, replies.pushes, strict=True):
            try:
                pushed, hint = push_calls.pushed(push, reply)
            except TurnmillError as error:
                failed.append(error)
                continue
            self._images.sent(push.images)
            self._given.note(push, reply)
            done.append(pushed)
            hints += [pushed.session] if hint else []
        return _Settled(done, hints, failed[0] if failed else None)

    def _hint(self, settled: _Settled) -> None:
        """Hint what the workers want to know of."""
        for session in settled.hints:
            self._waker.wake(self._commands.namespace, session)

    async def _welcome(self, session: SessionId) -> None:
        """A new session: perhaps on a server that lost everything. The turn is stored already."""
        with suppress(TurnmillError):
            await self._redis.register()
            await self._follow_default(session)

    async def read(self, session: str, *, beside: int = 0) -> Context:
        """The context as of now: never waits for a worker, never over the limit.

        One round trip, two for new images; ``beside`` are tokens that the session is not told of.
        """
        with telemetry.call("read", self._namespace, session) as told:
            context = await self._read(session, beside)
            told.read(context.version, projected=context.projection is not None)
        return context

    async def _read(self, session: str, beside: int) -> Context:
        return await self._shown(session, beside, await self._found(session, beside))

    async def rules(self, session: str) -> tuple[Rule, ...]:
        """The user's rules in force, oldest first; raises what ``read`` does.

        Workers find them when they cover a turn; what is marked as a rule is one at once.
        """
        return self._commands.rules(session, await self._redis.whole(*self._view(session)))

    def _view(self, session: str) -> tuple[list[Command], Callable[[Sequence[Any]], bool]]:
        return self._commands.read(session), self._commands.is_torn

    def _known(self, session: str) -> Known | None:
        """What was known, if the next read need ask for no more than what is new."""
        before = self._lately.take(session)
        return None if before is None or before.since is None else before

    def _know_again(self, before: Known | None) -> None:
        """Put back what was known: nothing came of what it was taken for."""
        if before is not None:
            self._lately.keep(before)

    def _asked(self, session: str, before: Known | None) -> list[Command]:
        """What a read asks for."""
        if before is None or before.since is None:
            return self._commands.read(session)
        return self._commands.read_on(session, before.since, before.awaited)

    async def _found(self, session: str, beside: int) -> _Found:
        before = self._known(session)
        reply = await self._redis.whole(self._asked(session, before), self._commands.is_torn)
        return await self._made(session, beside, before, reply)

    async def _heard(
        self, session: str, beside: int, before: Known | None, replies: Sequence[Any]
    ) -> _Found:
        """The same from replies that came with others; read again if a commit came between them."""
        for reply in replies:
            if isinstance(reply, TurnmillError):
                raise reply
        if self._commands.is_torn(replies):
            asked = self._asked(session, before)
            replies = await self._redis.whole(asked, self._commands.is_torn)
        return await self._made(session, beside, before, replies)

    async def _made(
        self, session: str, beside: int, before: Known | None, reply: Sequence[Any]
    ) -> _Found:
        """What is known now, and the context of it; read whole where what is new is not enough."""
        if before is not None:
            known = known_since(before, reply)
            context = known and read_context(known, beside)
            if known and context:
                return known, context
            reply = await self._redis.whole(*self._view(session))
        known = self._commands.known(session, reply)
        return known, whole_context(known, beside)

    async def _shown(self, session: str, beside: int, found: _Found) -> Context:
        """The context with its images."""
        context, urls = await self._with_images(*found)
        if None in urls.values():
            # Let go between the two trips, by a compaction: then it is not in the context now.
            context, urls = await self._with_images(*await self._found(session, beside))
        whole, prefix = context.projection is None, context.prefix
        self._reads.note(session, context.version, context.last_seq, is_whole=whole, prefix=prefix)
        return context.shown(urls)

    async def _with_images(
        self, known: Known, context: Context
    ) -> tuple[Context, dict[str, str | None]]:
        """The context with references for its images, and their data URLs by reference."""
        self._lately.keep(known.after(context))
        urls, unseen = self._images.seen(known.images(context))
        if unseen:
            found = await self._redis.pipeline(self._commands.fetch(context.session, unseen))
            urls |= self._images.fetched(unseen, found)
        return context, urls

    async def open(
        self,
        session: str,
        policy: Policy | str | None = None,
        system_prompt: str | None = None,
        *,
        tools: Tools | None = None,
        parent: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Create a session, or change its policy, system prompt or tools.

        None leaves what is there. ``tools`` are the schemas as every request of the agent has
        them, OpenAI's or Anthropic's; with them ``max_tokens`` is of the whole request. ``[]``
        takes them out.

        A policy given by name is the namespace's of that name (``set_policy``), and changes with
        it. A session needs no opening to be pushed to: it then has the namespace's policy called
        ``default``, or ``Policy()``.

        With a ``parent`` it is a sub-agent's: it begins with the rules and the open request of that
        session as they are now, in its user's words, and with its policy unless another is given;
        prompt, tools, turns and tokens are its own. Opened again, it keeps what it has.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room under the policy's hard limit.
            UnknownSession, InvalidInput, SessionBusy, NotAnswered: as ``fork``, of a child.
            InvalidInput: the tools are not such schemas.
            InvalidPolicy: a strategy's or summarizer's name is a slip for one of ours.
            QuotaExceeded: the namespace may have no more sessions.
            UnknownPolicy: the namespace has none of this name.
        """
        if parent is not None:
            await self._begin_child(session, parent, policy, timeout_s)
        if isinstance(policy, str):
            await self._open_by_name(session, policy, system_prompt, tools)
            return
        await self._open(session, policy, system_prompt, tools=tools)
        if policy is None:
            await self._follow_default(session)

    async def _begin_child(
        self, session: str, parent: str, policy: Policy | str | None, timeout_s: float
    ) -> None:
        """Have the session begin with what its parent's user laid down, unless it has."""
        if isinstance(policy, str):
            body = await self._redis.plain(self._commands.policy_named(policy))
            policy = self._commands.named_policy(policy, body)
        found = await self._redis.plain(self._commands.parent_of(session))
        asked = self._commands.child(session, parent, policy, found)
        if asked is not None:
            await self._redis.admit(map(self._commands.exists, [session]))
            await self._ask(jobs.ROLLBACK, parent, asked, timeout_s)

    async def _open_by_name(
        self, session: str, name: str, system_prompt: str | None = None, tools: Tools | None = None
    ) -> None:
        body, opened = await self._redis.plain(self._commands.policy_named(name)), b""
        while body != opened:  # set_policy may come between: the session must not keep the old one
            opened = body
            policy = self._commands.named_policy(name, body)
            await self._open(session, policy, system_prompt, name, tools=tools)
            body = await self._redis.plain(self._commands.policy_named(name))

    async def _follow_default(self, session: str) -> None:
        """Have a session without a policy follow the namespace's default, if it has one."""
        named, followed = self._commands.policy_named, self._commands.policy_followed
        body, (policy, _) = await self._redis.pipeline([named(DEFAULT_NAME), followed(session)])
        if body is not None and policy is None:
            await self._open_by_name(session, DEFAULT_NAME)

    async def _open(
        self,
        session: str,
        policy: Policy | None,
        system_prompt: str | None,
        name: str = "",
        *,
        tools: Tools | None,
    ) -> None:
        call = self._commands.open(session, policy, system_prompt, name, tools)
        await self._redis.register()
        await self._redis.admit(map(self._commands.exists, [session]))
        reply = await self._redis.run(call)
        if self._commands.is_refused(reply) and (system_prompt or tools):
            # An upper bound puts it in doubt: count it, if a vocabulary is installed here.
            tokens = await in_thread(exact_tokens, system_prompt, tools, policy)
            reply = await self._redis.run(self._commands.open_finally(call, tokens))
        if self._commands.opened(reply):
            self._waker.wake(self._commands.namespace, SessionId(session))

    async def set_policy(self, name: str, policy: Policy) -> int:
        """Give the namespace a policy under a name; sessions that follow the name take it up.

        The name ``default`` is for sessions opened without a policy. Returns how many sessions
        took it up; it counts at their next decision.

        Raises:
            SystemPromptTooLarge: some sessions keep the old policy, for their prompts leave no
                room under this one; all others have it.
        """
        await self._redis.plain(self._commands.put_policy(name, policy))
        sessions = await self.sessions()
        looks = [self._commands.policy_followed(each) for each in sessions]
        followed = await self._redis.pipeline(looks)
        ours = [s for s, (_, of) in zip(sessions, followed, strict=True) if of == name.encode()]
        refused = 0
        for session in ours:
            try:
                await self._open_by_name(session, name)
            except SystemPromptTooLarge:
                refused += 1
        if refused:
            raise SystemPromptTooLarge(
                f"policy {name!r}: {refused} of {len(ours)} sessions keep the old one, because "
                f"their system prompts leave no room under its {policy.hard_limit} tokens"
            )
        return len(ours)

    async def policies(self) -> dict[str, Policy]:
        """The namespace's policies by name."""
        return self._commands.policies(await self._redis.plain(self._commands.list_policies()))

    async def parked(self) -> list[ParkedSession]:
        """Sessions whose compactions keep failing, the longest parked first.

        They can be read and pushed to as before; nothing compacts them until they are retried, or
        their policy or system prompt changes.
        """
        listed = await self._redis.pipeline(self._commands.list_parked())
        names = self._commands.parked_names(listed)
        replies = await self._redis.pipeline(self._commands.look_at_parked(names)) if names else []
        return self._commands.parked(names, replies)

    async def retry(self, session: str) -> bool:
        """Have a parked session compacted again; False when it is not parked."""
        reply = await self._list(self._commands.retry(session))
        if was_parked := self._commands.retried(session, reply):
            self._waker.wake(self._commands.namespace, SessionId(session), task=jobs.COMPACT)
        return was_parked

    async def erase(
        self,
        session: str,
        *,
        turns: Collection[int] = (),
        matching: str | None = None,
        subject: str | None = None,
        repeats: bool = False,
        by: str = "",
        dry_run: bool = False,
        timeout_s: float = 60.0,
    ) -> Erased:
        """Erase turns from Redis and the archive, with all that was made of them. This is final.

        Turns are chosen by their seqs, by a text in them, or by a name in them as whole words. They
        keep their places, with neutral messages in them. The context is made anew of what remains.

        Args:
            session: also one that only the archive has.
            turns: seqs.
            matching: a text; case and white space do not matter.
            subject: a name, an address or an id.
            repeats: erase turns, too, that repeat five words in a row of those.
            by: who erases; the record of the erasure says it.
            dry_run: change nothing, and say what would go.
            timeout_s: longest wait for a worker.

        Raises:
            InvalidInput: nothing, or more than one thing, to choose turns by; or no such turn.
            UnknownSession: neither in Redis nor in the archive.
            SessionBusy: compactions came between at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        from turnmill.contract.erasure import Erased, erasing  # noqa: PLC0415 - few erase

        body = erasing(turns, matching, subject, repeats=repeats, by=by, dry_run=dry_run)
        return Erased.model_validate(await self._ask(jobs.ERASE, session, body, timeout_s))

    async def take_back(
        self, session: str, seq: int, *, dialect: str = "chat", timeout_s: float = 10.0
    ) -> RollbackResult:
        """Take the last message of the newest turn out of the session; the turn, if it was all.

        ``seq`` is that turn's, as in ``Context.last_seq``: so nothing pushed meanwhile is taken.
        In the dialect ``responses`` it is the last item. What a summary covers stays.

        Raises:
            InvalidInput: there is a newer turn.
            NoCheckpoint: a summary covers all turns, or there are none.
            SessionBusy: compactions came between at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        body: dict[str, object] = {"item_of": seq, "dialect": dialect}
        answer = await self._ask(jobs.ROLLBACK, session, body, timeout_s)
        return RollbackResult.model_validate(answer)

    async def fork(
        self,
        session: str,
        new_session: str,
        *,
        at: str | int | None = None,
        timeout_s: float = 10.0,
    ) -> Forked:
        """Begin a session as this one was after a turn; both go on independently.

        It has the same policy, system prompt and tools, and the turns, contexts and checkpoints up
        to there, under the same seqs. Forget one, and the other keeps them; what is erased in this
        session is erased in its forks, too.

        Args:
            session: stays as it is.
            new_session: must not be there.
            at: the newest turn of the fork, by its seq or turn id; or a checkpoint's id, or
                ``"v3"`` for version 3. By default now. Where calls still wait for their results,
                the fork ends before them; a turn that was named amid them is refused.
            timeout_s: longest wait for a worker.

        Raises:
            InvalidInput: ``new_session`` is there; or no such turn is, or it is amid calls: the
                message names the turns next to it that are not.
            NoCheckpoint: no such checkpoint; or what was then was covered, and no archive kept it.
            SessionBusy: the session changed at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        body = self._commands.fork(new_session, at)
        await self._redis.admit(map(self._commands.exists, [new_session]))
        return Forked.model_validate(await self._ask(jobs.ROLLBACK, session, body, timeout_s))

    async def rewind(
        self, session: str, *, at: str | int, timeout_s: float = 10.0
    ) -> RollbackResult:
        """Go back to before a turn, by its seq or turn id: push it anew as it should have been.

        That turn and all later ones leave the session; the archive keeps them, marked.

        Raises:
            InvalidInput: no such turn is in the conversation, or it is amid calls: the message
                names the turns next to it that are not.
            NoCheckpoint: what was then was covered, and no archive kept it.
            SessionBusy: the session changed at every attempt.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        body = self._commands.rewind(at)
        answer = await self._ask(jobs.ROLLBACK, session, body, timeout_s)
        return RollbackResult.model_validate(answer)

    async def info(self, session: str) -> ContextInfo:
        """The session in numbers, without its content.

        Turns that make nothing due are counted when somebody looks: the next look sees it.
        """
        reply = await self._redis.run(self._commands.info(session))
        found = self._commands.context_info(session, reply)
        if found.counted_seq < found.last_seq:
            self._waker.wake(self._commands.namespace, found.session)
        return found

    async def forget(self, session: str) -> Forgotten:
        """Remove the session from Redis at once, and from the archive as soon as a worker can.

        The result is true when there was such a session, and says how many keys are left.
        """
        self._lately.take(session)
        done = self._commands.forgotten(await self._list(self._commands.forget(session)))
        self._waker.wake(self._commands.namespace, SessionId(session), task=jobs.FORGET)
        return done

    async def clear(self, session: str) -> int:
        """Set the conversation aside, and keep the system prompt; returns how many turns left.

        The archive keeps them, marked; checkpoints are gone.
        """
        call = self._commands.clear(session, new_id=new_id)
        return self._commands.cleared(session, await self._list(call))

    async def checkpoint(self, session: str, message: str = "", *, name: str = "") -> str | None:
        """Remember the context as it is now; returns the checkpoint's id.

        None where the policy keeps no checkpoints. A name used again moves to the present.
        """
        reply = await self._redis.run(self._commands.checkpoint(session, message, name))
        return self._commands.checkpointed(session, reply)

    async def checkpoints(self, session: str) -> list[Checkpoint]:
        """What a rollback can restore, oldest first."""
        reply = await self._redis.pipeline(self._commands.list_checkpoints(session))
        return self._commands.checkpoints(session, reply)

    async def rollback(
        self, session: str, to: str | int | None = None, *, timeout_s: float = 10.0
    ) -> RollbackResult:
        """Restore a checkpoint: the newest, one by its id, or the context of a version.

        Turns after it leave the session; the archive keeps them, marked. The newest checkpoint
        is used up by it; one restored by its id stays. Atomic: a compaction under way is dropped,
        and a turn pushed meanwhile is either rolled back too, or follows the restored state.

        Raises:
            NoCheckpoint: there is none, or none of this id or version.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        answer = await self._ask(jobs.ROLLBACK, session, self._commands.rollback(to), timeout_s)
        return RollbackResult.model_validate(answer)

    @overload
    async def summarize(
        self, session: str, *, template: str = "", timeout_s: float = 60.0
    ) -> SummarizationResult: ...
    @overload
    async def summarize(
        self, session: str, *, template: str = "", wait: bool, timeout_s: float = 60.0
    ) -> SummarizationResult | None: ...
    async def summarize(
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
        """
        body = self._commands.summarize(template)
        if not wait:
            await self._put(ask(jobs.FORCE, self._namespace, session, body, timeout_s=timeout_s))
            return None
        answer = await self._ask(jobs.FORCE, session, body, timeout_s)
        return SummarizationResult.model_validate(answer)

    async def trajectory(self, session: str, *, timeout_s: float = 30.0) -> Trajectory:
        """The whole session from its first turn on, complete whatever was compacted.

        Raises:
            NotAnswered: no worker was done in time; says whether one is at it.
            UnknownSession: neither in Redis nor in the archive.
        """
        from turnmill.contract.trajectory import Trajectory  # noqa: PLC0415 - few agents need it

        found = Trajectory.model_validate(await self._ask(jobs.EXPORT, session, {}, timeout_s))
        with suppress(UnknownSession):  # expired: the archive has it all the same
            now = await self.read(session)
            return found.model_copy(update={"context": tuple(now.messages_for("chat"))})
        return found

    async def turn(self, session: str, seq: int, *, timeout_s: float = 30.0) -> TrajectoryTurn:
        """One turn as it was pushed, whatever was compacted; ``state`` says if it was set aside.

        Raises:
            InvalidInput: there is no such turn; says which there are.
            NotAnswered: no worker was done in time; says whether one is at it.
            UnknownSession: neither in Redis nor in the archive.
        """
        from turnmill.contract.trajectory import Trajectory  # noqa: PLC0415 - few agents need it

        body = self._commands.turn(seq)
        found = Trajectory.model_validate(await self._ask(jobs.EXPORT, session, body, timeout_s))
        return next(turn for turn in found.turns if turn.seq == seq)

    async def ground(
        self, query: str, k: int = 5, *, session: str | None = None, timeout_s: float = 5.0
    ) -> GroundedContext:
        """What the namespace, or one session of it, remembers: at most ``k`` memories, best first.

        Raises:
            InvalidInput: ``k`` is not in 1..100.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        body = self._commands.ground(query, k, session)
        return GroundedContext.model_validate(await self._ask(jobs.GROUND, "", body, timeout_s))

    async def remember(self, text: str, *, timeout_s: float = 5.0) -> str:
        """Have the namespace remember a text; returns the memory's id once it is stored.

        Raises:
            InvalidInput: not text, blank, or more than 100,000 characters.
            NotAnswered: no worker was done in time; says whether one is at it.
        """
        return str(await self._ask(jobs.REMEMBER, "", self._commands.remember(text), timeout_s))

    async def manager(
        self,
        session: str,
        policy: Policy | str | None = None,
        system_prompt: str | None = None,
        *,
        tools: Tools | None = None,
        parent: str | None = None,
    ) -> AsyncContextManager:
        """The handle of one session; opens it when anything else is given."""
        if any(given is not None for given in (policy, system_prompt, tools, parent)):
            await self.open(session, policy, system_prompt, tools=tools, parent=parent)
        return AsyncContextManager(self, session)

    async def sessions(self) -> list[SessionId]:
        """All sessions of the namespace, the most recently pushed first."""
        keys = self._commands.index_keys()
        found = await self._redis.pipeline([("ZRANGE", k, 0, -1, "WITHSCORES") for k in keys])
        return self._commands.sessions(found)

    async def sessions_page(self, after: str = "", *, limit: int = 100) -> SessionPage:
        """At most so many of these, and where the next page begins: its ``after``.

        Whatever is pushed to between two pages moves to the front.

        Raises:
            InvalidInput: ``limit`` is not in 1..1000, or no page said this ``after``.
        """
        found = await self._redis.pipeline(self._commands.list_page(after, limit))
        return self._commands.page(found, after, limit)

    async def usage(self, by: str = "day") -> list[Bill]:
        """What compactions saved and cost, summed up by any of session, day, model, with commas.

        Of the sessions that are in Redis, the newest thousand compactions of each: a round trip
        for 100 sessions. ``""`` sums up all, ``"day,model"`` each model on each day.

        Raises:
            InvalidInput: it cannot be summed up by that.
            CorruptContext: what is stored of a compaction cannot be read.
        """
        names = fields_of(by)
        sessions = await self.sessions()
        bills: list[Bill] = []
        for at in range(0, len(sessions), SESSIONS_AT_ONCE):
            asked = self._commands.list_compactions(sessions[at : at + SESSIONS_AT_ONCE])
            found = self._commands.compactions(await self._redis.pipeline(asked))
            bills += summed(bills_in(self._namespace, found), names)
        return summed(bills, names)

    async def close(self) -> None:
        """Publish waiting hints, briefly, and close the connections made here."""
        self._waker.close()
        await self._redis.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _put(self, asked: Ask) -> None:
        """Lay a question down, and hint the job that answers it."""
        await self._redis.register(REGISTER_EVERY_S)
        await self._redis.plain(asked.put)
        self._waker.wake(asked.namespace, asked.session, task=asked.task, ask=asked.id)

    async def _ask(self, task: str, session: str, body: dict[str, object], timeout_s: float) -> Any:
        """What a worker answers."""
        wait_s = self._redis.look_s
        asked = ask(task, self._namespace, session, body, timeout_s=timeout_s, look_s=wait_s)
        await self._put(asked)
        while not asked.is_over():
            if (reply := await self._redis.plain(asked.look)) is not None:
                return asked.answer(reply)
        raise asked.not_answered(withdrawn=bool(await self._redis.plain(asked.withdraw)))

    async def _list(self, call: Call) -> Any:
        """The reply of a script that may leave work to the sweep."""
        await self._redis.register(REGISTER_EVERY_S)
        return await self._redis.run(call)
