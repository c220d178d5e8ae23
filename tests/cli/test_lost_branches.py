"""What Redis lost when it returned to an earlier state: noticed, said and printed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import redis

from tests.archive.records import turn
from tests.cli.commands import Ran
from tests.cli.conversation import settled, talk
from turnmill import ContextClient
from turnmill.contract.keys import session_keys
from turnmill.contract.names import Namespace, SessionId
from turnmill_worker.archive import SqlArchive
from turnmill_worker.ports.values import Batch, SessionRef

pytestmark = pytest.mark.worker


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
