"""Specification 002, row by row: a template-driven managed context, the "endless" chat.

Everything here goes through Redis and a real Celery worker with an archive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import WorkerProcess, wait_until
from tests.realdata import requires_data, sessions
from tests.specifications.agents import archive_url, settle, worker_with_archive
from turnmill import (
    ContextClient,
    ContextManager,
    InvalidName,
    InvalidTemplate,
    Policy,
    UnknownTemplate,
)
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.legality import violations
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import SessionRef

MANAGED = "Context summary (managed): "

HARBOUR = """# For the harbour desk

Write what the next shift needs, at most 100 words.

## Blocked
What waits, and for whom.

## Contract
```json
{"blocked": ["what waits"]}
```

# The material

Session {{session}}, told: {{system_prompt}}
<previous_summary>{{previous_summary}}</previous_summary>
<recent_turns>
{{recent_turns}}
</recent_turns>
Asked now: {{latest_input}}
Not known here: [{{weather}}]
"""


# The agents' side


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the worker logs, keeps its archive (``data``), and finds ``templates``."""
    made = tmp_path_factory.mktemp("worker")
    (made / "templates").mkdir()
    (made / "templates" / "harbour.md").write_text(HARBOUR)
    return made


@pytest.fixture(scope="module")
def worker(store: EmbeddedRedis, folder: Path) -> Iterator[WorkerProcess]:
    """A worker with an archive and the user's own templates."""
    own = {"TURNMILL_TEMPLATE_DIRS": str(folder / "templates")}
    with worker_with_archive(store, folder, **own) as running:
        yield running


@pytest.fixture
def archive(
    folder: Path,
    agents: ContextClient,  # noqa: ARG001 - its worker makes the archive
) -> Iterator[SqlArchive]:
    """The worker's archive, opened from outside."""
    opened = SqlArchive.open(archive_url(folder))
    yield opened
    opened.close()


def run(chat: ContextManager, number: int) -> None:
    """One run as most chats have it: what the user says, then what the agent answers."""
    chat.push({"role": "user", "content": question(number)})
    chat.push({"role": "assistant", "content": answer(number)})


def question(number: int) -> str:
    """What the user asks in a run."""
    return f"Question {number}: where is ship S{number * 71} with the crates of Anna?"


def answer(number: int) -> str:
    """What the agent answers."""
    return f"Ship S{number * 71} lies at pier {number * 3}; Anna pays {number * 13}.50 by noon."


def tool_run(chat: ContextManager, number: int) -> None:
    """A run in which the agent looks something up."""
    call = {"id": f"call-{number}", "type": "function"}
    call["function"] = {"name": "find_ship", "arguments": json.dumps({"ship": f"S{number * 71}"})}  # type: ignore[assignment]
    chat.push({"role": "user", "content": question(number)})
    chat.push({"role": "assistant", "content": None, "tool_calls": [call]})
    chat.push(
        {"role": "tool", "tool_call_id": f"call-{number}", "content": f"pier {number * 3}, loaded"}
    )
    chat.push({"role": "assistant", "content": answer(number)})


def view(chat: ContextManager) -> str:
    """What the managed system message says, or ``""`` when there is none."""
    found = [m["content"] for m in chat.messages() if str(m["content"]).startswith(MANAGED)]
    assert len(found) <= 1
    return found[0].removeprefix(MANAGED) if found else ""


def user_words(chat: ContextManager) -> list[str]:
    """The user's own messages that are in the context word for word."""
    return [
        m["content"]
        for m in chat.messages()
        if m["role"] == "user" and m["content"].startswith("Question")
    ]


def views(archive: SqlArchive, agents: ContextClient, session: str) -> list[Any]:
    """The session's managed views in the archive, once all of them are there."""
    ref = SessionRef(Namespace(agents.namespace), SessionId(session))
    wait_until(
        lambda: len(archive.views(ref)) == agents.info(session).version, what="views archived"
    )
    return archive.views(ref)


# One system message before the recent runs


def test_a_managed_context_is_one_system_message_before_the_recent_runs(
    agents: ContextClient,
) -> None:
    policy = Policy.managed(recent_runs=5, passthrough_runs=2)
    chat = agents.manager("ann", policy, "You are a harbour clerk.")
    for number in range(1, 7):
        run(chat, number)
    settle(chat)

    first, second, *recent = chat.messages()

    assert first == {"role": "system", "content": "You are a harbour clerk."}
    assert second["role"] == "system"
    assert second["content"].startswith(MANAGED)
    assert user_words(chat) == [question(4), question(5), question(6)]
    assert recent[-1] == {"role": "assistant", "content": answer(6)}


def test_the_manager_sees_the_recent_runs_and_the_latest_input_and_no_earlier_view(
    agents: ContextClient, archive: SqlArchive
) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=2, passthrough_runs=1))
    for number in range(1, 7):
        run(chat, number)
        settle(chat)

    newest = views(archive, agents, "ann")[-1].input

    assert question(6) in newest  # the latest input
    assert answer(5) in newest  # the recent runs
    assert answer(4) in newest
    assert answer(3) not in newest  # older than recent_runs, and no view handed down
    assert MANAGED not in newest


