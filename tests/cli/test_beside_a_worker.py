"""Commands that a worker answers, beside one worker for all of them."""

from __future__ import annotations

import getpass
import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis
from celery.utils.nodenames import default_nodename

from tests.archive.records import turn
from tests.cli.commands import Ran
from tests.cli.conversation import settled, talk
from tests.image_parts import data_url, png, showing
from tests.processes import WorkerProcess, wait_until
from turnmill import ContextClient, Policy, Trajectory
from turnmill.connection.embedded import EmbeddedRedis
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker import app as worker_app
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, SessionRef

pytestmark = pytest.mark.worker

# --- who works ------------------------------------------------------------------------------------


def test_the_doctor_says_when_two_workers_share_a_name(
    served: Callable[..., Ran], redis_server: EmbeddedRedis, tmp_path: Path
) -> None:
    with WorkerProcess(redis_server.url, tmp_path):
        ran = served("doctor", "--json")

    workers = next(check for check in ran.json["checks"] if check["name"] == "workers")
    assert workers["status"] == "warning"
    assert workers["found"].startswith("share a name: test@")
    assert workers["found"].endswith(" (2 workers)")


def test_workers_that_are_given_no_name_have_one_each() -> None:
    usual, given = (SimpleNamespace(hostname=name) for name in (default_nodename(""), "mine@h"))

    for worker in (usual, given):
        worker_app._name_apart(worker.hostname, worker)

    assert usual.hostname == f"worker-{os.getpid()}@{socket.gethostname()}"
    assert given.hostname == "mine@h"


# --- checkpoints and compact ----------------------------------------------------------------------


def test_a_fork_and_a_rewind_from_the_command_line(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 4)

    forked = served("fork", "s", "other", "--at", "2", "--json")
    again = served("fork", "s", "other")
    rewound = served("rewind", "s", "--at", "4", stdin="y\n")

    assert (forked.json["session"], forked.json["seq"]) == ("other", 2)
    assert "there is a session 'other'" in again.stderr
    assert "back at turn 3: 1 turn set aside" in rewound.stdout
    assert [client.info(each).turns_in_log for each in ("s", "other")] == [3, 2]
    assert "begun as another session was after turn 2" in served("history", "other").stdout


