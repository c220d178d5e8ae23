"""A session's numbers as Redis keeps them, as a read gets them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.correction import Correction
from turnmill.contract.estimate import CountMessages, bound_turn, file_of
from turnmill.contract.image_tokens import FORMULAS
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy, stored_policy
from turnmill.contract.render import render_head, system_message
from turnmill.contract.sealing import text_of

DEFAULT_POLICY = Policy()

META_FIELDS = (
    b"epoch",
    b"version",
    b"watermark",
    b"last_seq",
    b"counted_seq",
    b"system",
    b"system_tokens",
    b"context_tokens",
    b"tail_tokens",
    b"policy",
    b"basis",
    b"counted_settings",
    b"pictures",
    b"images_before",
    b"dialect",
    b"tools_tokens",
    b"tools_bound",
    b"ratios",
    b"tools_bytes",
    b"commit_id",
    b"settings",
    b"settings_id",
)


_PREFIX: Final = (b"epoch", b"version", b"commit_id", b"settings_id")
"""What changes with all that stands before the turns: the commit, system prompt and tools."""


@dataclass(frozen=True, slots=True)
class View:
    """The meta fields a read returns, in the order of ``META_FIELDS``.

    ``prefix`` names what stands before the turns.
    """

    last_seq: Seq
    counted_seq: Seq
    system: str
    usage: Usage
    policy_json: bytes
    basis: str
    is_counted: bool
    images_before: int
    seen_dialect: str = ""
    tools_tokens: int = 0
    tools_bound: int = 0
    ratios: str = ""
    tools_bytes: int = 0
    version: int = 0
    prefix: str = ""

    @classmethod
    def of(cls, fields: Sequence[bytes | None]) -> View:
        """The fields as Redis returned them; ``usage.system`` is with the tools."""
        found = dict(zip(META_FIELDS, fields, strict=True))
        tools = to_int(found[b"tools_tokens"])
        return cls(
            last_seq=Seq(to_int(found[b"last_seq"])),
            counted_seq=Seq(to_int(found[b"counted_seq"])),
            system=text_of(found[b"system"]),
            usage=Usage(
                system=to_int(found[b"system_tokens"]) + tools,
                summary=to_int(found[b"context_tokens"]),
                tail=to_int(found[b"tail_tokens"]),
            ),
            policy_json=found[b"policy"] or b"",
            basis=(found[b"basis"] or b"").decode(),
            is_counted=found[b"counted_settings"] is not None,
            images_before=to_int(found[b"images_before"]),
            seen_dialect=(found[b"dialect"] or b"").decode(),
            tools_tokens=tools,
            tools_bound=to_int(found[b"tools_bound"]),
            ratios=(found[b"ratios"] or b"").decode(),
            tools_bytes=to_int(found[b"tools_bytes"]),
            version=to_int(found[b"version"]),
            prefix=_digest([found[name] or b"" for name in _PREFIX]),
        )

    @property
    def is_of_another_basis(self) -> bool:
        """Whether the counts were made with another encoding or image formula than the policy's.

        The policy changed, or the workers lack the vocabulary.
        """
        made = self.basis.split("/")
        # Behind the name of a file stands which contents it had.
        encoding = made[0].partition("@")[0]
        return self.basis != "" and (
            encoding != self.policy.encoding or made[-1] != self.policy.image_formula
        )

    def reliable(self, stored: StoredContext) -> View:
        """The same session with bounds for what nobody counted in the policy's tokens."""
        if self.is_of_another_basis:
            known = self._with_bound_system()
            usage = Usage(system=known.usage.system, summary=self.bound(render_head(stored)))
            return replace(known, counted_seq=Seq(0), usage=usage)
        if file_of(self.policy.encoding) and not self.is_counted:
            # Whoever set prompt and tools need not have known the policy.
            return self._with_bound_system()
        return self

    def with_beside(self, tokens: int) -> View:
        """The same session, with so many of the provider's tokens beside system prompt and tools.

        They count as these do, so a read leaves room for them.
        """
        more = math.ceil(tokens / self.correction.ratio)
        return replace(self, usage=replace(self.usage, system=self.usage.system + more))

    def with_pending(self, bound: int, in_bytes: int) -> Usage:
        """The usage, with turns not counted yet: by their noted bounds, or for files by bytes."""
        pending = max(bound, in_bytes) if file_of(self.policy.encoding) else bound
        return replace(self.usage, pending=pending)

    def _with_bound_system(self) -> View:
        tools = self.tools_bytes if file_of(self.policy.encoding) else self.tools_bound
        system = self.bound([system_message(self.system)]) if self.system else 0
        return replace(self, usage=replace(self.usage, system=system + tools), tools_tokens=tools)

    def keeps_thoughts(self, under: str) -> bool:
        """Whether thoughts still stand behind what they were thought under.

        Where nobody noted what that was, only if there never was anything else.
        """
        return under == self.prefix if under else not self.version

    @property
    def bound(self) -> CountMessages:
        """An upper bound for messages under the policy; additive.

        The same function for every read: what a projection found is remembered by it.
        """
        return _bound_by(self.policy.image_formula, self.policy.encoding)

    def bound_body(self, body: bytes) -> int:
        """The same for messages as they are stored."""
        policy = self.policy
        return bound_turn(body, FORMULAS[policy.image_formula], policy.encoding)

    @property
    def correction(self) -> Correction:
        """What is known of the provider's tokens."""
        return Correction.stored(self.ratios, self.policy.token_ratio)

    @property
    def dialect(self) -> str:
        """The policy's, or else that of the first turn that told."""
        return self.policy.dialect or self.seen_dialect or "chat"

    @property
    def policy(self) -> Policy:
        """The stored policy, or the default for a session that was never opened."""
        return _parse_policy(self.policy_json) if self.policy_json else DEFAULT_POLICY


# Many sessions share one policy, and every read needs its session's.
_parse_policy = lru_cache(maxsize=1024)(stored_policy)


def _digest(values: Sequence[bytes]) -> str:
    return hashlib.sha256(b" ".join(values)).hexdigest()[:12]


def to_int(value: bytes | None) -> int:
    """A number as Redis returned it; 0 for an absent field."""
    return int(value) if value else 0


@lru_cache(maxsize=64)
def _bound_by(image_formula: str, encoding: str) -> CountMessages:
    formula = FORMULAS[image_formula]
    return lambda messages: sum(
        bound_turn(encode_json(message), formula, encoding) for message in messages
    )


def bound(messages: Iterable[JsonMessage]) -> int:
    """An upper bound for these messages, without the reply's opening; additive."""
    return sum(bound_turn(encode_json(message)) for message in messages)
