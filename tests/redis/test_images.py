"""Images come back byte for byte, lie in Redis once, and travel only when they must."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest
import redis

from tests.image_parts import data_url, image, png, showing
from tests.realdata import DATA_DIR, requires_data, sessions
from tests.redis.conftest import Connect, Surface, Worker
from turnmill import (
    Context,
    ContextClient,
    InvalidTurn,
    Policy,
    SilentWaker,
    StoreFull,
    StoreUnavailable,
    TurnTooLarge,
)
from turnmill.client.commands import Commands
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.transport import new_id
from turnmill.contract.codec import encode_json
from turnmill.contract.images import UNAVAILABLE
from turnmill.push import push_calls

LARGE = Policy(max_tokens=1_000_000)
TEXT = {"role": "user", "content": "Go on."}
BLANK = b"\0" * 2001
STRAY_BITS = data_url(BLANK)[:-2] + "B="  # the same bytes, spelled in a way nobody would
WAYS = {
    "plain": image(data_url(png())),
    "detailed": image(data_url(png()), detail="low", cache_control={"type": "ephemeral"}),
    "stray bits": image(STRAY_BITS),
    "a parameter": image(data_url(png(), "image/svg+xml;charset=utf-8")),
    "small": image(data_url(png(size=10))),
    "an address": image("https://example.org/a.png"),
    "a file": image("file://images/a.png"),
    "of unknown size": image(data_url(b"GARBAGE" * 300, "image/x-unheard-of")),
}


def blob_keys(redis_client: redis.Redis, namespace: str) -> list[bytes]:
    """The keys of all images of the namespace."""
    found: Any = redis_client.keys(f"turnmill:{{{namespace}/*}}:blob:*")
    return [key for key in found if not key.endswith(b":held")]


def holders(redis_client: redis.Redis, key: bytes) -> set[str]:
    """The sessions that hold the image."""
    fields: Any = redis_client.hkeys(f"{key.decode()}:held")
    return {field.decode()[2:] for field in fields if field != b"type"}


def read_with_fetches(redis_client: redis.Redis, client: Surface) -> tuple[Context, int]:
    """What the session's read returns, and how many images it asked Redis for."""
    before = _gets(redis_client)
    return client.read("s"), _gets(redis_client) - before


def _gets(redis_client: redis.Redis) -> int:
    stats: Any = redis_client.info("commandstats")
    gets, whole = (stats.get(f"cmdstat_{name}", {"calls": 0}) for name in ("get", "hgetall"))
    return int(gets["calls"]) - int(whole["calls"])  # a whole read asks for the context, too


@pytest.mark.parametrize("part", WAYS.values(), ids=WAYS.keys())
def test_an_image_comes_back_as_it_was_pushed(
    connect: Connect, redis_server: EmbeddedRedis, namespace: str, part: dict[str, Any]
) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "This:"}, part]}
    pushing = connect(redis_server.url, namespace=namespace)
    reading = connect(redis_server.url, namespace=namespace)

    pushing.push("s", message)

    assert encode_json(reading.read("s").messages) == encode_json([message])
    assert encode_json(pushing.read("s").messages) == encode_json([message])


