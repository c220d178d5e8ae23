"""Opening sessions, and the policies they follow by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnmill.commands.calls import LUA, Base, Call, Command
from turnmill.contract.encodings import bound_by_bytes
from turnmill.contract.errors import (
    InvalidPolicy,
    InvalidTurn,
    SystemPromptTooLarge,
    UnknownPolicy,
)
from turnmill.contract.keys import policies_key
from turnmill.contract.names import policy_name
from turnmill.contract.policy import MIN_ROOM_TOKENS, Policy
from turnmill.contract.render import system_message
from turnmill.contract.scripts import load_script
from turnmill.contract.sealing import Secret
from turnmill.contract.stored_policy import policy_body, stored_policy
from turnmill.read_reply import DEFAULT_POLICY, bound

if TYPE_CHECKING:
    from turnmill.contract.tools import Tools

__all__ = ["DEFAULT_NAME", "Opening"]

DEFAULT_NAME = "default"
"""The namespace's policy for sessions opened without one."""


class Opening(Base):
    """Creating sessions and changing how they are kept."""

    def open(
        self,
        session: str,
        policy: Policy | None,
        system_prompt: str | None,
        policy_name: str = "",
        tools: Tools | None = None,
    ) -> Call:
        """Create a session, or change what is given; None leaves it as it is.

        The script weighs system prompt and tools by an upper bound. If the bound leaves it in
        doubt, ``is_refused`` is true of the reply, and ``open_finally`` settles it.
        """
        name, keys = self._keys(session)
        if policy is not None:
            policy = _valid(policy)
        chosen = policy or DEFAULT_POLICY
        words = load_script(LUA, "open").call(
            keys,
            session=name,
            policy=policy_body(policy) if policy else "",
            policy_name=policy_name,
            hard=chosen.limits(0).hard,
            ttl_ms=chosen.ttl_s * 1000,
            checkpoint_every=chosen.checkpoint_interval,
            keep_checkpoints=chosen.keep_checkpoints,
            **_weighed(system_prompt, tools),
            is_final=0,
            min_room=MIN_ROOM_TOKENS,
        )
        return Call(load_script(LUA, "open"), words)

    @staticmethod
    def open_finally(call: Call, exact: tuple[int, int] | None) -> Call:
        """The same call with exact counts of prompt and tools; without, upper bounds decide."""
        script, words = call
        known = {"is_final": 1}
        if exact is not None:
            known["system_tokens"], known["tools_tokens"] = exact
        changed = list(words)
        for name, value in known.items():
            changed[1 + len(script.keys) + script.args.index(name)] = value
        return Call(script, changed)

    @staticmethod
    def is_refused(reply: Sequence[int]) -> bool:
        """Whether nothing was changed: prompt and tools leave no room, or that is in doubt."""
        return reply[0] == 0

    @staticmethod
    def opened(reply: Sequence[int]) -> bool:
        """Whether the workers want a hint.

        Raises:
            SystemPromptTooLarge: prompt and tools leave no room; nothing was changed.
        """
        if Opening.is_refused(reply):
            _, tokens, limit = reply
            raise SystemPromptTooLarge(
                f"system_prompt and tools: up to {tokens} tokens, and a conversation needs "
                f"{MIN_ROOM_TOKENS} more; the policy's hard limit is {limit}"
            )
        return bool(reply[1])

    def policy_named(self, name: str) -> Command:
        """The JSON of one of the namespace's policies."""
        return ("HGET", policies_key(self.namespace), policy_name(name))

    def named_policy(self, name: str, reply: bytes | None) -> Policy:
        """The policy in the reply.

        Raises:
            UnknownPolicy: the namespace has none of this name.
        """
        if reply is None:
            raise UnknownPolicy(
                f"no policy {name!r} in namespace {self.namespace!r}: "
                "`turnmill policies list` shows those there are"
            )
        return stored_policy(reply)

    def put_policy(self, name: str, policy: Policy) -> Command:
        """Give the namespace a policy under a name."""
        body = policy_body(_valid(policy))
        return ("HSET", policies_key(self.namespace), policy_name(name), body)

    def list_policies(self) -> Command:
        """All policies of the namespace."""
        return ("HGETALL", policies_key(self.namespace))

    @staticmethod
    def policies(reply: Any) -> dict[str, Policy]:
        """The policies in the reply, by name."""
        pairs = (
            reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
        )
        return {name.decode(): stored_policy(body) for name, body in sorted(pairs)}

    def exists(self, session: str) -> Command:
        """Asks whether there is such a session."""
        return ("EXISTS", self._keys(session)[1].meta)

    def policy_followed(self, session: str) -> Command:
        """Asks whether the session has a policy, and under what name."""
        return ("HMGET", self._keys(session)[1].meta, "policy", "policy_name")


def _weighed(system_prompt: str | None, tools: Tools | None) -> dict[str, str | bytes | int]:
    """System prompt and tools as the script takes them, bounded."""
    if system_prompt is not None and not isinstance(system_prompt, str):
        raise InvalidTurn(f"system_prompt: must be a str, got {type(system_prompt).__name__}")
    tokens = bound([system_message(system_prompt)]) if system_prompt else 0
    schemas, most, in_bytes = _schemas(tools) if tools is not None else (b"", 0, 0)
    return {
        "has_system": int(system_prompt is not None),
        "system": Secret((system_prompt or "").encode("utf-8", "replace")),
        "system_tokens": tokens,
        "has_tools": int(tools is not None),
        "tools": Secret(schemas),
        "tools_tokens": most,
        "tools_bound": most,
        "tools_bytes": in_bytes,
    }


def _schemas(tools: Tools) -> tuple[bytes, int, int]:
    """The tools as they are stored, and their bounds: the session's encoding may not be known."""
    from turnmill.contract.tools import bound_tools, tools_body  # noqa: PLC0415 - few tell of any

    body = tools_body(tools)
    return body, bound_tools(body), bound_tools(body, bound_by_bytes)


def _valid(policy: object) -> Policy:
    """The policy as every read will load it: ``model_copy(update=…)`` checks nothing.

    Raises:
        InvalidPolicy: this is not a policy, or a field is wrong; nothing was sent.
    """
    if not isinstance(policy, Policy):
        raise InvalidPolicy(
            f"policy: must be a Policy, got {type(policy).__name__}; Policy(**fields) makes one"
        )
    return Policy(**policy.model_dump(warnings=False))
