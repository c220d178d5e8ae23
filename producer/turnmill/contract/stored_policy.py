"""A policy as it is stored: read with tolerance, where what a person writes is read strictly."""

from __future__ import annotations

from typing import Any

from turnmill.contract.codec import decode_json, encode_json
from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.formats import is_newer, refuse_newer, stamp, unreadable
from turnmill.contract.policy import Policy
from turnmill.contract.quality_weights import QualityWeights

__all__ = ["policy_body", "stored_policy"]


def policy_body(policy: Policy) -> bytes:
    """What ``stored_policy`` reads."""
    return encode_json({**policy.model_dump(mode="json"), **stamp()})


def stored_policy(body: bytes | str) -> Policy:
    """The policy as this version knows it: without the fields of newer ones.

    Raises:
        NewerFormat: a newer version wrote it, and this one cannot follow it.
        CorruptContext, InvalidPolicy: it is no policy.
    """
    what = "stored policy"
    try:
        fields = decode_json(body.encode() if isinstance(body, str) else body)
    except ValueError:
        raise InvalidPolicy(f"{what}: {len(body)} bytes that are not JSON") from None
    if not isinstance(fields, dict):
        raise InvalidPolicy(f"{what}: must be a JSON object, got {type(fields).__name__}")
    refuse_newer(fields, what)
    try:
        return Policy(**_known(fields))
    except InvalidPolicy as error:
        if is_newer(fields):
            raise unreadable(fields, what, str(error)) from None
        raise


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    known = {name: fields[name] for name in Policy.model_fields if name in fields}
    if isinstance(weights := known.get("quality_weights"), dict):
        names = QualityWeights.model_fields
        known["quality_weights"] = {name: weights[name] for name in names if name in weights}
    return known
