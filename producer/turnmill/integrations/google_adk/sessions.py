"""ADK's sessions in Redis: every event is kept whole, and pushed as a turn for the model."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

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
from google.adk.sessions.state import State
from pydantic_core import to_json

from turnmill import lua
from turnmill.client._async.client import AsyncContextClient
from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import TurnmillError
from turnmill.contract.keys import SessionKeys, hash_of, session_keys, shared_key
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.policy import Policy
from turnmill.contract.scripts import Call, Command, load_script
from turnmill.contract.sealing import Secret
from turnmill.contract.turns import to_turn
from turnmill.integrations.google_adk.messages import to_chat

_VALUE: Final = "="
"""Before the names of values, so that none is taken for a field of ours."""

_LONGEST_NAME: Final = 200

REWIND_S: Final = 5.0
"""The longest wait for a worker that takes a session back."""

log: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose session it is."""

    app_name: str
    user_id: str
    session_id: str

    @property
    def name(self) -> str:
        """The name of its session in turnmill; no two owners share one."""
        parts = (quote(each, safe="").replace("%", "=") for each in self._all)
        name = "/".join(["adk", *parts])
        return name if len(name) <= _LONGEST_NAME else f"adk-long/{hash_of(*self._all)}"

    @property
    def _all(self) -> tuple[str, str, str]:
        return self.app_name, self.user_id, self.session_id


@dataclass(frozen=True, slots=True)
class Scopes:
    """Values by whom they belong to, without ADK's prefixes; temporary ones are left out."""

    app: dict[str, Any]
    user: dict[str, Any]
    session: dict[str, Any]

    def merged(self) -> dict[str, Any]:
        """As an agent sees them, with the prefixes."""
        app = {State.APP_PREFIX + key: value for key, value in self.app.items()}
        user = {State.USER_PREFIX + key: value for key, value in self.user.items()}
        return {**self.session, **app, **user}


def scopes(values: Mapping[str, Any] | None) -> Scopes:
    """The values as ADK names them, apart."""
    found = Scopes({}, {}, {})
    for key, value in (values or {}).items():
        if key.startswith(State.APP_PREFIX):
            found.app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            found.user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            found.session[key] = value
    return found


class Store:
    """Every call to Redis for ADK's sessions that a client of turnmill does not have."""

    def __init__(self, client: AsyncContextClient) -> None:
        self._redis = client._redis  # noqa: SLF001 - its connections, its cipher and its errors
        self._namespace = Namespace(client.namespace)

    async def begin(self, owner: Owner, state: Scopes, at_s: float) -> bool:
        """Keep a session, and list it; False when it is there already."""
        who = Secret(to_json([owner.app_name, owner.user_id, owner.session_id]))
        words = load_script(lua.__name__, "keep_session").call(
            self._keys(owner), _words(state.session), who=who, updated=repr(at_s)
        )
        made = await self._redis.run(Call(load_script(lua.__name__, "keep_session"), words))
        if made:
            listed = [("SADD", key, owner.name) for key in self._lists(owner)]
            await self._redis.pipeline([*listed, *self._shared(owner, state)])
        return bool(made)

    async def knows(self, owner: Owner, event_id: str) -> tuple[bool, bool]:
        """Whether there is the session, and whether it has the event."""
        keys = self._keys(owner)
        found = await self._redis.pipeline(
            [("HEXISTS", keys.state, "who"), ("HEXISTS", keys.events, f"id:{event_id}")]
        )
        return bool(found[0]), bool(found[1])

    async def keep(self, owner: Owner, event: Event, turn_id: str) -> bool:
        """Keep an event whole, with what it changes; False when there is no such session."""
        state = scopes(event.actions.state_delta)
        body = encode_json(event.model_dump(mode="json", exclude_none=True))
        words = load_script(lua.__name__, "keep_event").call(
            self._keys(owner),
            _words(state.session),
            event_id=event.id,
            turn_id=turn_id,
            event=Secret(body),
            updated=repr(event.timestamp),
        )
        done = await self._redis.run(Call(load_script(lua.__name__, "keep_event"), words))
        await self._redis.pipeline(self._shared(owner, state) if done else [])
        return done is not None

    async def load(self, owner: Owner) -> Session | None:
        """The session as it is stored, with all its events."""
        keys = self._keys(owner)
        app, user = self._values_of(owner)
        asked = [("HGETALL", key) for key in (keys.state, keys.events, app, user)]
        state, events, *shared = [_fields(each) for each in await self._redis.pipeline(asked)]
        session = _session(state, *shared)
        if session:
            session.events = _events(events)
        return session

    async def listed(self, app_name: str, user_id: str | None) -> list[Session]:
        """All sessions of an app, or of one of its users; forgets those that have expired."""
        whose = (app_name,) if user_id is None else (app_name, user_id)
        listed = shared_key(self._namespace, "sessions", *whose)
        names = sorted(await self._redis.plain(("SMEMBERS", listed)))
        keys = [session_keys(self._namespace, SessionId(name.decode())) for name in names]
        states = await self._redis.pipeline([("HGETALL", each.state) for each in keys])
        found = [_session(_fields(each), {}, {}) for each in states]
        gone = [name for name, session in zip(names, found, strict=True) if session is None]
        await self._redis.pipeline([("SREM", listed, *gone)] if gone else [])
        return await self._with_shared([session for session in found if session])

    async def _with_shared(self, sessions: Sequence[Session]) -> list[Session]:
        owners = [Owner(each.app_name, each.user_id, each.id) for each in sessions]
        keys = sorted({key for owner in owners for key in self._values_of(owner)})
        values = await self._redis.pipeline([("HGETALL", key) for key in keys])
        known = dict(zip(keys, map(_fields, values), strict=True))
        for session, owner in zip(sessions, owners, strict=True):
            app, user = (_values(known[key]) for key in self._values_of(owner))
            session.state = Scopes(app, user, session.state).merged()
        return list(sessions)

    async def user_values(self, app_name: str, user_id: str) -> dict[str, Any]:
        """What is kept for all sessions of a user."""
        _, key = self._values_of(Owner(app_name, user_id, ""))
        return _values(_fields(await self._redis.plain(("HGETALL", key))))

    async def newest(self, owner: Owner) -> tuple[int, str]:
        """The seq of the newest turn that an event was pushed as, and the event's id."""
        found = await self._redis.plain(("HGET", self._keys(owner).events, "newest"))
        seq, _, event_id = (found or b"0").decode().partition(" ")
        return int(seq), event_id

    async def unlist(self, owner: Owner) -> None:
        """Take a session off the lists."""
        await self._redis.pipeline([("SREM", key, owner.name) for key in self._lists(owner)])

    def _keys(self, owner: Owner) -> SessionKeys:
        return session_keys(self._namespace, SessionId(owner.name))

    def _lists(self, owner: Owner) -> tuple[str, str]:
        app, user = owner.app_name, owner.user_id
        return (
            shared_key(self._namespace, "sessions", app),
            shared_key(self._namespace, "sessions", app, user),
        )

    def _values_of(self, owner: Owner) -> tuple[str, str]:
        app, user = owner.app_name, owner.user_id
        return (
            shared_key(self._namespace, "values", app),
            shared_key(self._namespace, "values", app, user),
        )

    def _shared(self, owner: Owner, state: Scopes) -> list[Command]:
        pairs = zip(self._values_of(owner), (state.app, state.user), strict=True)
        return [("HSET", key, *_words(values)) for key, values in pairs if values]


