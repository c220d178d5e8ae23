# Generated from _async/rulebook.py: change that, then run `make sync`.
"""What is laid down for one session: prompt, tools and policy, and the user's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill.commands.handle_results import instructing, revoking
from turnmill.contract.context import Pushed
from turnmill.contract.policy import Policy
from turnmill.contract.rules import Rule

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient
    from turnmill.contract.tools import Tools

__all__ = ["Rulebook"]


class Rulebook:
    """The part of a session's handle that is about what is laid down."""

    def __init__(self, client: ContextClient, session: str) -> None:
        self._client = client
        self._session = session

    def set_system_prompt(self, text: str) -> None:
        """Set or change the system prompt; whether the rest still fits is decided at once.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room under the policy's hard limit.
        """
        self._client.open(self._session, system_prompt=text)

    def set_tools(self, tools: Tools) -> None:
        """Set or change the schemas of the agent's tools, which count as part of each request.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room under the policy's hard limit.
        """
        self._client.open(self._session, tools=tools)

    def set_policy(self, policy: Policy | str) -> None:
        """Change the policy, to one of one's own or one of the namespace's by name."""
        self._client.open(self._session, policy)

    def rules(self) -> tuple[Rule, ...]:
        """The user's rules in force, as ``ContextClient.rules``."""
        return self._client.rules(self._session)

    def instruct(self, text: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn whose whole text is a rule.

        Raises:
            InvalidInput: not text, blank, or more than 1,000 characters.
        """
        return self._client.push(self._session, instructing(text), turn_id=turn_id)

    def revoke(self, rule: str, *, turn_id: str | None = None) -> Pushed:
        """Append a user's turn that ends the rule of this id; it leaves with the next compaction.

        Raises:
            InvalidInput: no rule of this id is in force.
        """
        turn = revoking(rule, self.rules())
        return self._client.push(self._session, turn, turn_id=turn_id)
