"""Pushes are atomic, counted once and in order; a step is a push and its read in one trip."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.image_parts import data_url, image, png
from tests.plain_cipher import cipher
from tests.redis.conftest import CLIENTS, Connect, Surface, Worker
from turnmill import (
    Cipher,
    ContextClient,
    InvalidInput,
    Policy,
    TurnConflict,
    TurnTooLarge,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.connection.store_client import store_client
from turnmill.contract.erasure import erasing
from turnmill.contract.keys import session_keys, shard_of
from turnmill.contract.names import SessionId
from turnmill.push.push_calls import DEDUPE_WINDOW, RETRY_WINDOW
from turnmill_worker.requests.erasure import Erasing
from turnmill_worker.requests.forking import Forking
from turnmill_worker.store.earlier_states import RedisStates
from turnmill_worker.tokens import counter_for

# --- Pushes: one atomic call of constant cost; the same id is the same turn.


HI = {"role": "user", "content": "hi"}


def calls(redis_client: redis.Redis) -> dict[str, int]:
    """How often each Redis command ran so far, but for those of looking."""
    stats: Any = redis_client.info("commandstats")
    return {name: row["calls"] for name, row in stats.items() if "info" not in name}


def cost_of_a_push(client: ContextClient, redis_client: redis.Redis, session: str) -> int:
    before = calls(redis_client)
    client.push(session, HI)
    return sum(calls(redis_client).values()) - sum(before.values())


def test_a_push_costs_as_many_commands_after_three_thousand_turns_as_after_ten(
    client: ContextClient, redis_client: redis.Redis
) -> None:
    client.push_many([("short", HI)] * 10)
    client.push_many([("long", HI)] * 3_000)

    short, long = (cost_of_a_push(client, redis_client, name) for name in ("short", "long"))

    assert long - short <= 1  # the dedupe window is full: its oldest id leaves


def test_the_same_turn_id_gets_the_same_seq_and_stores_nothing(either: Surface) -> None:
    either.push("s", HI)
    first = either.push("s", HI, turn_id="t")

    again = either.push("s", HI, turn_id="t")

    assert (again.seq, again.duplicate, first.duplicate) == (first.seq, True, False)
    assert either.info("s").turns_in_log == 2


def test_another_turn_under_a_known_id_is_a_conflict_and_stores_nothing(
    either: Surface, worker: Worker
) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push("s", HI, turn_id="t")
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    other = {"role": "user", "content": "other"}

    for _ in range(2):
        with pytest.raises(TurnConflict, match="turn 1 was pushed under it before"):
            either.push("s", other, turn_id="t")
        with pytest.raises(TurnConflict):
            either.step("s", other, turn_id="t")
        with pytest.raises(TurnConflict):
            either.push_many([("s", {"messages": [other], "turn_id": "t"})])
        with pytest.raises(TurnConflict):
            either.step_many("s", [{"messages": [other], "turn_id": "t"}])
        worker.work("s")

    assert either.info("s").last_seq == 13
    assert either.info("s").watermark > 1
    assert either.push("s", HI, turn_id="t").duplicate


def test_a_fork_knows_what_its_turns_said(
    either: Surface, redis_client: redis.Redis, worker: Worker
) -> None:
    either.push("s", HI, turn_id="t")
    either.push("s", HI, turn_id="later")
    states = RedisStates(redis_client)
    Forking(states, None, counter_for).fork(worker.ref("s"), worker.ref("f"), "t")

    assert either.push("f", HI, turn_id="t").duplicate
    with pytest.raises(TurnConflict):
        either.push("f", {"role": "user", "content": "other"}, turn_id="t")
    assert not either.push("f", {"role": "user", "content": "other"}, turn_id="later").duplicate


def test_the_same_turn_is_the_same_whatever_the_order_of_its_fields(either: Surface) -> None:
    parts = [{"type": "text", "text": "hi", "x_note": {"a": 1, "b": 2}}]
    turned = [{"x_note": {"b": 2, "a": 1}, "text": "hi", "type": "text"}]
    either.push("s", {"role": "user", "content": parts}, turn_id="t")

    assert either.push("s", {"content": turned, "role": "user"}, turn_id="t").duplicate


def test_another_image_under_a_known_id_is_a_conflict(either: Surface) -> None:
    shown = [{"role": "user", "content": [image(data_url(png(seed)))]} for seed in (1, 2)]
    either.push("s", shown[0], turn_id="t")

    assert either.push("s", shown[0], turn_id="t").duplicate
    with pytest.raises(TurnConflict):
        either.push("s", shown[1], turn_id="t")


def test_an_id_that_an_older_version_pushed_is_a_no_op_with_whatever_comes(
    either: Surface, redis_client: redis.Redis, worker: Worker
) -> None:
    either.push("s", HI, turn_id="t")
    redis_client.zadd(worker.keys("s").ids, {"t": 1})

    assert either.push("s", {"role": "user", "content": "other"}, turn_id="t").duplicate


OTHER = {"role": "user", "content": "other"}


@pytest.fixture
def sealing(connect: Connect, redis_server: EmbeddedRedis, namespace: str) -> Surface:
    return connect(redis_server.url, namespace=namespace, cipher=cipher)


@pytest.mark.parametrize("kind", CLIENTS)
def test_with_a_cipher_another_turn_under_a_known_id_is_a_conflict_too(sealing: Surface) -> None:
    shown = [{"role": "user", "content": [image(data_url(png(seed)))]} for seed in (1, 2)]
    sealing.push("s", HI, turn_id="t")
    sealing.push("s", shown[0], turn_id="image")

    same: list[Any] = [{"messages": [{"content": "hi", "role": "user"}], "turn_id": "t"}, OTHER]
    pushed, context = sealing.step_many("s", same)

    assert [each.duplicate for each in pushed] == [True, False]
    assert sealing.push("s", shown[0], turn_id="image").duplicate
    with pytest.raises(TurnConflict, match="turn 1 was pushed under it before"):
        sealing.push("s", OTHER, turn_id="t")
    with pytest.raises(TurnConflict):
        sealing.push("s", shown[1], turn_id="image")
    with pytest.raises(TurnConflict):
        sealing.step("s", OTHER, turn_id="t")
    with pytest.raises(TurnConflict):
        sealing.push_many([("s", {"messages": [OTHER], "turn_id": "t"})])
    with pytest.raises(TurnConflict, match="turn 4 was"):
        sealing.push_many([("s", {"messages": [m], "turn_id": "new"}) for m in (HI, OTHER)])
    assert sealing.read("s").messages == [*context.messages, HI]


def test_with_a_cipher_a_known_id_is_a_no_op_where_its_turn_cannot_be_compared(
    sealing: Surface, connect: Connect, redis_server: EmbeddedRedis, namespace: str
) -> None:
    def fails(*_: bytes) -> bytes:
        raise ValueError

    for name in ("erased", "covered", "unreadable"):
        sealing.push("s", HI, turn_id=name)
    with store_client(redis_server.url, 5.0, cipher=cipher) as sealed:
        worker = Worker(sealed, namespace)
        erasure = Erasing(RedisStates(sealed), None, counter_for, worker.hints)
        how = erasing((1,), None, None, repeats=False, by="", dry_run=False)
        erasure.erase(worker.ref("s"), how)
        sealed.xdel(worker.keys("s").log, "2-0")
    blind = connect(
        redis_server.url, namespace=namespace, cipher=Cipher(encrypt=cipher.encrypt, decrypt=fails)
    )

    assert sealing.push("s", OTHER, turn_id="erased").duplicate
    assert sealing.push("s", OTHER, turn_id="covered").duplicate
    assert blind.push("s", OTHER, turn_id="unreadable").duplicate
    with pytest.raises(TurnConflict):
        sealing.push("s", OTHER, turn_id="unreadable")


# --- A turn that is too large is refused, or cut in the middle.


def long_result(characters: int) -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x" * characters},
    ]


def test_a_turn_that_is_too_large_is_refused_or_cut_with_a_note(either: Surface) -> None:
    turn = long_result(1_500_000)
    with pytest.raises(TurnTooLarge):
        either.push("s", turn, turn_id="t")

    first = either.push("s", turn, turn_id="t", on_too_large="cut")
    again = either.push("s", turn, turn_id="t", on_too_large="cut")

    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)
    assert first.cut > 450_000
    with pytest.raises(TurnConflict):
        either.push("s", long_result(1_500_001), turn_id="t", on_too_large="cut")
    assert [each.cut for each in either.push_many([("s", turn)], on_too_large="cut")] == [first.cut]


def test_what_is_cut_is_the_longest_text_and_json_stays_json(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    arguments = json.dumps({"text": "y" * 1_200_000})
    turn: list[dict[str, Any]] = [*long_result(100), {"role": "user", "content": "z" * 1000}]
    turn[0]["tool_calls"][0]["function"]["arguments"] = arguments

    pushed = client.push("s", turn, on_too_large="cut")

    found: Any = redis_client.xrange(worker.keys("s").log)
    [(_, entry)] = found
    stored = json.loads(entry[b"messages"])
    assert stored[1:] == turn[1:]
    said = json.loads(stored[0]["tool_calls"][0]["function"]["arguments"])["removed"]
    assert f"[… {pushed.cut} characters removed …]" in said
    assert 900_000 < len(entry[b"messages"]) <= 1024 * 1024


def test_a_text_that_looks_like_a_note_is_cut_as_any_other(client: ContextClient) -> None:
    said = f"[… {'9' * 5_000} characters removed …]" + "x" * 1_200_000

    pushed = client.push("s", {"role": "user", "content": said}, on_too_large="cut")

    assert pushed.cut > 150_000


def test_images_that_have_no_room_go_when_a_turn_is_cut(
    namespace: str, redis_server: EmbeddedRedis
) -> None:
    parts = [image(data_url(png(seed, size=900))) for seed in range(3)]
    with ContextClient(redis_server.url, namespace=namespace, max_image_bytes=2_000) as client:
        pushed = client.push("s", {"role": "user", "content": parts}, on_too_large="cut")
        [message] = client.read("s").messages

    assert [part["type"] for part in message["content"]] == ["image_url", "image_url", "text"]
    assert 800 < pushed.cut < 1000


def test_what_has_no_texts_to_cut_is_refused(either: Surface) -> None:
    turn = {"messages": [HI], "metadata": {"x": "y" * 1_200_000}}

    with pytest.raises(TurnTooLarge, match="too few of them texts that could be cut"):
        either.push("s", turn, on_too_large="cut")
    with pytest.raises(InvalidInput, match="allowed are 'raise' and 'cut'"):
        either.push("s", HI, on_too_large="shrink")


def test_a_turn_id_is_known_after_its_turn_was_compacted(either: Surface, worker: Worker) -> None:
    either.open("s", Policy(max_tokens=512))
    either.push("s", HI, turn_id="t")
    either.push_many([("s", {"role": "user", "content": "word " * 60})] * 12)
    worker.work("s")

    again = either.push("s", HI, turn_id="t")

    assert (again.seq, again.duplicate) == (1, True)
    assert either.info("s").watermark > 1


def test_the_dedupe_window_is_bounded(
    client: ContextClient, redis_client: redis.Redis, worker: Worker
) -> None:
    client.push("named", HI, turn_id="t")
    client.push_many([("named", HI)] * DEDUPE_WINDOW)
    client.push_many([("s", HI)] * (RETRY_WINDOW + 20))

    assert redis_client.zcard(worker.keys("named").ids) == DEDUPE_WINDOW
    assert redis_client.zcard(worker.keys("s").ids) == RETRY_WINDOW


def test_push_many_keeps_the_order_within_each_session(either: Surface) -> None:
    pairs = [(f"s{at % 3}", {"role": "user", "content": str(at)}) for at in range(1200)]
    either.open("s1", Policy(max_tokens=100_000))

    pushed = either.push_many(pairs)

    assert [each.seq for each in pushed] == [at // 3 + 1 for at in range(1200)]
    contents = [message["content"] for message in either.read("s1").messages]
    assert contents == [str(at) for at in range(1, 1200, 3)]


def test_one_bad_turn_of_many_stores_none(either: Surface) -> None:
    try:
        either.push_many([("s", HI), ("s", {"role": "nobody", "content": "hi"})])
    except ValueError as error:
        message = str(error)

    assert message.startswith("turns[1]: ")
    assert either.sessions() == []


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_pages_hold_each_session_once_in_the_order_of_their_last_push(
    either: Surface, redis_client: redis.Redis, limit: int
) -> None:
    names = [f"s:{at:02}" for at in range(40)]
    for at, name in enumerate(names):
        either.push(name, HI)
        # Four at a time were pushed to in the same millisecond.
        key = session_keys(either.namespace, SessionId(name)).index
        redis_client.zadd(key, {name: 1_700_000_000_000 + at // 4})

    pages = [either.sessions_page(limit=limit)]
    while after := pages[-1].after:
        pages.append(either.sessions_page(after, limit=limit))

    assert [name for page in pages for name in page.sessions] == either.sessions() == names[::-1]
    assert {len(page.sessions) for page in pages[:-1]} <= {limit}


def test_pages_hold_each_session_once_where_most_are_of_one_shard(
    either: Surface, redis_client: redis.Redis
) -> None:
    every = [SessionId(f"s{at:04}") for at in range(4_000)]
    names = [name for name in every if shard_of(name) == 7] + every[:5]
    for at, name in enumerate(names):
        redis_client.zadd(session_keys(either.namespace, name).index, {name: 1_000 + at})

    pages = [either.sessions_page(limit=30)]
    while after := pages[-1].after:
        pages.append(either.sessions_page(after, limit=30))

    assert [name for page in pages for name in page.sessions] == either.sessions() == names[::-1]
    assert all(0 < len(page.sessions) <= 30 for page in pages)


def test_who_is_pushed_to_between_two_pages_hides_no_other(either: Surface) -> None:
    names = [f"s{at}" for at in range(6)]
    for name in names:
        either.push(name, HI)
    first = either.sessions_page(limit=3)

    either.push(first.sessions[-1], HI)

    assert first.after is not None
    rest = either.sessions_page(first.after, limit=3)
    assert {*first.sessions, *rest.sessions} == set(names)


@pytest.mark.parametrize("after", ["s", ":s", "1e9:s", "-1:s", "nan:s", f"{'9' * 400}:s"])
def test_a_page_that_no_page_named_is_refused(either: Surface, after: str) -> None:
    with pytest.raises(InvalidInput, match="after: must be what the page before said"):
        either.sessions_page(after)


def test_pushing_on_after_scripts_were_flushed_works(
    either: Surface, redis_client: redis.Redis
) -> None:
    either.push("s", HI)
    redis_client.script_flush()

    pushed = either.push("s", HI)

    assert pushed.seq == 2


# --- What can be seen to be wrong is refused before a worker is asked, and nobody waits for it.


Call = Callable[[Surface], Any]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.rollback("s", 1.5), "to: must be a checkpoint's id, a version"),
        (lambda client: client.rollback("s", True), "to: must be .*, got bool"),  # noqa: FBT003
        (
            lambda client: client.summarize("s", template=5),
            "template name: got a value of type int",
        ),
        (lambda client: client.summarize("s", template="../x"), "template name: got 4 characters"),
        (lambda client: client.summarize("s", template=None, wait=False), "template name: got"),
        (lambda client: client.ground("what?", "5"), r"k of type str must be in 1\.\.100"),
        (lambda client: client.ground("what?", 2.5), r"k of type float must be in 1\.\.100"),
        (lambda client: client.remember("x" * 100_001), "100001 characters; a memory has at most"),
    ],
    ids=["half", "bool", "number", "path", "nothing", "text", "half k", "long"],
)
def test_what_no_worker_could_answer_is_refused_at_once(
    either: Surface, call: Call, said: str
) -> None:
    either.push("s", HI)

    with pytest.raises(InvalidInput, match=said):
        call(either)