def test_a_managed_context_is_renewed_once_for_every_run(
    agents: ContextClient,
) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=3, passthrough_runs=1))
    made = []
    for number in range(1, 7):
        run(chat, number)
        settle(chat)
        made.append(chat.info().compactions)

    assert made == [0, 0, 1, 2, 3, 4]
    assert chat.read() == chat.read()  # nothing is made by reading


# recent_runs, passthrough_runs, token_threshold: blank and 0


@pytest.mark.parametrize("blank", [None, 0])
def test_without_recent_runs_the_manager_is_off_and_the_history_is_raw(
    agents: ContextClient, blank: int | None
) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=blank))
    for number in range(1, 10):
        run(chat, number)
    settle(chat)

    assert chat.info().compactions == 0
    assert user_words(chat) == [question(number) for number in range(1, 10)]
    assert not view(chat)


@pytest.mark.parametrize("blank", [None, 0])
def test_without_passthrough_runs_there_is_the_summary_and_the_latest_input_only(
    agents: ContextClient, blank: int | None
) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=4, passthrough_runs=blank))
    for number in range(1, 6):
        run(chat, number)
        settle(chat)
    chat.push({"role": "user", "content": question(6)})
    settle(chat)

    messages = chat.messages()

    assert [m["role"] for m in messages[:1]] == ["system"]
    assert messages[0]["content"].startswith(MANAGED)
    assert user_words(chat) == [question(6)]
    assert messages[-1] == {"role": "user", "content": question(6)}


@pytest.mark.parametrize("blank", [None, 0])
def test_without_a_token_threshold_every_turn_is_managed(
    agents: ContextClient, blank: int | None
) -> None:
    policy = Policy.managed(recent_runs=2, passthrough_runs=1, token_threshold=blank)
    chat = agents.manager("ann", policy)
    for number in range(1, 4):
        run(chat, number)
    settle(chat)

    assert view(chat)


def test_below_the_token_threshold_of_the_whole_history_nothing_is_managed(
    agents: ContextClient,
) -> None:
    policy = Policy.managed(recent_runs=2, passthrough_runs=1, token_threshold=400)
    chat = agents.manager("ann", policy)
    number = 0
    while chat.info().history_tokens < 400:
        assert not view(chat)
        assert user_words(chat) == [question(n) for n in range(1, number + 1)]
        number += 1
        run(chat, number)
        settle(chat)

    assert view(chat)
    run(chat, number + 1)
    settle(chat)
    # The context is small again; the history, compacted or not, is not.
    assert chat.info().usage.total < 400 < chat.info().history_tokens
    assert view(chat)
    assert user_words(chat) == [question(number), question(number + 1)]


# Fail open


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("{{recent_turns", id="broken"),
        pytest.param("```\nnever closed", id="fence"),
    ],
)
def test_when_management_fails_a_normal_run_proceeds(
    agents: ContextClient, folder: Path, text: str | None, namespace: str, worker: WorkerProcess
) -> None:
    name = f"bad-{namespace}"
    if text is not None:
        (folder / "templates" / f"{name}.md").write_text(text)
    chat = agents.manager("ann", Policy.managed(name, recent_runs=2, passthrough_runs=1))
    for number in range(1, 6):
        run(chat, number)
    settle(chat)

    assert user_words(chat) == [question(number) for number in range(1, 6)]
    assert not view(chat)
    # Whoever runs the workers can see that it failed.
    told = [line for line in worker.output().splitlines() if "rejected=['managed']" in line]
    assert any("no-plan" in line for line in told)


# Templates


def test_a_template_is_resolved_in_the_users_folder_first_then_built_in(
    agents: ContextClient, archive: SqlArchive, folder: Path
) -> None:
    own = folder / "templates" / "support.md"
    own.write_text("Our own support template. {{recent_turns}}")
    for session, name in (("own", "support"), ("theirs", "research")):
        chat = agents.manager(session, Policy.managed(name, recent_runs=2, passthrough_runs=1))
        for number in range(1, 4):
            run(chat, number)
        settle(chat)

    [mine] = views(archive, agents, "own")[-1:]
    [built_in] = views(archive, agents, "theirs")[-1:]

    assert (mine.template, mine.source) == ("support", str(own))
    assert mine.sha256 == hashlib.sha256(own.read_bytes()).hexdigest()
    assert (built_in.template, built_in.source) == ("research", "built-in")
    assert len(built_in.sha256) == 64
    own.unlink()


def test_placeholders_are_filled_and_a_missing_one_renders_empty(
    agents: ContextClient, archive: SqlArchive
) -> None:
    policy = Policy.managed("harbour", recent_runs=2, passthrough_runs=1)
    chat = agents.manager("ann", policy, "You are a harbour clerk.")
    for number in range(1, 4):
        run(chat, number)
    settle(chat)

    told = views(archive, agents, "ann")[-1].input

    assert "Session ann, told: You are a harbour clerk." in told
    assert "<previous_summary></previous_summary>" in told
    assert f"#1 user: {question(1)}" in told
    assert f"Asked now: {question(3)}" in told
    assert "Not known here: []" in told
    assert "{{" not in told


