"""The producer's estimates: the specification's, and the bound a read relies on."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from benchmarks import hostile_text
from tests.realdata import names, requires_data, sessions
from turnmill.contract.estimate import bound_tokens, bound_turn, estimate_tokens
from turnmill.contract.image_tokens import FORMULAS
from turnmill_worker.tokens import count_request, counter_for

COUNTERS = (counter_for("o200k_base"), counter_for("cl100k_base"))
MEGABYTE = 1 << 20


def body_of(messages: list[dict[str, Any]]) -> bytes:
    return json.dumps({"messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


def exact_tokens(messages: list[dict[str, Any]]) -> int:
    return max(count_request(counter, messages) for counter in COUNTERS)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcdefg", 2), ("é" * 8, 3)])
def test_the_estimate_is_characters_over_three_and_a_half_rounded_up(
    text: str, tokens: int
) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("size", [1, 2, 10, 31, 511, 512, 513, 32_768, 32_769, 70_000])
def test_a_bound_never_exceeds_a_token_per_byte(size: int) -> None:
    for text in ("a" * size, "~" * size, "\0" * size, "é" * size):
        assert 0 < bound_tokens(text.encode()) <= len(text.encode())


def test_nothing_costs_nothing() -> None:
    assert bound_tokens(b"") == 0


@pytest.mark.parametrize("seed", [101, 102, 103])
@pytest.mark.parametrize("size", [150, 1500])
def test_hostile_text_stays_under_its_bound(seed: int, size: int) -> None:
    for kind, drawn in hostile_text.hostile(random.Random(seed), size):
        text = drawn.encode("utf-8", "replace").decode()
        exact = max(counter.count(text) for counter in COUNTERS)

        assert bound_tokens(text.encode()) >= exact, kind


@pytest.mark.parametrize("seed", [104, 105])
def test_hostile_text_in_a_message_stays_under_the_bound_of_its_turn(seed: int) -> None:
    for kind, drawn in hostile_text.hostile(random.Random(seed), 300):
        text = drawn.encode("utf-8", "replace").decode()
        messages = [{"role": "user", "content": text}]

        assert bound_turn(body_of(messages)) >= exact_tokens(messages), kind


def test_framing_stays_under_the_bound_of_its_turn() -> None:
    for kind, messages in hostile_text.structures(random.Random(106)):
        assert bound_turn(body_of(messages)) >= exact_tokens(messages), kind


@pytest.mark.parametrize("seed", [107])
def test_a_mixture_of_hostile_texts_stays_under_its_bound(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [text for _, text in hostile_text.hostile(chance, 60)]

    for _ in range(200):
        drawn = "".join(chance.choices(pieces, k=20))
        text = drawn.encode("utf-8", "replace").decode()
        exact = max(counter.count(text) for counter in COUNTERS)
        assert bound_tokens(text.encode()) >= exact


def test_a_long_text_costs_about_what_its_pieces_cost() -> None:
    piece = b"The quick brown fox, 12 times; " * 32

    whole, parts = bound_tokens(piece * 200), 200 * bound_tokens(piece)

    assert 0.95 * parts <= whole <= parts


MOST = FORMULAS["gpt-4o"].tokens(0, 0, None)
REFERENCE = "blob:" + "ab" * 32 + ";image/png;1024x768"


def image(url: str, **others: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {**others, "url": url}}


def test_an_inline_image_costs_its_price_not_its_base64() -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 20_000
    messages = [{"role": "user", "content": [{"type": "text", "text": "see"}, *[image(url)] * 2]}]

    bound = bound_turn(body_of(messages))

    assert exact_tokens(messages) <= bound <= 2 * MOST + 150


def test_an_image_referred_to_costs_its_price_wherever_its_url_stands() -> None:
    parts = [image(REFERENCE), image(REFERENCE, detail="low"), image(REFERENCE, more="x")]
    messages = [{"role": "user", "content": parts}]

    bound = bound_turn(body_of(messages))

    assert exact_tokens(messages) <= bound <= 765 + 85 + 765 + 150


def test_an_image_is_priced_by_the_formula_asked_for() -> None:
    messages = [{"role": "user", "content": [image(REFERENCE)]}]

    assert bound_turn(body_of(messages), FORMULAS["gpt-4o-mini"]) >= 25_501


def test_one_message_is_bounded_like_a_turn_of_it() -> None:
    message = {"role": "user", "content": [image(REFERENCE)]}
    bare = json.dumps(message, separators=(",", ":")).encode()

    assert 765 <= bound_turn(bare) <= bound_turn(body_of([message])) <= bound_turn(bare) + 20


def test_an_image_by_address_costs_the_most_an_image_can() -> None:
    messages = [{"role": "user", "content": [image("https://example.com/a.png")] * 3}]

    assert bound_turn(body_of(messages)) >= exact_tokens(messages) >= 3 * MOST


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": '"image_url":{"url":"data:' + "xq " * 1000},
        {"role": "user", "content": [{"type": "odd", "image_url": {"url": "data:" + "xq " * 999}}]},
        {"role": "user", "content": "see", "image_url": {"url": "data:," + "xq " * 1000}},
        {"role": "user", "content": [{"type": "image_url"}, "image_url", {"image_url": 7}]},
    ],
)
def test_what_only_looks_like_an_image_is_still_counted(message: dict[str, Any]) -> None:
    assert bound_turn(body_of([message])) >= exact_tokens([message])


@pytest.mark.parametrize("body", [b'{"messages":[{"image_url":{"url":"data:', b'"image_url"', b"7"])
def test_a_bound_takes_any_bytes(body: bytes) -> None:
    assert 0 < bound_turn(body) <= len(body)
    assert bound_tokens(bytes(range(256)) * 9) > 0


@requires_data
@pytest.mark.parametrize("name", names())
def test_every_real_message_stays_under_the_bound_of_its_turn(name: str) -> None:
    for session in sessions(name):
        for message in session["messages"]:
            body = body_of([message])
            assert bound_turn(body) >= exact_tokens([message])


@requires_data
@pytest.mark.parametrize("name", names())
def test_every_real_session_stays_under_its_bound_and_near_it(name: str) -> None:
    bounds = exacts = 0
    for session in sessions(name):
        body = body_of(session["messages"])
        bound, exact = bound_turn(body), exact_tokens(session["messages"])
        assert bound >= exact
        bounds, exacts = bounds + bound, exacts + exact

    assert bounds <= 2.5 * exacts


@pytest.mark.parametrize("word", ["Nfuee", "Fhuee", "xwzqkzqkzqkz", "xkzqkzqkzqkq", "jqxzvkwq"])
def test_the_worst_text_that_was_found_costs_at_most_two_and_a_half_bounds(word: str) -> None:
    text = word * (20_000 // len(word))

    assert counter_for("o200k_base").count(text) <= 2.5 * bound_tokens(text.encode())
