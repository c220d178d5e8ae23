"""A session for openai-agents that never outgrows its model; needs ``turnmill[openai-agents]``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from agents import FunctionTool, RunContextWrapper, SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.run import ModelInputData

from turnmill.contract.errors import (
    InvalidInput,
    NoCheckpoint,
    SessionBusy,
    StoreUnavailable,
    UnknownSession,
)
from turnmill.contract.estimate import bound_tokens
from turnmill.dialects.convert import from_chat
from turnmill.dialects.responses import to_chat
from turnmill.integrations.shared import Beside, function

if TYPE_CHECKING:
    from agents import Tool, TResponseInputItem
    from agents.mcp import MCPServer
    from agents.memory import OpenAIResponsesCompactionArgs
    from agents.run import CallModelData

    from turnmill.client._async.client import AsyncContextClient
    from turnmill.contract.policy import Policy
    from turnmill.read.context import Context

__all__ = ["SessionCounts", "TurnmillSession"]


_PLAIN = frozenset({"role", "content"})
_SYSTEM = frozenset({"system", "developer"})


def turns_of(items: Sequence[TResponseInputItem]) -> list[list[dict[str, Any]]]:
    """The items in groups that stay together: a model's output, and what its calls returned.

    So a call stays beside its output, and reasoning beside what it led to.

    Raises:
        InvalidTurn: an item is of no known type or lacks what its type needs; names it.
    """
    typed = [_typed(item) for item in items]
    to_chat(typed)
    turns: list[list[dict[str, Any]]] = []
    for item in typed:
        before = turns[-1][-1] if turns else None
        if before is None or _is_input(item) or (_is_output(item) and not _is_output(before)):
            turns.append([])
        turns[-1].append(item)
    return turns


def functions_of(tools: Sequence[Tool]) -> tuple[dict[str, Any], ...]:
    """The schemas of the functions among the tools."""
    found = (each for each in tools if isinstance(each, FunctionTool))
    return tuple(function(each.name, each.description, each.params_json_schema) for each in found)


def items_of(context: Context) -> list[TResponseInputItem]:
    """The context as input items; what the API has ``instructions`` for comes first.

    With reasoning at its end: it was added, and may be taken back.
    """
    chat = context.messages if context.chat is None else context.chat
    found = from_chat(chat, "responses")
    first = [{"role": "system", "content": text} for text in [found.system] if text]
    items = map(_with_id, [*first, *found.messages, *found.begun])
    return cast("list[TResponseInputItem]", list(items))


def _with_id(item: dict[str, Any]) -> dict[str, Any]:
    """An assistant's parts with the id that the SDK has for those without: it reads no others."""
    if item.get("role") != "assistant" or isinstance(item.get("content"), str) or "id" in item:
        return item
    return {"status": "completed", **item, "id": FAKE_RESPONSES_ID}


def _typed(item: TResponseInputItem) -> dict[str, Any]:
    """The item as a message that says so, where it has more to keep than a chat message would."""
    found = cast("dict[str, Any]", item)
    is_plain = found.keys() <= _PLAIN and found.get("role") not in _SYSTEM
    return found if "type" in found or is_plain else {"type": "message", **found}


def _is_of_user(messages: Sequence[Mapping[str, Any]]) -> bool:
    return any(message["role"] == "user" for message in messages[:1])


def _is_input(item: dict[str, Any]) -> bool:
    return item.get("type", "message") == "message" and item.get("role") != "assistant"


def _is_output(item: dict[str, Any]) -> bool:
    kind = str(item.get("type", "message"))
    return not _is_input(item) and not kind.endswith(("_output", "_response"))


log: logging.Logger = logging.getLogger(__name__)

ATTEMPTS = 8
"""An item is not taken back when another was added meanwhile; then the newest is looked at again.
"""

_Turn = dict[str, Any]


@dataclass(slots=True)
class SessionCounts:
    """What became of the calls.

    Attributes:
        pushed: turns pushed.
        waiting: turns kept here until Redis can be reached.
        failed: calls answered from memory, because Redis could not be reached.
        unfiltered: model calls of ``call_model_input_filter`` whose input was left as it was.
    """

    pushed: int = 0
    waiting: int = 0
    failed: int = 0
    unfiltered: int = 0


