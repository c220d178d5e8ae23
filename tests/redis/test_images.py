"""Images are stored once, shown by reference, and live as long as anybody shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis

from tests.image_parts import data_url, image, png, showing
from tests.plain_cipher import cipher
from tests.redis.conftest import Connect, Surface, Worker
from turnmill import (
    Context,
    ContextClient,
    InvalidTurn,
    Policy,
    SilentWaker,
    StoreFull,
    TurnTooLarge,
)
from turnmill.client._sync.connection import Connection
from turnmill.client.commands import Commands
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.store_client import store_client
from turnmill.connection.transport import new_id
from turnmill.contract.codec import encode_json
from turnmill.contract.images import UNAVAILABLE
from turnmill.contract.keys import shard_of
from turnmill.contract.names import SessionId
from turnmill.contract.scripts import Command
from turnmill.push import push_calls
from turnmill_worker.store.outgoing import RedisOutgoing, release

# --- Images come back byte for byte, lie in Redis once, and travel only when they must.


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
    sneaky = {"role": "user", "content": [part], "x_image": image(reference)}

    with pytest.raises(InvalidTurn, match=r"image_url\.url must be a data:"):
        client.push("mine", {"role": "user", "content": [image(reference)]})
    client.push("mine", sneaky)

    assert client.read("mine").messages == [sneaky]


# --- An image stays as long as something shows it, and no longer.


LONG = {"role": "user", "content": "word " * 60}
SMALL = Policy(max_tokens=1500)


def neighbours(count: int) -> list[str]:
    """Names of sessions of one shard."""
    names = (f"agent-{n}" for n in range(100_000))
    return [name for name in names if shard_of(SessionId(name)) == 7][:count]


def drain(redis_client: redis.Redis, worker: Worker, session: str) -> None:
    """Take everything that left the log out of Redis, as if it had been archived."""
    outgoing = RedisOutgoing(redis_client)
    while drained := outgoing.next_drains([worker.ref(session)], turns=100, size=2**20):
        outgoing.trim(drained)


def test_an_image_fifty_turns_of_five_sessions_show_is_there_until_the_last_is_forgotten(
    either: Surface, redis_client: redis.Redis, namespace: str
) -> None:
    names = neighbours(5)
    either.push_many((names[n % 5], showing(png())) for n in range(50))
    [key] = blob_keys(redis_client, namespace)
    assert holders(redis_client, key) == set(names)

    for name in names[:-1]:
        assert either.forget(name).keys_left == 0
        assert redis_client.get(key) == png()
    either.forget(names[-1])

    assert blob_keys(redis_client, namespace) == []


def test_images_go_once_their_turns_are_in_the_archive(
    either: Surface, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    either.open("s", SMALL)
    either.push_many([("s", showing(png(1))), *[("s", LONG)] * 30, ("s", showing(png(2)))])
    assert worker.work("s") == "committed"
    assert len(blob_keys(redis_client, namespace)) == 2

    drain(redis_client, worker, "s")

    assert len(blob_keys(redis_client, namespace)) == 1
    assert either.read("s").messages[-1] == showing(png(2))


def test_a_pinned_image_stays_while_a_checkpoint_shows_it(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.open("s", SMALL.model_copy(update={"checkpoint_interval": 0}))
    client.push("s", {"messages": [showing(png(1))], "pinned": True})
    client.push_many([("s", LONG)] * 30)
    worker.work("s")
    client.checkpoint("s", name="before")
    redis_client.delete(worker.keys("s").context)
    redis_client.hdel(worker.keys("s").meta, "shown")

    drain(redis_client, worker, "s")
    kept = len(blob_keys(redis_client, namespace))
    redis_client.delete(worker.keys("s").named)
    released = release(redis_client, worker.ref("s"))

    assert (kept, released) == (1, 1)
    assert blob_keys(redis_client, namespace) == []


class Interrupted(Connection):
    """A client's connection between whose two trips of a read something happens, once."""

    meanwhile: Callable[[], object] | None = None

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        if commands[0][0] == "GET" and self.meanwhile:
            self.meanwhile()
            self.meanwhile = None
        return super().pipeline(commands, raise_on_error=raise_on_error)


def test_images_let_go_between_the_two_trips_of_a_read_are_not_missed(
    client: ContextClient,
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    worker: Worker,
    namespace: str,
) -> None:
    def clear() -> None:
        client.clear("s")
        drain(redis_client, worker, "s")

    client.push("s", showing(png()))
    with ContextClient(redis_server.url, namespace=namespace, broker=SilentWaker()) as reading:
        reading._redis = Interrupted(redis_server.url, 5.0, None, reading._commands.registration)
        reading._redis.meanwhile = clear

        read = reading.read("s")

    assert read.messages == []


@pytest.mark.parametrize("images", [0, 1])
def test_forgetting_a_full_servers_session_frees_its_images(
    connect: Connect, own_server: EmbeddedRedis, images: int
) -> None:
    client = connect(own_server.url)
    client.push("s", showing(*[png()] * images))
    with redis.Redis.from_url(own_server.url) as plain:
        plain.config_set("maxmemory", 1)

        assert client.forget("s").keys_left == 0

        assert plain.keys("*:blob:*") == []


# --- A request that is still open keeps its images, or says how many are gone.


SCREENSHOTS = [png(seed) for seed in range(4)]
COMPARE = showing(*SCREENSHOTS, text="Compare these four screenshots of the login page, please.")


