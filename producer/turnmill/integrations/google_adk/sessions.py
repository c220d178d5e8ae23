"""ADK's sessions in Redis: every event is kept whole, and pushed as a turn for the model."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session

from turnmill import AsyncContextClient, Policy
from turnmill.contract.turns import to_turn
from turnmill.integrations.google_adk.messages import to_chat
from turnmill.integrations.google_adk.store import Owner, Store, scopes

__all__ = ["TurnmillSessionService", "owner_of"]


class TurnmillSessionService(BaseSessionService):
    """Keeps ADK's sessions beside turnmill's, which workers keep within a policy's limits.

    Args:
        client: its ``timeout_s`` is the longest a call waits when Redis is down.
        policy: of new sessions; by default the namespace's ``default``, or ``Policy()``.

    Events and state are complete, however far the context is compacted; a ``ContextPlugin`` shows
    the model the context. All live as long as the policy says, after the last push.
    """

    def __init__(self, client: AsyncContextClient, policy: Policy | str | None = None) -> None:
        self.client: AsyncContextClient = client
        self.store: Store = Store(client)
        self._policy = policy

    @staticmethod
    def session_name(app_name: str, user_id: str, session_id: str) -> str:
        """The name that the session has in turnmill, as for its client and command line."""
        return Owner(app_name, user_id, session_id).name

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session.

        Raises:
            AlreadyExistsError: there is one of this id.
        """
        given = (session_id or "").strip() or platform_uuid.new_uuid()
        owner = Owner(app_name, user_id, given)
        is_there, _ = await self.store.knows(owner, "")
        if not is_there:
            await self.client.open(owner.name, self._policy)
            at_s = platform_time.get_time()
            is_there = not await self.store.begin(owner, scopes(state), at_s)
        if is_there:
            raise AlreadyExistsError(f"Session with id {given} already exists.")
        made = await self.store.load(owner)
        if made is None:
            raise SessionNotFoundError(f"Session {given} was deleted while it was created.")
        return made

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session, with all its events, or those that ``config`` asks for; none is deleted."""
        session = await self.store.load(Owner(app_name, user_id, session_id.strip()))
        if session and config:
            session.events = _recent(session.events, config)
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions without their events, those updated last at the end."""
        found = await self.store.listed(app_name, user_id)
        found.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with all that was made of it, from the archive too."""
        owner = Owner(app_name, user_id, session_id.strip())
        await self.client.forget(owner.name)
        await self.store.unlist(owner)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What is kept for all sessions of a user, without the prefix."""
        return await self.store.user_values(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep the event, and push it; the same event again changes nothing.

        Raises:
            SessionNotFoundError: the session was deleted, or has expired.
            TurnTooLarge: it is larger than the client allows; nothing was stored.
        """
        if event.partial:
            return event
        owner = owner_of(session)
        is_there, is_known = await self.store.knows(owner, event.id)
        if not is_there:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if is_known:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        # Who cancels a run must not part an event from its turn.
        await asyncio.shield(self._keep(owner, event))
        self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        return event

    async def _keep(self, owner: Owner, event: Event) -> None:
        turn_id = event.id if await self._push(owner, {event.id: event}) else ""
        if not await self.store.keep(owner, event, turn_id):
            raise SessionNotFoundError(f"Session {owner.session_id} not found.")
        if event.actions.rewind_before_invocation_id:
            await self._rewind(owner)

    async def _push(self, owner: Owner, events: Mapping[str, Event]) -> bool:
        """Push the events by the ids of their turns; False where there is nothing to push."""
        said = {turn_id: to_chat(event) for turn_id, event in events.items()}
        turns = [(owner.name, to_turn(each, turn_id=key)) for key, each in said.items() if each]
        await self.client.push_many(turns)
        return bool(turns)

    async def _rewind(self, owner: Owner) -> None:
        """Begin the context anew with the events that a rewind has left."""
        session = await self.store.load(owner)
        again = uuid.uuid4().hex[:8]
        left = {f"{event.id}~{again}": event for event in _left(session)}
        await self.client.clear(owner.name)
        await self._push(owner, left)
        for turn_id, event in left.items():
            await self.store.keep(owner, event, turn_id)


def owner_of(session: Session) -> Owner:
    """Whose it is."""
    return Owner(session.app_name, session.user_id, session.id)


def _left(session: Session | None) -> Sequence[Event]:
    return _apply_rewinds(session.events) if session else ()


def _recent(events: Sequence[Event], config: GetSessionConfig) -> list[Event]:
    count, since = config.num_recent_events, config.after_timestamp
    found = events if count is None else events[max(0, len(events) - count) :]
    return [event for event in found if since is None or event.timestamp >= since]
