# Generated from _async/rulebook.py: change that, then run `make sync`.
"""The rules of one session: what the user laid down, and how to add and end some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnmill.commands.handle_results import instructing, revoking
from turnmill.contract.context import Pushed
from turnmill.contract.rules import Rule

if TYPE_CHECKING:
    from turnmill._sync.client import ContextClient

__all__ = ["Rulebook"]


class Rulebook:
    """The part of a session's handle that is about rules."""

    def __init__(self, client: ContextClient, session: str) -> None:
        self._client = client
        self._session = session

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
