"""What a newcomer runs of Strands: the example, and the code of the page."""

from __future__ import annotations

import pytest

pytest.importorskip("strands")

from tests.integrations.running import EXAMPLES, block, run
from tests.integrations.scripted import serving
from tests.integrations.strands_agents import clerk
from turnmill.embedded_redis import EmbeddedRedis

SAID = "Where is S71?\nWhere is S142?\n\n"


def test_the_example_answers_and_its_session_has_all_turns(store: EmbeddedRedis) -> None:
    example = str(EXAMPLES / "strands_agent.py")
    with serving(clerk) as model:
        said = run(example, said=SAID, redis=store.url, model=model.base_url)

    assert said.count("It lies at") == 2
    assert "8 turns in the session" in said


def test_the_example_of_the_page_works_as_printed(store: EmbeddedRedis) -> None:
    code = block("Strands", store.url)
    with serving(clerk) as model:
        said = run("-c", code, said=SAID, redis="", model=model.base_url)

    assert said.count("It lies at") == 2
