"""A session's numbers as Redis keeps them, as a read gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from turnmill.contract.codec import encode_json
from turnmill.contract.context import JsonMessage, StoredContext, Usage
from turnmill.contract.estimate import bound_turn
from turnmill.contract.images.token_cost import DEFAULT_FORMULA, FORMULAS, ImageFormula
from turnmill.contract.names import Seq
from turnmill.contract.policy import Policy
from turnmill.contract.render import render_head, system_message
from turnmill.contract.sealing import text_of
from turnmill.contract.stored_policy import stored_policy

__all__ = ["DEFAULT_POLICY", "META_FIELDS", "View", "bound", "to_int"]

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
    b"hard",
    b"policy",
    b"basis",
    b"counted_settings",
    b"pictures",
    b"images_before",
    b"dialect",
    b"tools_tokens",
    b"tools_bound",
)


@dataclass(frozen=True, slots=True)
class View:
    """The meta fields a read returns, in the order of ``META_FIELDS``."""

    last_seq: Seq
    counted_seq: Seq
    system: str
    usage: Usage
    hard: int
    policy_json: bytes
    basis: str
    is_counted: bool
    images_before: int
    seen_dialect: str = ""
    tools_tokens: int = 0
    tools_bound: int = 0

    @classmethod
    def of(cls, fields: Sequence[bytes | None]) -> View:
        """The fields as Redis returned them; ``usage.system`` is with the tools."""
        tools = to_int(fields[16])
        return cls(
            last_seq=Seq(to_int(fields[3])),
            counted_seq=Seq(to_int(fields[4])),
            system=text_of(fields[5]),
            usage=Usage(
                system=to_int(fields[6]) + tools,
                summary=to_int(fields[7]),
                tail=to_int(fields[8]),
            ),
            hard=to_int(fields[9]) or DEFAULT_POLICY.hard_limit,
            policy_json=fields[10] or b"",
            basis=(fields[11] or b"").decode(),
            is_counted=fields[12] is not None,
            images_before=to_int(fields[14]),
            seen_dialect=(fields[15] or b"").decode(),
            tools_tokens=tools,
            tools_bound=to_int(fields[17]),
        )

    @property
    def is_of_another_basis(self) -> bool:
        """Whether the counts were made with another encoding or image formula than the policy's.

        The policy changed, or the workers lack the vocabulary.
        """
        made = self.basis.split("/")
        return self.basis != "" and (
            made[0] != self.policy.encoding or made[-1] != self.policy.image_formula
        )

    def by_bounds(self, stored: StoredContext) -> View:
        """The same session as if nothing had been counted."""
        formula = FORMULAS[self.policy.image_formula]
        system = bound([system_message(self.system)]) if self.system else 0
        usage = Usage(system=system + self.tools_bound, summary=bound(render_head(stored), formula))
        return replace(self, counted_seq=Seq(0), usage=usage, tools_tokens=self.tools_bound)

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


def to_int(value: bytes | None) -> int:
    """A number as Redis returned it; 0 for an absent field."""
    return int(value) if value else 0


def bound(
    messages: Sequence[JsonMessage], formula: ImageFormula = FORMULAS[DEFAULT_FORMULA]
) -> int:
    """An upper bound for these messages, without the reply's opening; additive."""
    return sum(bound_turn(encode_json(message), formula) for message in messages)
