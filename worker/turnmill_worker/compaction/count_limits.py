"""What a policy asks for beside its token limits: fewer images or requests, a new view."""

from __future__ import annotations

from turnmill.contract.policy import Policy
from turnmill_worker.compaction.image_and_request_counts import Tally

__all__ = ["INTERACTIONS", "demands"]

INTERACTIONS = "interactions"


def demands(policy: Policy, tally: Tally) -> dict[str, str]:
    """What is over its count and why, by the strategy that helps; ``interactions`` by any."""
    asked = {}
    if policy.max_history_images is not None:
        thumbnail = policy.keep_first_image and tally.images_before == 0
        allowed = policy.max_history_images + thumbnail
        if tally.images > allowed:
            asked["images"] = f"{tally.images} images exceed the {allowed} to be kept"
    if policy.max_interactions is not None and tally.interactions > policy.max_interactions:
        asked[INTERACTIONS] = (
            f"{tally.interactions} interactions exceed the {policy.max_interactions} to be kept"
        )
    if policy.recent_runs and "managed" in policy.strategies:
        # The newest run is the one the agent is at.
        beside = (policy.passthrough_runs or 0) + 1
        if tally.interactions > beside and tally.history_tokens >= (policy.token_threshold or 0):
            asked["managed"] = f"{tally.interactions} runs exceed the {beside} kept word for word"
    return asked
