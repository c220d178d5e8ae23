"""Opening sessions, and the policies they follow by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmill.commands.calls import LUA, Base, Call, Command
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
    ) -> Call:
        """Create a session, or change its policy or system prompt; None leaves it as it is.

        The script weighs a system prompt by an upper bound. If the bound leaves it in doubt,
        ``is_refused`` is true of the reply, and ``open_finally`` settles it.
        """
        name, keys = self._keys(session)
        if system_prompt is not None and not isinstance(system_prompt, str):
            raise InvalidTurn(f"system_prompt: must be a str, got {type(system_prompt).__name__}")
        if policy is not None:
            policy = _valid(policy)
        chosen = policy or DEFAULT_POLICY
        tokens = bound([system_message(system_prompt)]) if system_prompt else 0
        words = load_script(LUA, "open").call(
            keys,
            session=name,
            policy=policy_body(policy) if policy else "",
            policy_name=policy_name,
            hard=chosen.hard_limit,
            ttl_ms=chosen.ttl_s * 1000,
            checkpoint_every=chosen.checkpoint_interval,
            keep_checkpoints=chosen.keep_checkpoints,
            has_system=int(system_prompt is not None),
            system=Secret((system_prompt or "").encode("utf-8", "replace")),
            system_tokens=tokens,
            is_final=0,
            min_room=MIN_ROOM_TOKENS,
        )
        return Call(load_script(LUA, "open"), words)

    @staticmethod
    def open_finally(call: Call, system_tokens: int | None) -> Call:
        """The same call with the prompt's exact count; without one, its upper bound decides."""
        script, words = call
        at = 1 + len(script.keys) + script.args.index("system_tokens")
        exact = words[at] if system_tokens is None else system_tokens
        return Call(script, [*words[:at], exact, 1, *words[at + 2 :]])

    @staticmethod
    def is_refused(reply: Sequence[int]) -> bool:
        """Whether nothing was changed: the system prompt leaves no room, or that is in doubt."""
        return reply[0] == 0

    @staticmethod
    def opened(reply: Sequence[int]) -> bool:
        """Whether the workers want a hint.

        Raises:
            SystemPromptTooLarge: the prompt leaves no room; nothing was changed.
        """
        if Opening.is_refused(reply):
            _, tokens, limit = reply
            raise SystemPromptTooLarge(
                f"system_prompt: up to {tokens} tokens, and a conversation needs "
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