def test_a_checkpoint_is_named_listed_and_gone_back_to(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    made = served("checkpoint", "s", "before the refund", "--name", "refund")
    talk(client, "s", 2, first=4)
    listed = served("checkpoints", "s", "--json").json
    table = served("checkpoints", "s")

    ran = served("rollback", "s", "--to", "refund", "--yes", "--json")

    assert made.stdout == "refund\n"
    assert [(each["id"], each["seq"]) for each in listed] == [("refund", 3)]
    assert "before the refund" in table.stdout
    assert ran.json["turns_lost"] == 2
    assert client.info("s").turns_in_log == 3


def test_a_rollback_says_what_will_leave_and_asks(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    served("checkpoint", "s")
    talk(client, "s", 2, first=4)

    refused = served("rollback", "s", stdin="n\n")
    agreed = served("rollback", "s", stdin="y\n")

    assert refused.exit_code == 1
    assert "2 turns will leave the session" in refused.stderr
    assert agreed.exit_code == 0
    assert "2 turns set aside" in agreed.stdout
    assert client.info("s").turns_in_log == 3


def test_a_rollback_to_a_version_knows_how_many_turns_leave(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 30)
    settled(client, "s")
    version = client.info("s").version
    talk(client, "s", 2, first=31)
    client.open("s", Policy(max_tokens=8000))  # no further compaction

    asked = served("rollback", "s", "--to", str(version), stdin="n\n")
    ran = served("rollback", "s", "--to", str(version), "--yes", "--json")

    lost = ran.json["turns_lost"]
    assert f" {lost} turns will leave the session" in asked.stderr
    assert ran.json["restored"] == f"version {version}"


def test_what_cannot_be_gone_back_to_says_what_can(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 3)
    none = served("rollback", "s", "--yes")
    served("checkpoint", "s", "--name", "here")
    other = served("rollback", "s", "--to", "there", "--yes")
    version = served("rollback", "s", "--to", "77", "--yes")

    assert none.stderr.startswith("NoCheckpoint: 's' has no checkpoint")
    assert other.stderr.startswith("NoCheckpoint: no checkpoint 'there' of 's'")
    assert "checkpoints are: here" in other.stderr
    assert version.stderr.startswith("NoCheckpoint: ")
    assert {ran.exit_code for ran in (none, other, version)} == {1}


def test_compact_waits_and_says_what_it_did(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 12)

    ran = served("compact", "s", "--json")
    again = served("compact", "s")

    done = ran.json
    assert done["turns_summarized"] > 0
    assert done["tokens_after"] < done["tokens_before"]
    assert "s stays as it is: " in again.stdout


def test_compact_writes_to_a_template_and_refuses_one_that_is_none(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 12)

    refused = served("compact", "s", "--template", "nope")
    ran = served("compact", "s", "--template", "support")

    assert refused.exit_code == 1
    assert refused.stderr.startswith("UnknownTemplate: ")
    assert ran.exit_code == 0
    assert "turns summarized" in ran.stdout


def test_clear_leaves_the_system_prompt(served: Callable[..., Ran], client: ContextClient) -> None:
    talk(client, "s", 4)

    ran = served("clear", "s", "--yes")

    assert "4 turns set aside" in ran.stdout
    assert client.read("s").messages == [{"role": "system", "content": "Be brief."}]


# --- archive --------------------------------------------------------------------------------------


@pytest.fixture
def archived(client: ContextClient, served: Callable[..., Ran]) -> Callable[..., Ran]:
    """Commands, and a session ``s`` with turns in the archive."""
    talk(client, "s", 30)
    settled(client, "s")
    return served


def rows(data_dir: Path, namespace: str) -> int:
    """Of the namespace's turns in the archive."""
    with sqlite3.connect(data_dir / "archive.db") as archive:
        query = "SELECT count(*) FROM turns WHERE namespace = ?"
        return int(archive.execute(query, (namespace,)).fetchone()[0])


def expire(client: redis.Redis, namespace: str, session: str) -> None:
    """Have Redis lose a session, as at the end of its time."""
    client.delete(*session_keys(Namespace(namespace), SessionId(session)).owned)


def age(data_dir: Path, namespace: str, session: str) -> None:
    """Have the archive believe that nothing was added to the session since 1970."""
    with sqlite3.connect(data_dir / "archive.db") as archive:
        archive.execute(
            "UPDATE sessions SET last_at_ms = 1 WHERE namespace = ? AND session = ?",
            (namespace, session),
        )


def test_the_archives_sessions_are_listed_those_gone_from_redis_too(
    archived: Callable[..., Ran], redis_client: redis.Redis, namespace: str, data_dir: Path
) -> None:
    expire(redis_client, namespace, "s")

    listed = archived("archive", "sessions", "--json").json
    table = archived("archive", "sessions")
    info = archived("archive", "info", "--json").json

    assert [each["session"] for each in listed] == ["s"]
    assert listed[0]["turns"] == rows(data_dir, namespace) > 0
    assert table.stdout.splitlines()[1].startswith("s ")
    assert info["archive"] == str(data_dir / "archive.db")
    assert (info["sessions"], info["turns"]) == (1, listed[0]["turns"])
    assert info["schema"].startswith("v")
    assert "1 session of" in archived("archive", "info").stdout


def test_prune_removes_what_is_old_and_says_what_went(
    archived: Callable[..., Ran], client: ContextClient, namespace: str, data_dir: Path
) -> None:
    talk(client, "young", 30)
    settled(client, "young")
    before = rows(data_dir, namespace)
    age(data_dir, namespace, "s")

    tried = archived("archive", "prune", "--older-than", "30d", "--dry-run", "--json").json
    unchanged = rows(data_dir, namespace)
    ran = archived("archive", "prune", "--older-than", "30d", "--yes")

    assert (tried["sessions"], unchanged) == (1, before)
    assert rows(data_dir, namespace) == before - tried["turns"]
    assert f"removed 1 session of {namespace}: {tried['turns']} turns, " in ran.stdout
    assert [each["session"] for each in listed(archived)] == ["young"]


def listed(turnmill: Callable[..., Ran]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = turnmill("archive", "sessions", "--json").json
    return found


def test_prune_asks_first_and_needs_an_age(
    archived: Callable[..., Ran], namespace: str, data_dir: Path
) -> None:
    age(data_dir, namespace, "s")

    refused = archived("archive", "prune", "--older-than", "1d", stdin="n\n")
    wrong = archived("archive", "prune", "--older-than", "30")

    assert refused.exit_code == 1
    assert "Remove 1 session of" in refused.stderr
    assert wrong.exit_code == 2
    assert "30d" in wrong.stderr
    assert len(listed(archived)) == 1


def test_forgetting_proves_that_neither_redis_nor_the_archive_has_anything(
    archived: Callable[..., Ran], namespace: str, data_dir: Path
) -> None:
    ran = archived("forget", "s", "--yes", "--json")

    done = ran.json
    assert ran.exit_code == 0
    assert done["keys_left"] == 0
    assert done["archive"]["gone"]
    assert done["archive"]["left"]["turns"] == 0
    assert rows(data_dir, namespace) == 0
    assert listed(archived) == []


def test_where_the_archive_is_not_at_hand_a_worker_is_asked(
    archived: Callable[..., Ran],
    monkeypatch: pytest.MonkeyPatch,
    namespace: str,
    data_dir: Path,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TURNMILL_DATA_DIR", str(tmp_path))

    ran = archived("forget", "s", "--yes")

    assert ran.exit_code == 0
    assert "Redis    0 keys left" in ran.stdout
    assert "a worker looked and found nothing of it" in ran.stdout
    assert rows(data_dir, namespace) == 0


def test_a_session_that_expired_is_forgotten_in_the_archive(
    archived: Callable[..., Ran], redis_client: redis.Redis, namespace: str, data_dir: Path
) -> None:
    expire(redis_client, namespace, "s")

    asked = archived("forget", "s", stdin="n\n")
    ran = archived("forget", "s", "--yes")

    assert "turns in the archive" in asked.stderr
    assert ran.exit_code == 0
    assert rows(data_dir, namespace) == 0
    unknown = archived("forget", "s", "--yes")
    assert unknown.stderr.startswith("UnknownSession: ")


def test_a_memory_is_found_again_in_the_whole_namespace(archived: Callable[..., Ran]) -> None:
    made = archived("remember", "Anna likes green tea")

    found = archived("ground", "who likes green tea?", "-k", "2", "--json").json
    shown = archived("ground", "who likes green tea?", "-k", "1")

    assert made.stdout.startswith("pushed:")
    assert found["memories"][0]["id"] == made.stdout.strip()
    assert "Anna likes green tea" in shown.stdout
    order = archived("ground", "order #W7919", "--json").json["memories"]
    assert "#W7919" in order[0]["text"]
    in_session = archived("ground", "green tea order", "--session", "s", "--json").json["memories"]
    assert {memory["session"] for memory in in_session} == {"s"}


def test_what_nobody_knows_is_said(served: Callable[..., Ran]) -> None:
    assert "nothing is remembered" in served("ground", "anything").stdout
    assert served("remember", " ").stderr.startswith("InvalidInput: ")


# --- history and transcript -----------------------------------------------------------------------


@pytest.fixture
def talked(client: ContextClient, served: Callable[..., Ran]) -> Callable[..., Ran]:
    """Commands, and a session ``s`` that was compacted twice or more."""
    talk(client, "s", 20)
    settled(client, "s")
    talk(client, "s", 20, first=21)
    settled(client, "s", versions=2)
    return served


def test_a_transcript_has_every_turn_whatever_was_compacted(talked: Callable[..., Ran]) -> None:
    ran = talked("transcript", "s")

    assert ran.exit_code == 0
    assert ran.stdout.startswith("# Session s\n")
    assert [f"\n## Turn {seq} " in ran.stdout for seq in range(1, 41)] == [True] * 40
    assert "## Compactions" in ran.stdout


def test_an_export_loads_back_with_the_context_of_now(
    talked: Callable[..., Ran], client: ContextClient, tmp_path: Path
) -> None:
    file = tmp_path / "s.json"

    ran = talked("export", "s", "--output", str(file))

    assert ran.exit_code == 0
    assert f"wrote 40 turns to {file}" in ran.stderr.replace("\n", "")
    found = Trajectory.model_validate_json(file.read_bytes())
    assert [turn.seq for turn in found.turns] == list(range(1, 41))
    assert list(found.context) == client.read("s").messages
    assert Trajectory.model_validate_json(talked("export", "s").stdout) == found


def test_history_tells_when_what_and_how_well(talked: Callable[..., Ran]) -> None:
    table = talked("history", "s")
    rows = talked("history", "s", "--json").json

    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["tokens_after"] < row["tokens_before"] for row in rows)
    assert all(row["at_ms"] and "receipts" in row for row in rows)
    for row in rows:
        assert f"{row['tokens_before']:,} → {row['tokens_after']:,}" in table.stdout
    assert "by extractive" in table.stdout
    assert "tokens freed" in table.stdout


def test_history_tells_why_a_model_did_not_write(
    served: Callable[..., Ran], client: ContextClient
) -> None:
    talk(client, "s", 20, summarizer="openai")
    settled(client, "s")

    [row, *_] = served("history", "s", "--json").json

    assert (row["model"], row["failed"]) == ("extractive", ["SummarizerMisconfigured"])
    assert "failed before: SummarizerMisconfigured\n" in served("history", "s").stdout


def test_diff_shows_the_summaries_lines_that_came_and_went(talked: Callable[..., Ran]) -> None:
    ran = talked("diff", "s", "1", "2")
    found = talked("diff", "s", "0", "1", "--json").json

    assert ran.exit_code == 0
    assert "--- version 1" in ran.stdout
    assert "+++ version 2" in ran.stdout
    assert [each["version"] for each in found["versions"]] == [0, 1]
    assert found["versions"][0]["tokens"] is None
    assert [line for line in found["summary"] if line.startswith("+")]
    assert not any(line.startswith("-") for line in found["summary"][2:])


def test_an_unknown_version_says_which_there_are(talked: Callable[..., Ran]) -> None:
    last = len(talked("history", "s", "--json").json)

    ran = talked("diff", "s", "1", "99")

    assert ran.exit_code == 1
    assert ran.stderr.strip() == f"no version 99 of 's'; there are 0-{last}"


def test_rolled_back_turns_are_marked_in_the_transcript_and_listed_in_the_history(
    talked: Callable[..., Ran], client: ContextClient
) -> None:
    client.checkpoint("s", name="here")
    talk(client, "s", 1, first=41)

    assert talked("rollback", "s", "--to", "here", "--yes").exit_code == 0

    wait_until(lambda: "rolled back" in talked("transcript", "s").stdout, what="the mark")
    assert "1 rollback" in talked("history", "s").stdout


# --- erasing --------------------------------------------------------------------------------------

WORDS = "ember falcon seven nine behind the brewery"


@pytest.fixture
def told(served: Callable[..., Ran], client: ContextClient) -> Callable[..., Ran]:
    """Runs commands beside a worker; turns 4 and 5 of session ``s`` have the secret."""
    talk(client, "s", 3)
    client.push("s", {"role": "user", "content": f"I say {WORDS}."})
    client.push("s", {"role": "assistant", "content": f"You say {WORDS}."})
    return served


def test_a_turn_is_erased_and_the_record_says_so_without_its_words(
    told: Callable[..., Ran], client: ContextClient
) -> None:
    ran = told("erase", "s", "--turn", "4", "--turn", "5", "--yes", "--by", "Kim")
    listed = told("archive", "erasures", "s")
    as_json = told("archive", "erasures", "--json").json

    assert ran.exit_code == 0
    assert "erased 2 turns (4-5)" in ran.stdout
    assert "Kim" in listed.stdout
    assert [(each["session"], each["turns"], each["by"], each["how"]) for each in as_json] == [
        ("s", [4, 5], "Kim", "turn")
    ]
    assert WORDS not in listed.stdout + str(as_json) + ran.stdout
    assert WORDS not in str(client.read("s").messages)
    assert "erase" in told("history", "s").stdout


def test_it_says_what_would_go_and_asks(told: Callable[..., Ran], client: ContextClient) -> None:
    words = ("erase", "s", "--matching", "i say EMBER")
    looked = told(*words, "--dry-run")
    refused = told(*words, stdin="n\n")
    nobody = told(*words, stdin="")
    before = str(client.read("s").messages)
    agreed = told(*words, "--json", "--yes")

    assert looked.exit_code == 0
    assert "would erase 1 turn (4)" in looked.stdout
    assert "turn 5 repeat" in looked.stdout
    assert refused.exit_code == nobody.exit_code == 1
    assert "Erase 1 turn (4)" in refused.stderr
    assert "nothing was done: add --yes" in nobody.stderr
    assert f"I say {WORDS}" in before
    assert (agreed.exit_code, agreed.json["turns"], agreed.json["repeated_in"]) == (0, [4], [5])
    assert (agreed.json["by"], agreed.json["rewritten"]) == (getpass.getuser(), True)


def test_a_person_is_erased_with_what_repeats_them(told: Callable[..., Ran]) -> None:
    ran = told("erase", "s", "--subject", "I", "--repeats", "--yes", "--json")

    assert ran.json["turns"][-2:] == [4, 5]
    assert ran.json["repeated_in"] == []


def test_what_is_not_there_or_not_said_how_is_refused(told: Callable[..., Ran]) -> None:
    nothing = told("erase", "s", "--matching", "never said by anybody", "--yes")
    unknown = told("erase", "s", "--turn", "99", "--yes")
    both = told("erase", "s", "--turn", "1", "--subject", "Anna", "--yes")
    none = told("erase", "s", "--yes")
    nobody = told("erase", "nobody", "--turn", "1", "--yes")

    assert "nothing of that is in s" in nothing.stdout
    assert "no turn 99" in unknown.stderr
    assert "exactly one" in both.stderr
    assert "exactly one" in none.stderr
    assert "nobody" in nobody.stderr
    ran = (nothing, unknown, nobody, both, none)
    assert [each.exit_code for each in ran] == [1, 2, 1, 2, 2]
    assert "nothing was erased" in told("archive", "erasures").stdout


# --- lost branches --------------------------------------------------------------------------------


@pytest.fixture
def behind(
    client: ContextClient,
    redis_client: redis.Redis,
    served: Callable[..., Ran],
    data_dir: Path,
    namespace: str,
) -> Callable[..., Ran]:
    """Commands; of a session ``s`` the archive has two turns that Redis has not, 31 and 32."""
    talk(client, "s", 30)
    settled(client, "s")
    ref = SessionRef(Namespace(namespace), SessionId("s"))
    epoch = redis_client.hget(session_keys(ref.namespace, ref.session).meta, "epoch")
    assert isinstance(epoch, bytes)
    with closing(SqlArchive.open(f"sqlite:///{data_dir / 'archive.db'}")) as archive:
        archive.store(ref, epoch.decode(), Batch(turns=(turn(31), turn(32))))
    return served


def positions(ran: Ran) -> dict[str, str]:
    return next(check for check in ran.json["checks"] if check["name"] == "positions")


def test_the_doctor_notices_at_once_that_redis_is_behind_the_archive(
    behind: Callable[..., Ran],
) -> None:
    found = positions(behind("doctor", "--json"))

    assert found["status"] == "warning"
    assert "1 session behind the archive: s (turn 30 of 32" in found["found"]
    assert "turnmill history" in found["advice"]


def test_history_and_transcript_say_what_is_kept_and_archive_lost_prints_it(
    behind: Callable[..., Ran],
) -> None:
    sentence = "2 turns (seq 31 to 32) of a state that Redis lost are kept as branch 1"

    history = behind("history", "s").stdout
    assert f"{sentence}: `turnmill archive lost s --branch 1` prints them" in history
    transcript = behind("transcript", "s").stdout
    assert f"{sentence}." in transcript
    assert "turn 31" not in transcript
    listed = behind("archive", "lost", "s")
    assert listed.stdout.strip() == sentence, listed.stderr
    printed = behind("archive", "lost", "s", "--branch", "1").stdout
    assert "## Turn 31" in printed
    assert "> turn 32" in printed
    assert positions(behind("doctor", "--json"))["status"] == "ok"
    checks = {check["name"]: check for check in behind("doctor", "--json").json["checks"]}
    assert "what Redis once lost of 1 session (s)" in checks["lost"]["found"]
    assert sentence in " ".join(behind("info", "s").stdout.split())
    assert behind("info", "s", "--json").json["lost"][0]["turns"] == 2


def test_a_branch_that_is_not_there_is_said(behind: Callable[..., Ran]) -> None:
    ran = behind("archive", "lost", "s", "--branch", "7")

    assert ran.exit_code == 1
    assert "no branch 7" in ran.stderr


def test_a_session_is_drawn_whole_and_from_the_archive_when_redis_has_lost_it(
    talked: Callable[..., Ran],
    client: ContextClient,
    redis_client: redis.Redis,
    namespace: str,
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.html"

    def drawn() -> str:
        ran = talked("visualize", "s", "--output", str(page))
        assert ran.exit_code == 0, ran.stderr
        return page.read_text(encoding="utf-8")

    client.push("s", showing(png(1)))
    whole = drawn()
    expire(redis_client, namespace, "s")
    archived = drawn()

    assert whole.count("<article") == 41
    assert "Exactly these messages go to the model" in whole
    assert data_url(png(1)) in whole
    assert 'id="version-1"' in whole
    assert "has expired or could not be read" in archived
    assert "order #W7919 of Anna" in archived


def assert_unknown(ran: Ran) -> None:
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("UnknownSession: ")
    assert ran.stderr.count("\n") == 2  # what is wrong, and what to do


@pytest.mark.parametrize("command", ["compact", "transcript", "export", "history"])
def test_a_session_that_workers_do_not_know_is_two_lines(
    served: Callable[..., Ran], command: str
) -> None:
    assert_unknown(served(command, "nobody"))
