"""Without any worker, contexts full of images are cut to their limit, and say so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest

from tests.image_parts import png, showing
from tests.realdata import names, requires_data, sessions
from tests.redis.conftest import Surface
from tests.redis.test_images import inlined
from turnmill import Context, ContextClient, Policy
from turnmill.contract.legality import violations
from turnmill_worker.tokens import count_request, counter_for

AGENTS = 500
TURNS = 24
THREADS = 16
SIDES = ((64, 64), (640, 480), (1024, 768), (1920, 1080), (8000, 300))


def exact(read: Context, formula: str) -> int:
    """The tokens of what was read, as a worker counts them."""
    return count_request(counter_for("o200k_base", formula), read.messages)


@requires_data
@pytest.mark.parametrize(("formula", "limit"), [("gpt-4o", 4000), ("gpt-4o-mini", 60_000)])
@pytest.mark.parametrize("pinned", [(), (1,), (1, 3, 5, 7)], ids=["", "a pin", "pins over all"])
def test_screenshots_over_the_limit_are_cut_to_it(
    either: Surface, formula: str, limit: int, pinned: tuple[int, ...]
) -> None:
    policy = Policy(max_tokens=limit, image_formula=formula)
    images = 0
    for session in sessions("webvoyager"):
        name = session["session_id"]
        either.open(name, policy)
        shown = [inlined(message) for message in session["messages"][1:]] * 2
        either.push_many(
            (name, {"messages": [message], "pinned": at in pinned})
            for at, message in enumerate(shown)
        )

        read = either.read(name)

        assert exact(read, formula) <= read.tokens <= policy.hard_limit
        assert violations(read.messages) == []
        assert read.projection is not None
        images += str(read.messages).count("data:image/png")
    assert images > 1  # beside the request, which takes up to a quarter of the room


def test_a_screenshot_larger_than_the_limit_gives_way_to_a_line_of_text(either: Surface) -> None:
    policy = Policy(max_tokens=4096, image_formula="gpt-4o-mini")
    either.open("s", policy)
    either.push("s", showing(png(width=1024, height=768), text="The shop's front page."))

    read = either.read("s")

    assert exact(read, "gpt-4o-mini") <= read.tokens <= policy.hard_limit
    assert read.projection is not None
    assert read.messages[0]["content"][0]["text"] == "The shop's front page."
    assert "Image removed" in read.messages[0]["content"][1]["text"]


@requires_data
def test_five_hundred_agents_without_workers_all_read_contexts_under_their_limit(
    client: ContextClient,
) -> None:
    agents = list(islice(cycle(_conversations()), AGENTS))

    def run(number: int) -> tuple[Context, Policy]:
        formula = "gpt-4o-mini" if number % 3 == 0 else "gpt-4o"
        policy = Policy(max_tokens=2000 + 8 * number, image_formula=formula)
        name = f"agent-{number}"
        client.open(name, policy)
        client.push_many(
            (name, {"messages": [message], "pinned": at % 11 == 5})
            for at, message in enumerate(_with_images(agents[number], number))
        )
        return client.read(name), policy

    with ThreadPoolExecutor(THREADS) as pool:
        reads = list(pool.map(run, range(AGENTS)))

    for read, policy in reads:
        assert exact(read, policy.image_formula) <= read.tokens <= policy.hard_limit
        assert violations(read.messages) == []
        assert read.projection is not None


def _conversations() -> list[list[dict[str, Any]]]:
    """The middle of some sessions of every kind, without their long system prompts."""
    found = [s["messages"] for name in names() for s in sessions(name, limit=12)]
    return [[m for m in said if m["role"] != "system"][4 : 4 + TURNS] for said in found]


def _with_images(said: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """The messages with a large text, and an image after every third."""
    large = {"role": "user", "content": f"Agent {number}: " + "and so on, " * (200 + 4 * number)}
    shown: list[dict[str, Any]] = [large]
    for at, message in enumerate(said):
        shown.append(message)
        if at % 3 == 0:
            width, height = SIDES[(at + number) % len(SIDES)]
            shown.append(showing(png(at, width=width, height=height)))
    return shown
