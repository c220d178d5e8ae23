"""Specification 000, row by row: the image history of an agent that navigates by screenshots.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from pydantic import BaseModel
from typer.testing import CliRunner

from tests.image_parts import data_url, image, png, showing
from tests.realdata import DATA_DIR, requires_data, sessions
from tests.specifications.agents import settled
from turnmill import (
    ContextClient,
    ContextManager,
    InvalidTurn,
    Policy,
    Trajectory,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.image_tokens import FORMULAS, image_tokens
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_cli.app import app

ROOMY = 200_000
"""Tokens no test here comes near: what happens, happens because of the images' number."""

THUMBNAIL, CROPS = png(0), [png(number) for number in range(1, 10)]

Message = dict[str, Any]


def removed(number: int) -> str:
    """The placeholder, as specified."""
    return f"[Image from Step {number} removed to save context]"


def navigate(agent: ContextManager, crops: int) -> None:
    """The thumbnail with the question, then a crop for each step."""
    agent.add_turn(image=THUMBNAIL, reasoning="I see all of it", action="crop 1", text="How many?")
    for number in range(1, crops + 1):
        crop = CROPS[number - 1]
        agent.add_turn(image=crop, reasoning=f"I see part {number}", action=f"crop {number + 1}")


def shown(messages: list[Message]) -> list[str]:
    """The images' URLs, in order."""
    return [
        part["image_url"]["url"]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


def texts(messages: list[Message]) -> list[str]:
    """All text, in order."""
    found = []
    for message in messages:
        if isinstance(message["content"], str):
            found.append(message["content"])
        else:
            found += [part["text"] for part in message["content"] if part["type"] == "text"]
    return found


def placeholders(messages: list[Message]) -> list[str]:
    """The texts that stand for images, in order."""
    return [text for text in texts(messages) if text.startswith("[Image from Step")]


def roles(messages: list[Message]) -> list[str]:
    """Who speaks, in order."""
    return [message["role"] for message in messages]


def urls(*images: bytes) -> list[str]:
    """The images as a read gives them back."""
    return [data_url(each) for each in images]


class Step(NamedTuple):
    """One step of a real navigation."""

    text: str
    image: Path | str
    reasoning: str
    action: str


def navigation(number: int) -> tuple[str, list[Step]]:
    """System prompt and steps of a real WebVoyager session."""
    assert DATA_DIR is not None
    messages = sessions("webvoyager")[number]["messages"]
    steps = []
    for asked, answered in zip(messages[1::2], messages[2::2], strict=True):
        text, image = (part.get("text") or part["image_url"]["url"] for part in asked["content"])
        if image.startswith("file://"):
            image = DATA_DIR / image.removeprefix("file://")
        reasoning, _, action = answered["content"].partition("\n\nAction: ")
        steps.append(Step(text, image, reasoning, action))
    return messages[0]["content"], steps


def as_url(image: Path | str) -> str:
    """A screenshot as a data URL."""
    return image if isinstance(image, str) else data_url(image.read_bytes())


# What a turn takes: image, reasoning, action


def test_add_turn_stores_the_image_the_reasoning_and_the_action(agents: ContextClient) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY))

    pushed = agent.add_turn(
        image=THUMBNAIL, reasoning="The tumour is left.", action="crop", text="Where is it?"
    )

    assert pushed.seq == 1
    assert agent.messages() == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Where is it?"}, image(data_url(THUMBNAIL))],
        },
        {"role": "assistant", "content": "The tumour is left.\n\nAction: crop"},
    ]
    [turn] = agent.trajectory().turns
    assert turn.metadata == {"reasoning": "The tumour is left.", "action": "crop"}


def test_an_image_is_given_as_bytes_base64_a_file_or_an_url(
    agents: ContextClient, tmp_path: Path
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY))
    file = tmp_path / "crop-without-extension"
    file.write_bytes(THUMBNAIL)
    there = "https://example.com/crop.png"

    for given in (THUMBNAIL, base64.b64encode(THUMBNAIL).decode(), file, str(file)):
        agent.add_turn(image=given, reasoning="I look", action="wait")
    agent.add_turn(image=data_url(THUMBNAIL), reasoning="I look", action="wait")
    agent.add_turn(image=there, reasoning="I look", action="wait")

    assert shown(agent.messages()) == [*urls(THUMBNAIL) * 5, there]


