"""What is laid down for one session: prompt, tools and policy, and the user's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill.commands.handle_results import instructing, revoking
from turnmill.contract.context import Pushed
from turnmill.contract.policy import Policy
from turnmill.contract.rules import Rule

if TYPE_CHECKING:
    from turnmill._async.client import AsyncContextClient
    from turnmill.contract.tools import Tools

__all__ = ["AsyncRulebook"]


class AsyncRulebook:
    """The part of a session's handle that is about what is laid down."""

    def __init__(self, client: AsyncContextClient, session: str) -> None:
        self._client = client
        self._session = session

    async def set_system_prompt(self, text: str) -> None:
        """Set or change the system prompt; whether the rest still fits is decided at once.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room under the policy's hard limit.
        """
        await self._client.open(self._session, system_prompt=text)

    async def set_tools(self, tools: Tools) -> None:
        """Set or change the schemas of the agent's tools, which count as part of each request.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room under the policy's hard limit.
        """
        await self._client.open(self._session, tools=tools)

    async def set_policy(self, policy: Policy | str) -> None:
        """Change the policy, to one of one's own or one of the namespace's by name."""
        await self._client.open(self._session, policy)

    async def rules(self) -> tuple[Rule, ...]:
        """The user's rules in force, as ``AsyncContextClient.rules``."""
        return await self._client.rules(self._session)

    async def instruct(self, text: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn whose whole text is a rule.

        Raises:
            InvalidInput: not text, blank, or more than 1,000 characters.
        """
        return await self._client.push(self._session, instructing(text), turn_id=turn_id)

    async def revoke(self, rule: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn that ends the rule of this id; it leaves with the next compaction.

        Raises:
            InvalidInput: no rule of this id is in force.
        """
        turn = revoking(rule, await self.rules())
        return await self._client.push(self._session, turn, turn_id=turn_id)