def _words(values: Mapping[str, Any]) -> list[str | bytes | int]:
    # As ADK stores what is no JSON: its text, and not a failed write.
    return [
        word
        for key, value in values.items()
        for word in (_VALUE + key, Secret(to_json(value, serialize_unknown=True)))
    ]


def _fields(reply: Any) -> dict[str, bytes]:
    """A hash's fields; a reply to HGETALL is a list in a pipeline of ours."""
    items = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): value for name, value in items}


def _values(fields: Mapping[str, bytes]) -> dict[str, Any]:
    own = {name: value for name, value in fields.items() if name.startswith(_VALUE)}
    return {name.removeprefix(_VALUE): decode_json(value) for name, value in own.items()}


def _session(
    state: Mapping[str, bytes], app: Mapping[str, bytes], user: Mapping[str, bytes]
) -> Session | None:
    if "who" not in state:
        return None
    app_name, user_id, session_id = decode_json(state["who"])
    return Session(
        app_name=app_name,
        user_id=user_id,
        id=session_id,
        state=Scopes(_values(app), _values(user), _values(state)).merged(),
        last_update_time=float(state["updated"]),
    )


def _events(fields: Mapping[str, bytes]) -> list[Event]:
    at: Iterable[int] = sorted(int(name) for name in fields if name.isdecimal())
    return [Event.model_validate_json(fields[str(each)]) for each in at]


class TurnmillSessionService(BaseSessionService):
    """Keeps ADK's sessions beside turnmill's, which workers keep within a policy's limits.

    Args:
        client: its ``timeout_s`` is the longest a call waits when Redis is down.
        policy: of new sessions; by default the namespace's ``default``, or ``Policy()``.

    Events and state are complete, however far the context is compacted; a ``ContextPlugin`` shows
    the model the context. All live as long as the policy says, after the last push.

    ``replayed`` counts rewinds that no worker did: what they left was pushed once more, and is
    compacted anew.
    """

    def __init__(self, client: AsyncContextClient, policy: Policy | str | None = None) -> None:
        self.client: AsyncContextClient = client
        self.store: Store = Store(client)
        self.replayed: int = 0
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
            TurnTooLarge: it is larger than the client allows, and has no texts that could be cut.
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
        await self.client.push_many(turns, on_too_large="cut")
        return bool(turns)

    async def _rewind(self, owner: Owner) -> None:
        """Take the session back to before the events that a rewind annuls."""
        session = await self.store.load(owner)
        events = session.events if session else []
        left = _apply_rewinds(events)
        gone = [event for event in _apply_rewinds(events[:-1])[len(left) :] if to_chat(event)]
        if not gone:
            return
        try:
            await self.client.rewind(owner.name, at=gone[0].id, timeout_s=REWIND_S)
        except TurnmillError as error:
            self.replayed += 1
            log.warning("context begun anew after a rewind: %s", type(error).__name__)
            await self._begin_anew(owner, left)
            return
        for event in [event for event in left if to_chat(event)][-1:]:
            await self.store.keep(owner, event, event.id)

    async def _begin_anew(self, owner: Owner, events: Sequence[Event]) -> None:
        """Push these events once more, in place of all that was pushed."""
        again = uuid.uuid4().hex[:8]
        left = {f"{event.id}~{again}": event for event in events}
        await self.client.clear(owner.name)
        await self._push(owner, left)
        for turn_id, event in left.items():
            await self.store.keep(owner, event, turn_id)


def owner_of(session: Session) -> Owner:
    """Whose it is."""
    return Owner(session.app_name, session.user_id, session.id)


def _recent(events: Sequence[Event], config: GetSessionConfig) -> list[Event]:
    count, since = config.num_recent_events, config.after_timestamp
    found = events if count is None else events[max(0, len(events) - count) :]
    return [event for event in found if since is None or event.timestamp >= since]
