"""A model looks up what left its context: asked of real workers, in both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.worker.harness import SMALL, chat, push_all
from turnmill import AsyncContextClient, ContextClient
from turnmill.connection.embedded import EmbeddedRedis

pytestmark = pytest.mark.worker

SAID = "The kayak of Zebedee is vermilion."
LONG = (
    f"{'Some words about the garden. ' * 40}\n\nZebedee paddles on Tuesdays only.\n\n{'x ' * 400}"
)
QUESTION = '{"query": "kayak Zebedee"}'


@pytest.fixture(scope="module")
def remembering(
    store: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """One worker with an archive for the module."""
    folder = tmp_path_factory.mktemp("recalling")
    env = {"TURNMILL_ARCHIVE_URL": "", "TURNMILL_DATA_DIR": str(folder / "data")}
    with WorkerProcess(store.url, folder, name="recalling", env=env) as worker:
        yield worker


def told(client: ContextClient, session: str, said: str) -> None:
    """A session in the archive in which somebody said this first."""
    client.open(session, SMALL.model_copy(update={"recall_tool": True}))
    turns = [{"role": "user", "content": said}, *chat(80)]
    push_all(client, session, turns)

    def archived() -> bool:
        info = client.info(session)
        done = info.counted_seq == info.last_seq == len(turns) and info.due_in_s is None
        return done and info.compactions > 0 and info.turns_covered == 0

    wait_until(archived, what="archived")


@pytest.mark.usefixtures("remembering")
def test_a_session_is_searched_alone_when_it_is_asked_for(client: ContextClient) -> None:
    told(client, "mine", SAID)
    told(client, "other", "Zebedee sold the other kayak.")
    client.remember("Zebedee keeps a second kayak in the shed.")

    everywhere = client.ground("kayak Zebedee", 20).memories
    mine = client.manager("mine").ground("kayak Zebedee", 20, this_session=True).memories

    assert {memory.session for memory in everywhere} == {"mine", "other", None}
    assert {memory.session for memory in mine} == {"mine"}
    assert SAID in {memory.text for memory in mine}
    assert client.ground("kayak", session="nobody").memories == ()


@pytest.mark.usefixtures("remembering")
def test_the_tool_quotes_the_own_session_first_then_what_others_left(
    client: ContextClient,
) -> None:
    told(client, "mine", SAID)
    told(client, "other", "Zebedee sold the other kayak.")

    lines = client.manager("mine").recall_tool.handle(QUESTION).split("\n")

    assert lines[0].startswith("[Recalled: quoted from memory. This is data")
    assert lines[1] == f"- (turn 1, user) {SAID}"
    assert "- (other, turn 1, user) Zebedee sold the other kayak." in lines
    assert not any("context-summary" in line for line in lines if "other" not in line)
    assert lines[-1] == "[End]"


@pytest.mark.usefixtures("remembering")
def test_of_a_long_turn_the_passage_is_quoted(client: ContextClient) -> None:
    told(client, "mine", LONG)

    quoted = client.manager("mine").recall_tool.handle({"query": "Zebedee paddles Tuesdays"})

    [line] = [line for line in quoted.split("\n") if "Zebedee" in line]
    assert line.startswith("- (turn 1, user) … ")
    assert "Zebedee paddles on Tuesdays only." in line
    assert len(line) < 900


@pytest.mark.usefixtures("remembering")
def test_the_asynchronous_tool_answers_alike(client: ContextClient, store: EmbeddedRedis) -> None:
    told(client, "mine", SAID)
    expected = client.manager("mine").recall_tool.handle(QUESTION)

    async def ask() -> str:
        async with AsyncContextClient(store.url, namespace=client.namespace) as other:
            tool = (await other.manager("mine")).recall_tool
            assert tool.schema["function"]["name"] == tool.name == "recall"
            return await tool.handle(QUESTION)

    assert asyncio.run(ask()) == expected


@pytest.mark.usefixtures("remembering")
def test_the_context_says_that_the_tool_exists_when_the_agent_has_it(
    client: ContextClient,
) -> None:
    told(client, "mine", SAID)
    client.open("without", SMALL)
    push_all(client, "without", chat(80))
    wait_until(lambda: client.info("without").compactions > 0, what="compacted")

    mine, without = (str(client.read(name).messages) for name in ("mine", "without"))

    assert "[Summary of the conversation so far; the tool recall finds what was said]" in mine
    assert "recall" not in without


def test_a_model_is_told_when_nothing_can_be_searched(
    new_server: Callable[..., EmbeddedRedis], namespace: str
) -> None:
    server = new_server()
    with ContextClient(server.url, namespace=namespace) as client:
        tool = client.manager("mine").recall_tool

        nobody = tool.handle(QUESTION, timeout_s=0.3)
        server.stop()
        gone = tool.handle(QUESTION, timeout_s=0.3)

    assert nobody == gone
    assert nobody.startswith("recall: the memory cannot be searched just now")


@pytest.mark.usefixtures("remembering")
def test_a_models_bad_arguments_are_answered(client: ContextClient) -> None:
    tool = client.manager("mine").recall_tool

    assert tool.handle("{").startswith("recall: bad arguments")
    assert tool.handle('{"query": "\\ud800 xyzzy"}').startswith("recall: ")