# Tool calls


def test_tool_calls_that_leave_are_told_to_the_manager_in_words(
    agents: ContextClient, archive: SqlArchive
) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=3, passthrough_runs=1))
    for number in range(1, 4):
        tool_run(chat, number)
    settle(chat)

    told = views(archive, agents, "ann")[-1].input

    assert 'calls find_ship({"ship": "S71"})' in told
    assert "tool: pier 3, loaded" in told


# What is recorded


def test_every_managed_view_is_recorded_with_all_that_made_it(
    agents: ContextClient, archive: SqlArchive, folder: Path
) -> None:
    chat = agents.manager("ann", Policy.managed("harbour", recent_runs=2, passthrough_runs=1))
    for number in range(1, 6):
        run(chat, number)
        settle(chat)

    recorded = views(archive, agents, "ann")

    assert [each.version for each in recorded] == [1, 2, 3]
    newest = recorded[-1]
    assert newest.template == "harbour"
    assert newest.source == str(folder / "templates" / "harbour.md")
    assert newest.sha256 == hashlib.sha256(HARBOUR.encode()).hexdigest()
    assert newest.model == agents.info("ann").policy.summarizer
    assert newest.raw_output == view(chat)
    assert json.loads(newest.parsed_output) is None  # no model, so no JSON in the answer
    assert newest.sections == ()
    assert question(5) in newest.input
    budget = json.loads(newest.budget)
    assert budget["recent_turns"] == 4
    assert 0 < budget["summary_tokens"] <= budget["goal_tokens"]
    assert budget["history_tokens"] == chat.info().history_tokens
    assert newest.at_ms > 0


# Naming a template for once


def test_a_summary_can_be_asked_for_by_the_name_of_a_template(
    agents: ContextClient, archive: SqlArchive
) -> None:
    chat = agents.manager("ann", Policy(max_tokens=100_000))
    for number in range(1, 25):
        run(chat, number)

    done = chat.summarize(template="harbour")

    assert done is not None
    assert done.turns_summarized == 45
    assert done.summary == view(chat)
    assert done.tokens_after < done.tokens_before
    [made] = views(archive, agents, "ann")
    assert made.template == "harbour"
    assert f"Asked now: {question(24)}" in made.input


def test_an_unknown_template_asked_for_is_a_clear_error_and_changes_nothing(
    agents: ContextClient, folder: Path
) -> None:
    (folder / "templates" / "broken.md").write_text("{{recent_turns")
    chat = agents.manager("ann", Policy(max_tokens=100_000))
    for number in range(1, 25):
        run(chat, number)

    with pytest.raises(UnknownTemplate, match=r"'nowhere'; there are .*default.*harbour"):
        chat.summarize(template="nowhere")
    with pytest.raises(InvalidTemplate, match=r"broken\.md"):
        chat.summarize(template="broken")
    with pytest.raises(InvalidName, match="template name"):
        chat.summarize(template="../broken")
    assert chat.info().version == 0
    # A mistake does not keep the session busy: the right name works at once.
    done = chat.summarize(template="harbour")

    assert done is not None
    assert done.turns_summarized == 45


# The transcript


def test_the_full_transcript_is_preserved_in_markdown(agents: ContextClient) -> None:
    chat = agents.manager("ann", Policy.managed(recent_runs=2, passthrough_runs=1))
    for number in range(1, 12):
        tool_run(chat, number)
    settle(chat)
    assert chat.info().turns_in_log < 44

    written = chat.transcript()

    places = [written.index(question(number)) for number in range(1, 12)]
    assert places == sorted(places)
    assert all(f"> {answer(number)}" in written for number in range(1, 12))
    assert written.count("calls `find_ship`") == 11
    assert written.count("\n## Turn ") == 44
    assert MANAGED not in written  # what was said, not what was made of it


# Real conversations


@requires_data
@pytest.mark.parametrize("name", ["tau", "coding", "locomo"])
def test_real_conversations_are_managed_complete_and_valid(
    agents: ContextClient, archive: SqlArchive, name: str
) -> None:
    [found] = sessions(name, 1)
    system, *rest = found["messages"]
    said = rest[:200]
    prompt = system["content"] if name != "locomo" else "You are a friend."
    chat = agents.manager(name, Policy.managed(recent_runs=5, passthrough_runs=2), prompt)
    for at, message in enumerate(said):
        chat.push(message)
        if at % 20 == 0:
            assert violations(chat.messages()) == []
    settle(chat)

    messages = chat.messages()
    assert violations(messages) == []
    assert messages[1]["content"].startswith(MANAGED)
    assert messages[-1]["content"] == said[-1]["content"]
    assert chat.info().usage.total <= chat.info().limits.soft
    assert [turn.messages[0]["content"] for turn in chat.trajectory().turns] == [
        message.get("content") for message in said
    ]
    assert views(archive, agents, name)