def test_a_message_with_image_url_parts_is_as_good_as_add_turn(agents: ContextClient) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    for number in range(4):
        agent.push([showing(png(number)), {"role": "assistant", "content": f"Seen {number}"}])

    settled(agents, "nav")

    assert shown(agent.messages()) == urls(png(0), png(3))
    assert placeholders(agent.messages()) == [removed(1), removed(2)]


class Region(BaseModel):
    """As an agent has it."""

    x: int
    y: int
    width: int
    height: int


@pytest.mark.parametrize(
    ("region", "kept"),
    [
        (Region(x=1, y=2, width=30, height=40), {"x": 1, "y": 2, "width": 30, "height": 40}),
        ((1, 2, 30, 40), [1, 2, 30, 40]),
        ("the header", "the header"),
        ({"label": "h\ud800"}, {"label": "h\ufffd"}),
    ],
)
def test_a_region_is_kept_with_its_turn(agents: ContextClient, region: object, kept: Any) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY))

    agent.add_turn(image=CROPS[0], reasoning="Closer", action="crop", region=region)

    [turn] = agent.trajectory().turns
    assert turn.metadata is not None
    assert turn.metadata["region"] == kept
    [caption, _] = texts(agent.messages())
    assert caption.startswith("Here is the region ")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"image": b"not an img"}, "10 bytes that are no PNG, JPEG"),
        ({"image": b"RIFF\0\0\0\0WAVEfmt "}, "16 bytes that are no PNG"),
        ({"image": "/no/such/file.png"}, "no readable file of that name"),
        ({"image": "data:text/plain;base64,aGVsbG8="}, "no readable file of that name"),
        ({"image": 5}, "image: got int; allowed are bytes, base64, a path, or a data:"),
        ({"image": THUMBNAIL, "action": {"click": 3}}, "action: must be a str, got dict"),
        ({"image": THUMBNAIL, "region": object()}, "region: must be JSON, got object"),
        ({"image": THUMBNAIL, "iteration": -1}, "iteration"),
        ({}, "needs an image, text, reasoning or an action"),
    ],
)
def test_what_is_no_step_is_refused_and_nothing_is_stored(
    agents: ContextClient, wrong: dict[str, Any], told: str
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY))

    with pytest.raises(InvalidTurn, match=told.replace(".", r"\.")):
        agent.add_turn(**wrong)

    assert agent.is_empty()


# get_messages(): system, user with thumbnail, assistant, user with crop, …


def test_messages_alternate_between_user_and_assistant_after_the_system_prompt(
    agents: ContextClient,
) -> None:
    policy = Policy.image_history(max_tokens=ROOMY, max_history_images=1)
    agent = agents.manager("nav", policy, "You look at slides.")
    navigate(agent, 3)

    before = agent.messages()
    settled(agents, "nav")
    after = agent.messages()

    assert before[0] == after[0] == {"role": "system", "content": "You look at slides."}
    assert roles(before) == roles(after) == ["system", *["user", "assistant"] * 4]


# image history limit


@pytest.mark.parametrize(
    ("limits", "images", "gone"),
    [
        pytest.param({}, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [], id="default-keeps-all"),
        pytest.param({"max_history_images": 5}, [0, 5, 6, 7, 8, 9], [1, 2, 3, 4], id="last-five"),
        pytest.param({"max_history_images": 0}, [0], list(range(1, 10)), id="thumbnail-only"),
        pytest.param(
            {"max_history_images": 1, "keep_first_image": False},
            [9],
            list(range(9)),
            id="thumbnail-like-any-other",
        ),
    ],
)
def test_the_thumbnail_and_the_newest_crops_are_kept_at_step_ten(
    agents: ContextClient, limits: dict[str, Any], images: list[int], gone: list[int]
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, **limits))
    navigate(agent, 9)

    settled(agents, "nav")

    assert shown(agent.messages()) == urls(*(([THUMBNAIL, *CROPS])[at] for at in images))
    assert placeholders(agent.messages()) == [removed(number) for number in gone]


