"""Where ADK's sessions lie in Redis: events and values beside the turns of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic_core import to_json

from turnmill import AsyncContextClient, lua
from turnmill.commands import Call, Command
from turnmill.contract.codec import decode_json
from turnmill.contract.keys import SessionKeys, session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill.contract.scripts import load_script
from turnmill.contract.sealing import Secret
from turnmill.contract.shared_keys import hash_of, shared_key

__all__ = ["Owner", "Scopes", "Store", "scopes"]

_VALUE: Final = "="
"""Before the names of values, so that none is taken for a field of ours."""

_LONGEST_NAME: Final = 200


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
        body = event.model_dump_json(exclude_none=True).encode("utf-8", "surrogatepass")
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
