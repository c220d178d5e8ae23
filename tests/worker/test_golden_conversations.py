"""One conversation as each provider has it, and the contexts that real workers make of it.

A change of what contexts say changes these files, and reviewers read what it did to them:
``TURNMILL_WRITE_GOLDEN=1 python -m pytest tests/worker/test_golden_conversations.py`` writes them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.worker.harness import until_settled, user
from turnmill import ContextClient, Policy
from turnmill.dialects.convert import DIALECTS
from turnmill.dialects.legality import violations

pytestmark = [pytest.mark.worker, pytest.mark.usefixtures("worker")]

FOLDER = Path(__file__).with_name("golden_conversations")
ROOMY = Policy(max_tokens=100_000)
TIGHT = Policy(max_tokens=1_000, strategies=("rolling", "window"), quality_threshold=0.0)
HOW = "if the change is meant: TURNMILL_WRITE_GOLDEN=1, then read what it did to the file"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_becomes_the_context_it_became_before(
    client: ContextClient, dialect: str
) -> None:
    path = FOLDER / f"{dialect}.json"
    golden: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    turns = golden["turns"]
    client.open(dialect, ROOMY, system_prompt="You mend programs.")
    for turn in turns:
        client.push(dialect, turn)
    until_settled(client, dialect, turns=len(turns))

    client.open(dialect, TIGHT)  # all turns are there and counted, so there is one compaction
    client.read(dialect)  # is projected, and asks for it
    until_settled(client, dialect, turns=len(turns))
    found = client.read(dialect)

    contexts = {each: found.request_for(each) for each in DIALECTS}
    if os.environ.get("TURNMILL_WRITE_GOLDEN"):
        golden["contexts"] = contexts
        written = json.dumps(golden, indent=1, ensure_ascii=False)
        path.write_text(written + "\n", encoding="utf-8")
    assert found.dialect == dialect
    assert found.version > 0
    for each in DIALECTS:
        assert violations(found.messages_for(each), each) == []
    assert contexts == golden["contexts"], HOW


def test_the_policy_chooses_the_dialect_where_nothing_tells(client: ContextClient) -> None:
    client.open("chosen", Policy(dialect="anthropic"), system_prompt="Be brief.")
    client.push("chosen", user("Hi"))

    found = client.read("chosen")

    assert found.request_for() == {
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert found.request_for("chat")["messages"][0] == {"role": "system", "content": "Be brief."}