def worked(steps: int) -> list[dict[str, Any]]:
    """What an agent does in so many steps that show nothing."""
    return [
        message
        for n in range(steps)
        for message in (
            {"role": "assistant", "content": None, "tool_calls": [look(n)]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n}: " + "pixels differ " * 60},
        )
    ]


def look(number: int) -> dict[str, Any]:
    """A call."""
    function = {"name": "look", "arguments": f'{{"at": {number}}}'}
    return {"id": f"c{number}", "type": "function", "function": function}


def told(messages: Sequence[dict[str, Any]], text: str) -> bool:
    """Whether a message says so."""
    return text in encode_json(list(messages)).decode()


def screenshots(shown: Sequence[dict[str, Any]], dialect: str) -> list[bytes]:
    """Which of the four are shown, in any dialect."""
    text = encode_json(list(shown)).decode()
    urls = [data_url(each) for each in SCREENSHOTS]
    marks = [url.partition(",")[2] if dialect == "anthropic" else url for url in urls]
    return [each for each, mark in zip(SCREENSHOTS, marks, strict=True) if mark in text]


@pytest.mark.parametrize("dialect", ["chat", "anthropic", "responses"])
@pytest.mark.parametrize("most", [None, 2])
def test_an_open_request_keeps_its_images_through_compactions_and_the_archive(
    connect: Connect,
    redis_server: EmbeddedRedis,
    redis_client: redis.Redis,
    worker: Worker,
    namespace: str,
    dialect: str,
    most: int | None,
) -> None:
    policy = Policy(max_tokens=8192, max_history_images=most, keep_first_image=False)
    client = connect(redis_server.url, namespace=namespace)
    client.open("s", policy)
    client.push_many([("s", COMPARE), *(("s", step) for step in worked(60))])

    for _ in range(2):
        assert worker.work("s") == "committed"
        drain(redis_client, worker, "s")
        read = connect(redis_server.url, namespace=namespace).read("s")
        shown = read.messages_for(dialect)

        kept = SCREENSHOTS[-most:] if most else SCREENSHOTS
        assert read.watermark > 1
        assert screenshots(shown, dialect) == kept
        assert told(shown, "2 of 4 images of turn 1 removed to save context") == (most == 2)
        assert len(blob_keys(redis_client, namespace)) == len(kept)
        assert read.tokens <= 8192
        client.push_many([("s", step) for step in worked(60)])


def test_with_a_cipher_a_request_keeps_its_images_too(
    connect: Connect, redis_server: EmbeddedRedis, redis_client: redis.Redis, namespace: str
) -> None:
    with store_client(redis_server.url, 5.0, cipher=cipher) as sealed:
        worker = Worker(sealed, namespace)
        client = connect(redis_server.url, namespace=namespace, cipher=cipher)
        client.open("s", Policy(max_tokens=8192))
        client.push_many([("s", COMPARE), *(("s", step) for step in worked(60))])

        assert worker.work("s") == "committed"
        drain(sealed, worker, "s")
        read = connect(redis_server.url, namespace=namespace, cipher=cipher).read("s")

    assert read.watermark > 1
    assert screenshots(read.messages, "chat") == SCREENSHOTS
    assert len(blob_keys(redis_client, namespace)) == len(SCREENSHOTS)


def test_images_of_requests_are_counted_and_go_when_the_session_is_forgotten(
    client: ContextClient, redis_client: redis.Redis, worker: Worker, namespace: str
) -> None:
    client.open("s", Policy(max_tokens=8192))
    client.push_many([("s", COMPARE), *(("s", step) for step in worked(60))])
    worker.work("s")
    counted = int(redis_client.hget(worker.keys("s").meta, "images") or 0)
    client.forget("s")

    assert counted == len(SCREENSHOTS)
    assert blob_keys(redis_client, namespace) == []


def test_a_projection_says_how_many_images_left_with_a_request(client: ContextClient) -> None:
    client.open("s", Policy(max_tokens=4096))
    client.push_many([("s", COMPARE), *(("s", step) for step in worked(60))])

    read = client.read("s")

    assert read.projection is not None
    assert screenshots(read.messages, "chat") == []
    assert told(read.messages, "[4 of 4 images of turn 1 removed to save context")
    assert read.tokens <= 4096


# --- Base64 as text is a note of its type and size wherever there is no room for it.


def test_a_data_url_in_a_result_is_a_note_and_the_text_around_it_stays(
    client: ContextClient, worker: Worker
) -> None:
    url = data_url(png(size=734_000))
    [call, result] = worked(1)
    result["content"] = f"Order 4711 was shipped.\n{url}\nIt weighs 3 kg."
    client.open("s", Policy(max_tokens=8192))
    client.push_many([("s", TEXT), ("s", call), ("s", result)])
    cut = client.read("s")
    assert cut.projection is not None

    client.push_many([("s", step) for step in worked(20)[2:]])
    assert worker.work("s") == "committed"
    read = client.read("s")

    for context in (cut, read):
        for dialect in ("chat", "anthropic", "responses"):
            shown = context.messages_for(dialect)
            assert told(shown, "[image/png, 734 kB of base64 removed]")
            assert told(shown, "Order 4711 was shipped.")
            assert told(shown, "It weighs 3 kg.")
            assert not told(shown, url[1000:1100])
        assert context.tokens < 8192
