"""What is stored and sent is byte for byte what it was: other versions read it."""

from __future__ import annotations

import json

import pytest

from tests.unit.contract.golden import FOLDER, OLDER, golden
from turnmill import StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.policy import policy_body, stored_policy
from turnmill_worker.reading.digest import Digest
from turnmill_worker.reading.known import Known
from turnmill_worker.store.sessions import decoded_known, encoded_known

HOW = "python -m tests.unit.contract.golden writes them anew: raise the format, tell CHANGELOG.md"


@pytest.mark.parametrize("name", golden())
def test_what_is_written_is_as_it_was(name: str) -> None:
    assert golden()[name] == (FOLDER / name).read_bytes(), HOW


def test_no_golden_file_is_left_over() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(golden()), HOW


def test_what_was_written_is_read_whole() -> None:
    stored = {path.name: path.read_bytes() for path in FOLDER.iterdir()}

    assert StoredContext.parse(stored["context.json"]).encode() == stored["context.json"]
    assert Compaction.parse(stored["record.json"]).encode() == stored["record.json"]
    assert policy_body(stored_policy(stored["policy.json"])) == stored["policy.json"]
    assert encoded_known(decoded_known(stored["facts.json"], 2)) == stored["facts.json"]


def test_what_was_kept_before_there_were_readings_is_chosen_from() -> None:
    """A worker of before November 2026 wrote it: a list of facts, and a pool."""
    written = (OLDER / "facts.json").read_bytes()

    known = decoded_known(written, watermark=1)

    assert Digest(known, (), len, through=1).text(200) == "1 anna: box a=1 b=2"
    assert decoded_known(written, watermark=0).older == ()
    assert decoded_known(b'[{"kind": "id", "text": "4711"}]', watermark=1) == Known()


def test_what_was_kept_with_its_numbers_in_digits_is_read_whole() -> None:
    written = (OLDER / "facts-1.0.json").read_bytes()

    again = json.loads(encoded_known(decoded_known(written, watermark=2)))

    assert again == json.loads((FOLDER / "facts.json").read_bytes())
