"""Images: a push against a bare SET of the same bytes and a text push; reads, warm and cold."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.timing import Sample, interleaved
from tests.image_parts import png, showing
from turnmill import ContextClient, Policy, SilentWaker
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.images import split_images
from turnmill.contract.turns import to_turn

ROUNDS = 25
SIZES = (100_000, 1_000_000, 3_000_000)
NAMESPACE = "bench"


def run(server: EmbeddedRedis) -> list[str]:
    lines = [
        "image     what                       p50   against",
    ]
    with redis.Redis.from_url(server.url) as plain:
        for size in SIZES:
            lines += _rows(server, plain, size)
            plain.flushdb()
    return lines


def _rows(server: EmbeddedRedis, plain: redis.Redis, size: int) -> list[str]:
    data = png(size=size)
    message = showing(data)
    text = {"role": "user", "content": ("The quick brown fox jumps. " * 30)[:800]}
    fresh = itertools.count()
    many = iter([showing(png(seed + 1, size=size)) for seed in range(ROUNDS)])

    def connect(**options: Any) -> ContextClient:
        return ContextClient(server.url, namespace=NAMESPACE, broker=SilentWaker(), **options)

    with connect() as client, connect(image_cache_bytes=1) as cold:
        client.open("texts", Policy(max_tokens=1_000_000))
        client.push("shown", message)
        calls: dict[str, Callable[[], object]] = {
            "bare SET, pipelined": lambda: _set(plain, f"bare-{next(fresh)}", data),
            "bare SHA-256": lambda: hashlib.sha256(data).digest(),
            "to_turn and its hash": lambda: split_images(to_turn(message)),
            "push of text": lambda: client.push("texts", text),
            "push of a new image": lambda: client.push("new", next(many)),
            "push of a known image": lambda: client.push("again", message),
            "bare GET": lambda: plain.get("bare"),
            "read, image remembered": lambda: client.read("shown"),
            "read, image fetched": lambda: cold.read("shown"),
        }
        plain.set("bare", data)
        samples = dict(zip(calls, interleaved(*calls.values(), rounds=ROUNDS), strict=True))
    return [_row(size, name, samples) for name in samples]


def _set(plain: redis.Redis, key: str, data: bytes) -> None:
    with plain.pipeline(transaction=False) as pipe:
        pipe.set(key, data)
        pipe.execute()


AGAINST = {
    "push of a new image": "bare SET, pipelined",
    "push of a known image": "to_turn and its hash",
    "read, image remembered": "bare GET",
    "read, image fetched": "bare GET",
}


def _row(size: int, name: str, samples: dict[str, Sample]) -> str:
    p50 = samples[name].p50_us
    line = f"{size / 1e6:>4.1f} MB     {name:<24}  {p50 / 1000:>6.2f} ms"
    if name in AGAINST:
        line += f"   {p50 / samples[AGAINST[name]].p50_us:.2f} x {AGAINST[name]}"
    return line
