"""What strangers put where they may write: broken messages, and junk in a tenant's own keys."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from tests.chaos.faults import Gremlin
from tests.chaos.world import World
from turnmill.contract.keys import NAMESPACES, in_all_shards
from turnmill.contract.names import Namespace

__all__ = ["hostile", "poison_the_broker", "write_junk"]

_BODY = base64.b64encode(b'[["a", "b"], {}, {}]').decode()


def _message(**changes: Any) -> str:
    """A Celery message as it lies in Redis, with something changed."""
    headers = {"task": "turnmill.estimate", "id": "poison", "timelimit": [None, None]}
    properties = {
        "body_encoding": "base64",
        "delivery_tag": "poison",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "estimate", "routing_key": "estimate"},
        "correlation_id": "poison",
    }
    parts = {"body": _BODY, "headers": headers | changes.pop("headers", {})}
    whole = {"content-type": "application/json", "content-encoding": "utf-8"}
    return json.dumps(whole | parts | {"properties": properties} | changes)


def poison_the_broker(world: World, _: random.Random) -> None:
    """Messages that no client of Celery ever sends."""
    poison = [
        _message(body="not base64!"),
        _message(body=base64.b64encode(b'{"not": "a list"}').decode()),
        _message(body=base64.b64encode(b"\xff\xfe").decode()),
        _message(headers={"timelimit": ["soon", "later"]}),
        _message(headers={"eta": "tomorrow"}),
        _message(headers={"task": "nobody.knows"}),
    ]
    with world.broker.admin() as client:
        client.lpush("estimate", *poison)


def write_junk(world: World, rng: random.Random) -> None:
    """A tenant fills its own namespace with names that are none, and keys of wrong types."""
    mine = Namespace(f"evil-{rng.randint(0, 99)}")
    with world.store.admin() as client:
        for key in in_all_shards(mine, "backlog", "due", "unarchived", "forgotten"):
            client.delete(key)
            if rng.random() < 0.3:
                client.set(key, "no list at all")
            else:
                client.zadd(key, {b"\xff\xfe": 1, "a b/c": 1, "": 1, "x" * 5000: 1})
        client.sadd(NAMESPACES, mine)


def hostile() -> list[Gremlin]:
    """All of this module."""
    return [Gremlin("broker", poison_the_broker), Gremlin("store", write_junk)]
