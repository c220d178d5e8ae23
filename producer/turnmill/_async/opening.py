"""Opening sessions, and the policies they follow: this part of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill._async.connection import AsyncConnection
from turnmill._async.waiting import in_thread
from turnmill.commands import DEFAULT_NAME, Commands
from turnmill.contract.errors import SystemPromptTooLarge
from turnmill.contract.names import SessionId
from turnmill.contract.policy import Policy
from turnmill.wake import Waker

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools

__all__ = ["AsyncOpening"]


class AsyncOpening:
    """How a client opens sessions."""

    _commands: Commands
    _redis: AsyncConnection
    _waker: Waker

    async def sessions(self) -> list[SessionId]:
        """All sessions of the namespace, the most recently pushed first."""
        raise NotImplementedError

    async def open(
        self,
        session: str,
        policy: Policy | str | None = None,
        system_prompt: str | None = None,
        *,
        tools: Tools | None = None,
    ) -> None:
        """Create a session, or change its policy, system prompt or tools.

        None leaves what is there. ``tools`` are the schemas as every request of the agent has
        them, OpenAI's or Anthropic's; with them ``max_tokens`` is of the whole request. ``[]``
        takes them out.

        A policy given by name is the namespace's of that name (``set_policy``), and changes with
        it. A session needs no opening to be pushed to: it then has the namespace's policy called
        ``default``, or ``Policy()``.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room under the policy's hard limit.
            InvalidInput: the tools are not such schemas.
            QuotaExceeded: the namespace may have no more sessions.
            UnknownPolicy: the namespace has none of this name.
        """
        if isinstance(policy, str):
            await self._open_by_name(session, policy, system_prompt, tools)
            return
        await self._open(session, policy, system_prompt, tools=tools)
        if policy is None:
            await self._follow_default(session)

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
            from turnmill.exact_tokens import exact_tokens  # noqa: PLC0415 - few are long

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