def test_an_image_is_stored_once_however_many_turns_show_it(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    either.open("s", LARGE)
    for _ in range(20):
        either.push("s", showing(png()))
    either.push_many([("s", showing(png(), png()))] * 30)

    [key] = blob_keys(redis_client, namespace)
    assert redis_client.get(key) == png()
    assert holders(redis_client, key) == {"s"}
    assert either.read("s").messages == [showing(png())] * 20 + [showing(png(), png())] * 30


def test_the_log_holds_a_reference_and_names_the_image(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push("s", showing(png(), png(1)))

    entries: Any = redis_client.xrange(worker.keys("s").log)
    [(_, fields)] = entries
    assert len(fields[b"messages"]) < 400
    assert b"image/png;640x480" in fields[b"messages"]
    assert len(fields[b"blobs"].split()) == 2


def test_a_large_image_is_not_weighed_as_json(either: Surface) -> None:
    large = showing(png(size=3_000_000))

    either.push("s", large)

    assert either.read("s").messages == [large]
    assert either.info("s").usage.pending < 1000


def test_images_over_the_limit_are_refused_and_the_limit_is_named(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    client = connect(redis_server.url, namespace=namespace, max_image_bytes=5000)

    with pytest.raises(TurnTooLarge, match=r"turn: 6048 bytes of images; at most 5000"):
        client.push("s", showing(png(), png(1)))

    assert redis_client.keys(f"*{namespace}*") == []


def test_an_image_redis_lost_is_sent_again(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    either.push("s", showing(png()))
    redis_client.delete(*blob_keys(redis_client, namespace))

    pushed = either.push("s", showing(png()))

    assert pushed.seq == 2
    assert len(blob_keys(redis_client, namespace)) == 1


def test_an_image_whose_turn_never_followed_soon_expires(
    client: ContextClient, redis_client: redis.Redis, namespace: str
) -> None:
    commands = Commands.of(namespace, 10_000)
    push = commands.push("s", showing(png()), new_id=new_id)
    for put in push_calls.puts([push], {taken.key for taken in push.images}):
        client._redis.plain(put)
    [key] = blob_keys(redis_client, namespace)
    left = redis_client.pttl(key)

    client.push("s", showing(png()))

    assert 0 < left <= 300_000
    assert redis_client.pttl(key) > 300_000


def test_a_turn_whose_images_redis_evicts_is_refused(client: ContextClient, namespace: str) -> None:
    commands = Commands.of(namespace, 10_000)
    push = commands.push("s", showing(png()), new_id=new_id)

    reply = client._redis.run(push.call)

    assert push_calls.lacks_images(reply)
    with pytest.raises(StoreUnavailable, match="lost the turn's images"):
        push_calls.pushed(push, reply)
    assert client.sessions() == []


def test_many_turns_keep_their_order_when_redis_lost_an_image(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    either.push("s", showing(png()))
    redis_client.delete(*redis_client.keys(f"*{namespace}*"))

    either.push_many([("s", TEXT), ("s", showing(png())), ("s", TEXT), ("s", showing(png()))])

    assert either.read("s").messages == [TEXT, showing(png()), TEXT, showing(png())]


def test_many_turns_with_more_images_than_one_pipeline_takes_all_arrive(
    either: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnmill.push.push_calls.CHUNK_BYTES", 7000)
    either.open("s", LARGE)
    turns = [showing(png(seed % 4), png(seed % 3)) for seed in range(12)]

    done = either.push_many([("s", turn) for turn in turns])

    assert [pushed.seq for pushed in done] == list(range(1, 13))
    assert either.read("s").messages == turns


def test_a_turn_pushed_twice_is_there_once_with_its_images(either: Surface) -> None:
    either.push("s", showing(png()), turn_id="one")

    again = either.push("s", showing(png(), png(1)), turn_id="one")

    assert again.duplicate
    assert either.read("s").messages == [showing(png())]


def test_clients_that_push_the_same_image_at_once_all_keep_it(
    redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    def push() -> None:
        with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as own:
            for _ in range(10):
                own.push("s", showing(png()))

    threads = [threading.Thread(target=push) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as fresh:
        fresh.open("s", LARGE)
        assert fresh.read("s").messages == [showing(png())] * 60
    assert len(blob_keys(redis_client, namespace)) == 1


def test_a_full_server_takes_neither_the_turn_nor_its_images(
    connect: Connect, own_server: EmbeddedRedis
) -> None:
    client = connect(own_server.url)
    client.push("before", TEXT)
    with redis.Redis.from_url(own_server.url) as plain:
        before = sorted(plain.keys())
        plain.config_set("maxmemory", plain.info("memory")["used_memory"] + 1_000_000)

        with pytest.raises(StoreFull):
            client.push("s", showing(png(size=3_000_000)))

        assert sorted(plain.keys()) == before


def test_a_full_server_still_shows_images(connect: Connect, own_server: EmbeddedRedis) -> None:
    connect(own_server.url).push("s", showing(png()))
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

    read = connect(own_server.url).read("s")

    assert read.messages == [showing(png())]


def test_a_reader_fetches_an_image_once(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    pushing = connect(redis_server.url, namespace=namespace)
    pushing.push("s", showing(png()))
    reading = connect(redis_server.url, namespace=namespace)

    fetches = [read_with_fetches(redis_client, each)[1] for each in (reading, reading, pushing)]

    assert fetches == [1, 0, 0]


def test_a_reader_without_memory_for_images_fetches_them_each_time(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    client = connect(redis_server.url, namespace=namespace, image_cache_bytes=5000)
    client.push("s", showing(png(1), png(2)))

    reads = [read_with_fetches(redis_client, client) for _ in range(3)]

    assert all(read.messages == [showing(png(1), png(2))] for read, _ in reads)
    assert all(fetches >= 1 for _, fetches in reads)


def test_images_a_projection_leaves_out_are_not_fetched(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    pushing = connect(redis_server.url, namespace=namespace)
    pushing.open("s", Policy(max_tokens=2048))
    pushing.push_many([("s", showing(png(seed))) for seed in range(10)])
    reading = connect(redis_server.url, namespace=namespace)

    read, fetches = read_with_fetches(redis_client, reading)

    shown = str(read.messages).count("data:image/png")
    assert read.projection is not None
    assert 0 < fetches == shown < 5


def test_images_a_compaction_removed_are_not_fetched(
    connect: Connect,
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    namespace: str,
    worker: Worker,
) -> None:
    pushing = connect(redis_server.url, namespace=namespace)
    pushing.open("s", Policy(max_history_images=2, keep_first_image=False))
    pushing.push_many([("s", showing(png(seed))) for seed in range(6)])
    assert worker.work("s") == "committed"
    reading = connect(redis_server.url, namespace=namespace)

    read, fetches = read_with_fetches(redis_client, reading)

    assert read.messages[-2:] == [showing(png(4)), showing(png(5))]
    assert "removed to save context" in str(read.messages[0])
    assert fetches == 2


def test_an_image_that_is_gone_gives_way_to_a_line_of_text(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    connect(redis_server.url, namespace=namespace).push("s", showing(png()))
    redis_client.delete(*blob_keys(redis_client, namespace))

    read = connect(redis_server.url, namespace=namespace).read("s")

    assert read.messages[0]["content"][1] == {"type": "text", "text": UNAVAILABLE}


def test_nobody_can_ask_for_anothers_image_by_its_hash(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    client = connect(redis_server.url, namespace=namespace)
    client.push("theirs", showing(png()))
    [key] = blob_keys(redis_client, namespace)
    reference = f"blob:{key.decode().rpartition(':')[2]};image/png;640x480"
    part = {"type": "text", "text": reference}
    sneaky = {"role": "user", "content": [part], "x": image(reference)}

    with pytest.raises(InvalidTurn, match=r"image_url\.url must be a data:"):
        client.push("mine", {"role": "user", "content": [image(reference)]})
    client.push("mine", sneaky)

    assert client.read("mine").messages == [sneaky]


@requires_data
def test_screenshots_of_real_navigation_come_back_as_they_went(
    connect: Connect, redis_server: EmbeddedRedis, namespace: str
) -> None:
    pushing = connect(redis_server.url, namespace=namespace)
    reading = connect(redis_server.url, namespace=namespace)
    for session in sessions("webvoyager"):
        shown = [inlined(message) for message in session["messages"] if message["role"] != "system"]
        pushing.open(session["session_id"], LARGE)
        pushing.push_many((session["session_id"], message) for message in shown)

        assert reading.read(session["session_id"]).messages == shown
        assert pushing.read(session["session_id"]).messages == shown


def inlined(message: dict[str, Any]) -> dict[str, Any]:
    """The message with the screenshots of files as data URLs, as an agent would push it."""
    if not isinstance(message["content"], list):
        return message
    return {**message, "content": [_inline_part(part) for part in message["content"]]}


def _inline_part(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("image_url", {}).get("url", "")
    if not url.startswith("file://") or DATA_DIR is None:
        return part
    data = (DATA_DIR / url.removeprefix("file://")).read_bytes()
    return image(f"data:image/png;base64,{base64.b64encode(data).decode()}")