def test_the_placeholder_stands_where_the_image_was_and_every_word_stays(
    agents: ContextClient,
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    unlimited = agents.manager("all", Policy.image_history(max_tokens=ROOMY))
    navigate(agent, 3)
    navigate(unlimited, 3)

    settled(agents, "nav")

    expected = copy.deepcopy(unlimited.messages())
    for number in (1, 2):
        expected[2 * number]["content"][1] = {"type": "text", "text": removed(number)}
    assert agent.messages() == expected


def test_the_placeholder_names_the_agents_own_step_number(agents: ContextClient) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    for number in (10, 20, 30, 40):
        agent.add_turn(image=png(number), reasoning="I look", action="go", iteration=number)

    settled(agents, "nav")

    assert placeholders(agent.messages()) == [removed(20), removed(30)]


def test_a_read_before_any_worker_came_keeps_the_thumbnail_too(client: ContextClient) -> None:
    policy = Policy.image_history(max_tokens=4000, max_history_images=2)
    agent = client.manager("nav", policy, "You look at slides.")

    for number in range(30):
        agent.add_turn(image=png(number), reasoning=f"I see part {number}", action="go")
        context = agent.read()
        images = shown(context.messages)
        assert images[0] == data_url(png(0))
        assert images[-1] == data_url(png(number))
        assert context.tokens <= 4000

    assert context.projection is not None


# Trajectory


def test_a_trajectory_serialises_to_json_and_loads_back(agents: ContextClient) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    agent.add_turn(
        image=THUMBNAIL, reasoning="I look", action="crop", text="How many?", source="slides/7.svs"
    )
    agent.add_turn(image=CROPS[0], reasoning="I count", action="answer", region=[0, 0, 9, 9])
    agent.add_turn(image=CROPS[1], reasoning="There are four.")
    settled(agents, "nav")

    trajectory = agent.trajectory()

    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    assert trajectory.source == "slides/7.svs"
    assert trajectory.question == "How many?"
    assert trajectory.final_answer == "There are four."
    assert [turn.seq for turn in trajectory.turns] == [1, 2, 3]


def test_the_trajectory_as_json_is_what_visualize_draws(
    agents: ContextClient, tmp_path: Path
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    navigate(agent, 3)
    settled(agents, "nav")
    file = tmp_path / "nav.json"
    file.write_text(agent.trajectory().model_dump_json())

    done = CliRunner().invoke(app, ["visualize", str(file)])

    assert done.exit_code == 0, done.output
    page = (tmp_path / "nav.html").read_text()
    assert "I see part 3" in page
    assert data_url(CROPS[0]) in page


# Beyond the specification


def test_an_image_costs_what_its_size_costs_and_never_its_base64(agents: ContextClient) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY))
    large = png(1, width=1024, height=1024, size=300_000)

    agent.add_turn(text="Look", image=large, reasoning="I look", action="go")
    info = settled(agents, "nav")

    price = image_tokens(1024, 1024, None, FORMULAS["gpt-4o"])
    assert price == 765
    assert price < info.total_tokens < price + 40


def test_an_image_is_stored_once_and_no_compaction_carries_it(
    agents: ContextClient, store: EmbeddedRedis
) -> None:
    agent = agents.manager("nav", Policy.image_history(max_tokens=ROOMY, max_history_images=1))
    big = png(7, size=200_000)
    for number in range(6):
        agent.add_turn(image=big, reasoning=f"Still the same {number}", action="wait")
    settled(agents, "nav")

    keys = session_keys(Namespace(agents.namespace), SessionId("nav"))
    with redis.Redis.from_url(store.url) as client:
        blobs = [key for key in client.scan_iter(f"{keys.blob}*") if not key.endswith(b":held")]
        context = client.get(keys.context)
        log = client.memory_usage(keys.log)

    assert len(blobs) == 1
    assert isinstance(context, bytes)
    assert b"Image from Step" in context
    assert b"base64" not in context
    assert log < 20_000


# Real navigations


@requires_data
@pytest.mark.parametrize("number", range(2))
def test_a_real_navigation_keeps_its_thumbnail_and_its_newest_screenshots(
    agents: ContextClient, number: int
) -> None:
    prompt, steps = navigation(number)
    policy = Policy.image_history(max_tokens=ROOMY, max_history_images=2)
    agent = agents.manager("web", policy, prompt)

    for step in steps:
        agent.add_turn(**step._asdict())
    settled(agents, "web")

    messages = agent.messages()
    images = [as_url(step.image) for step in steps]
    assert shown(messages) == [images[0], *images[-2:]]
    assert placeholders(messages) == [removed(step) for step in range(1, len(steps) - 2)]
    assert roles(messages) == ["system", *["user", "assistant"] * len(steps)]
    spoken = [f"{step.reasoning}\n\nAction: {step.action}" for step in steps]
    assert [message["content"] for message in messages[2::2]] == spoken
