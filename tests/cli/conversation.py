"""Sessions for commands to look at: long enough to be compacted, and really compacted."""

from __future__ import annotations

from typing import Any

from tests.processes import wait_until
from turnmill import ContextClient, Policy

__all__ = ["settled", "talk"]


def talk(client: ContextClient, session: str, turns: int, *, first: int = 1, **policy: Any) -> None:
    """Questions about orders, with their answers; a policy that compacts after a few."""
    if first == 1:
        chosen = Policy(max_tokens=1000, checkpoint_interval=0, **policy)
        client.open(session, chosen, "Be brief.")
    for at in range(first, first + turns):
        order = f"#W{at * 7919}"
        client.push(
            session,
            [
                {"role": "user", "content": f"Where is order {order} of Anna?"},
                {"role": "assistant", "content": f"Order {order} is in street {at * 3}. " * 3},
            ],
        )


def settled(client: ContextClient, session: str, *, versions: int = 1) -> None:
    """Wait until it was compacted so often, and all that was covered is in the archive."""

    def is_so() -> bool:
        found = client.info(session)
        quiet = found.counted_seq == found.last_seq and found.due_in_s is None
        return quiet and found.version >= versions and found.turns_covered == 0

    wait_until(is_so, what=f"{session} compacted and archived")
