"""What a namespace remembers, and what a model looks up: asked of real workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.unit.grounding.endpoint import Endpoint, serving
from tests.worker.harness import (
    SMALL,
    JsonMessage,
    NewServer,
    NewWorker,
    archive_in,
    chat,
    push_all,
)
from turnmill import ContextClient, Policy
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.read.view import bound
from turnmill_worker.tokens import count_message, counter_for

pytestmark = pytest.mark.worker

GROUNDED = Policy(max_tokens=2_000, grounding_ratio=0.1)
SHARE = 200
"""Tokens ``GROUNDED`` gives to memories."""

QUESTION = "Which colour has the kayak of Zebedee?"
ANSWER = "The kayak of Zebedee is vermilion."


@pytest.fixture(scope="module")
def remembering(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker with an archive for the module."""
    folder = tmp_path_factory.mktemp("remembering")
    with WorkerProcess(store.url, folder, name="remembering", env=archive_in(folder)) as worker:
        yield worker


def archived(client: ContextClient, session: str, *, turns: int) -> bool:
    """Whether the session was compacted, and nothing is left to count or to archive."""
    info = client.info(session)
    done = info.counted_seq == info.last_seq == turns and info.due_in_s is None
    return done and info.compactions > 0 and info.turns_covered == 0


def told(client: ContextClient, session: str = "old") -> None:
    """A session in the archive that holds question and answer, a long time ago."""
    client.open(session, SMALL)
    asked = {"role": "user", "content": QUESTION}
    answered = {"role": "assistant", "content": ANSWER}
    push_all(client, session, [asked, answered, *chat(60)])
    wait_until(lambda: archived(client, session, turns=62), what="archived")


def texts(messages: list[JsonMessage]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


@pytest.mark.usefixtures("remembering")
def test_memories_stand_before_the_input_in_its_turn_within_their_share(
    client: ContextClient,
) -> None:
    told(client)
    agent = client.manager("new", GROUNDED, "Be brief.")
    agent.add_interaction("Hello", "What can I do for you?")
    before = agent.messages()

    result = agent.process_turn(QUESTION)

    after = agent.messages()
    memories, asked = after[-2:]
    assert asked == {"role": "user", "content": QUESTION}
    assert (memories["role"], memories["name"]) == ("user", "memories")
    assert ANSWER in memories["content"]
    assert len(after) == len(before) + 2
    assert after[: len(before)] == before, "what was said before stays a prefix, byte for byte"
    assert result.seq == client.info("new").last_seq == 2, "one turn"
    assert any(memory.startswith("old:") for memory in result.grounding_used)
    exact = count_message(counter_for("o200k_base", "gpt-4o"), memories)
    assert exact <= bound([memories]) <= SHARE


@pytest.mark.usefixtures("remembering")
def test_memories_given_to_an_agent_are_not_remembered_or_summarized_again(
    client: ContextClient,
) -> None:
    told(client)
    agent = client.manager("new", GROUNDED)
    agent.process_turn(QUESTION)
    assert ANSWER in texts(agent.messages())

    push_all(client, "new", chat(80, topic="letter"))
    wait_until(lambda: archived(client, "new", turns=81), what="archived")

    context = agent.read()
    assert context.watermark > 1
    assert "vermilion" not in texts(context.messages)
    found = client.ground("vermilion kayak Zebedee", 50).memories
    assert {memory.session for memory in found if "vermilion" in memory.text} == {"old"}
    ours = [memory.text for memory in found if memory.session == "new" and memory.kind == "turn"]
    assert QUESTION in ours
    assert "vermilion" in agent.transcript(), "but the transcript tells what the agent was given"


def test_with_no_workers_an_input_is_pushed_all_the_same(
    new_server: NewServer, namespace: str
) -> None:
    with ContextClient(new_server().url, namespace=namespace) as client:
        agent = client.manager("new", GROUNDED)

        result = agent.process_turn(QUESTION)

        assert agent.messages() == [{"role": "user", "content": QUESTION}]
        assert result.grounding_used == ()


def test_what_workers_embed_is_redacted_and_not_sent_by_a_redactor_nobody_knows(
    new_worker: NewWorker, new_server: NewServer, tmp_path: Path, namespace: str
) -> None:
    url = new_server().url
    with serving() as endpoint, ContextClient(url, namespace=namespace) as client:
        env = {"TURNMILL_REDIS_URL": url, "TURNMILL_EMBEDDINGS_URL": endpoint.url}
        env |= {"TURNMILL_REDACTOR": "built-in", **archive_in(tmp_path)}
        redacting = new_worker("redacting", env=env)
        client.remember("Zebedee is zebedee@kayaks.example.")
        client.ground("Who is zebedee@kayaks.example?", timeout_s=20)
        redacting.stop()
        new_worker("mistaken", env={**env, "TURNMILL_REDACTOR": "mistyped"})
        degraded = client.ground("Who is zebedee@kayaks.example?", timeout_s=20)

    assert _inputs(endpoint) == [["Who is [redacted email]?", "Zebedee is [redacted email]."]]
    assert "no redactor 'mistyped'" in degraded.degraded
    assert [memory.text for memory in degraded.memories] == ["Zebedee is zebedee@kayaks.example."]


def _inputs(endpoint: Endpoint) -> list[list[str]]:
    return [request["input"] for request in endpoint.requests]


ASKED = '{"query": "kayak Zebedee"}'


def recalled(client: ContextClient, session: str, said: str) -> None:
    """A session in the archive in which somebody said this first."""
    client.open(session, SMALL.model_copy(update={"recall_tool": True}))
    turns = [{"role": "user", "content": said}, *chat(80)]
    push_all(client, session, turns)

    wait_until(lambda: archived(client, session, turns=len(turns)), what="archived")


@pytest.mark.usefixtures("remembering")
def test_a_session_is_searched_alone_when_it_is_asked_for(client: ContextClient) -> None:
    recalled(client, "mine", ANSWER)
    recalled(client, "other", "Zebedee sold the other kayak.")
    client.remember("Zebedee keeps a second kayak in the shed.")

    everywhere = client.ground("kayak Zebedee", 20).memories
    mine = client.manager("mine").ground("kayak Zebedee", 20, this_session=True).memories

    assert {memory.session for memory in everywhere} == {"mine", "other", None}
    assert {memory.session for memory in mine} == {"mine"}
    assert ANSWER in {memory.text for memory in mine}
    assert client.ground("kayak", session="nobody").memories == ()


@pytest.mark.usefixtures("remembering")
def test_the_context_says_that_the_tool_exists_when_the_agent_has_it(client: ContextClient) -> None:
    recalled(client, "mine", ANSWER)
    client.open("without", SMALL)
    push_all(client, "without", chat(80))
    wait_until(lambda: client.info("without").compactions > 0, what="compacted")

    mine, without = (str(client.read(name).messages) for name in ("mine", "without"))

    assert "[Summary of the conversation so far; the tool recall finds what was said]" in mine
    assert "recall" not in without


def test_a_model_is_told_when_nothing_can_be_searched(
    new_server: NewServer, namespace: str
) -> None:
    server = new_server()
    with ContextClient(server.url, namespace=namespace) as client:
        tool = client.manager("mine").recall_tool

        nobody = tool.handle(ASKED, timeout_s=0.3)
        server.stop()
        gone = tool.handle(ASKED, timeout_s=0.3)

    assert nobody == gone
    assert nobody.startswith("recall: the memory cannot be searched just now")