class TurnmillSession:
    """A ``Session`` of openai-agents: the runner gets the compacted context as its history.

    Args:
        session_id: the session's name.
        client: of the event loop that the agent runs in; shared by its sessions.
        policy: given to the session at the first call here; None leaves what it has.
        session_settings: ``limit`` is the most items that ``get_items`` returns by default.

    ``await Runner.run(agent, "Hi", session=TurnmillSession("user-7", client=client))``. While Redis
    cannot be reached, a session that was read before goes on from memory, and pushes later what was
    added; one that was not raises ``StoreUnavailable``.
    """

    def __init__(
        self,
        session_id: str,
        *,
        client: AsyncContextClient,
        policy: Policy | str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id: str = session_id
        settings = coerce_session_settings(session_settings or {})
        self.session_settings: SessionSettings | None = settings
        self.counts: SessionCounts = SessionCounts()
        self._name = session_id
        self._client = client
        self._policy = policy
        self._seen: list[TResponseInputItem] | None = None
        self._waiting: list[_Turn] = []
        self._beside = Beside()
        self._offered: tuple[list[MCPServer], tuple[_Turn, ...]] = ([], ())
        self._instructions_tokens = 0
        self._newest: TResponseInputItem | None = None
        self._pushed_seq = self._read_seq = 0

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The context as input items, oldest first; with ``limit`` the newest so many.

        Raises:
            StoreUnavailable: Redis cannot be reached, and nothing is known of the session here.
        """
        most = resolve_session_limit(limit, self.session_settings)
        try:
            context = await self._context()
        except StoreUnavailable as error:
            items = self._remembered(error)
        else:
            items = self._seen = items_of(context) if context else []
            self._read_seq = context.last_seq if context else 0
        # Slicing from the end by 0 would be all of them.
        return list(items) if most is None else items[max(len(items) - max(most, 0), 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append the items: what one model response led to stays together.

        Raises:
            InvalidTurn: an item is of no known type; nothing was stored.
            StoreUnavailable: Redis cannot be reached, and nothing is known of the session here.
        """
        turns = [{"messages": turn, "turn_id": uuid4().hex} for turn in turns_of(items)]
        self._newest = items[-1] if items else self._newest
        try:
            await self._push(turns)
        except StoreUnavailable as error:
            self._remembered(error)
            self._waiting += turns
        self.counts.waiting = len(self._waiting)
        if self._seen is not None:
            self._seen += items

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the newest item, and return it; None if there is none, or only a summary.

        Raises:
            NotAnswered: no worker did it in time.
            SessionBusy: other items were added at every attempt.
        """
        tried = 0
        for _ in range(ATTEMPTS):
            context = await self._context()
            items = items_of(context) if context else []
            if not context or not items:
                return None
            try:
                await self._client.take_back(self._name, context.last_seq, dialect="responses")
            except NoCheckpoint:
                return None
            except InvalidInput:
                if tried == context.last_seq:
                    raise  # not because of a newer turn
                tried = context.last_seq
                continue
            self._seen = items[:-1]
            return items[-1]
        raise SessionBusy(f"{self._name!r} is added to again and again; try again")

    async def clear_session(self) -> None:
        """Set the conversation aside: the session is empty, the archive keeps it, marked."""
        with suppress(UnknownSession):
            await self._client.clear(self._name)
        self._seen, self._waiting, self.counts.waiting = [], [], 0

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Go on in a branch that begins before a message of the user, and return its name.

        It is a fork, the session ``<session_id>~<branch name>``; this conversation stays as it is.

        Args:
            turn_number: counts the user's messages from 1, in the branch that is current.
            branch_name: by default a new one.

        Raises:
            InvalidInput: there is no such message, or such a branch is there already.
            NoCheckpoint: no archive kept what was covered.
            NotAnswered: no worker did it in time.
        """
        await self._push([])
        branch = branch_name or f"branch_from_turn_{turn_number}_{uuid4().hex[:12]}"
        at = await self._before(turn_number)
        await self._client.fork(self._name, self._named(branch), at=at)
        self._begin(self._named(branch))
        return branch

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go on in another branch; ``main`` is the session itself.

        Raises:
            InvalidInput: there is no such branch.
            StoreUnavailable: Redis cannot be reached; the session stays where it is.
        """
        await self._push([])
        name = self._named(branch_id)
        try:
            await self._client.info(name)
        except UnknownSession as error:
            if branch_id != "main":
                raise InvalidInput(f"{self.session_id!r} has no branch {branch_id!r}") from error
        self._begin(name)

    def _named(self, branch: str) -> str:
        return self.session_id if branch == "main" else f"{self.session_id}~{branch}"

    def _begin(self, name: str) -> None:
        """Forget what is known of the branch that is left."""
        self._name = name
        self._seen, self._newest, self._beside = None, None, Beside()
        self._pushed_seq = self._read_seq = 0

    async def _before(self, turn_number: int) -> int:
        """The seq of the turn before this message of the user."""
        told = await self._client.trajectory(self._name)
        kept = [turn for turn in told.turns if turn.state == "kept"]
        if told.turns and told.turns[0].seq > 1:
            raise NoCheckpoint(
                f"the first turns of {self._name!r} were covered, and the workers have no archive "
                "that kept them: nobody can count the user's messages"
            )
        asked = [at for at, turn in enumerate(kept) if _is_of_user(turn.messages)]
        if not 0 < turn_number <= len(asked):
            raise InvalidInput(
                f"turn_number: {turn_number} is none of {len(asked)} messages of the user"
            )
        at = asked[turn_number - 1]
        return kept[at - 1].seq if at else 0

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """With ``force``, summarize all but the newest turns now, and wait for it.

        Without, it does nothing: workers compact in the background when the policy asks for it.
        Items added meanwhile are kept.

        Raises:
            NotAnswered: no worker was done in time; says whether one is at it.
            SessionBusy: another worker is compacting it, and takes long; or the session was cleared
                or lost an item meanwhile, so that nothing was compacted.
        """
        if (args or {}).get("force") and await self._context():
            await self._client.summarize(self._name)

    async def call_model_input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """For ``RunConfig``: each model call of a run gets the context as of now.

        So a single long run stays within the limit, too. The agent's instructions and functions
        count, and what its MCP servers offered when they were first asked here. The input is left
        as it is where its newest item is not the session's, as behind an ``input_filter`` of a
        handoff, and where anything fails.
        """
        given = data.model_data
        try:
            # Only counted: told to the session, instructions would come back in the input, too.
            self._instructions_tokens = bound_tokens((given.instructions or "").encode())
            tools = (*functions_of(data.agent.tools), *await self._offered_to(data))
            await self._tell(Beside("", tools))
            shown = await self.get_items()
        except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happened here
            log.warning("model input left as it is: %s", type(error).__name__)
            shown = []
        if not shown or not given.input or not self._ends_with(shown, given.input[-1]):
            self.counts.unfiltered += 1
            return given
        return replace(given, input=shown)

    def _ends_with(self, shown: Sequence[TResponseInputItem], item: TResponseInputItem) -> bool:
        """Whether the context's newest item is this one, be it shortened."""
        is_ours = self._read_seq == self._pushed_seq and item == self._newest
        return is_ours or shown[-1] == item

    async def _offered_to(self, data: CallModelData[Any]) -> tuple[_Turn, ...]:
        """The schemas of what the agent's MCP servers offer; asked once, while it has these."""
        servers, schemas = self._offered
        if servers != data.agent.mcp_servers:
            found = await data.agent.get_mcp_tools(RunContextWrapper(data.context))
            schemas = functions_of(found)
            self._offered = (list(data.agent.mcp_servers), schemas)
        return schemas

    async def _tell(self, beside: Beside) -> None:
        if beside != self._beside:
            await self._client.open(self._name, **beside.since(self._beside))
            self._beside = beside

    async def _context(self) -> Context | None:
        """The context with all that was added here; None where there is no session."""
        await self._push([])
        with suppress(UnknownSession):
            return await self._client.read(self._name, beside=self._instructions_tokens)
        return None

    async def _push(self, turns: Sequence[_Turn]) -> None:
        """Push the turns behind those that wait; their ids make a repeated push harmless."""
        if self._policy is not None:
            await self._client.open(self._name, self._policy)
            self._policy = None
        sent = [*self._waiting, *turns]
        if not sent:
            return
        pushed = await self._client.push_many(
            ((self._name, turn) for turn in sent), on_too_large="cut"
        )
        self._pushed_seq = pushed[-1].seq
        self._waiting = [turn for turn in self._waiting if turn not in sent]
        self.counts.waiting = len(self._waiting)
        self.counts.pushed += sum(not each.duplicate for each in pushed)

    def _remembered(self, error: StoreUnavailable) -> list[TResponseInputItem]:
        """The items as they were last seen here; the error where they never were."""
        if self._seen is None:
            raise error
        self.counts.failed += 1
        log.warning("session goes on from memory: %s", type(error).__name__)
        return self._seen
