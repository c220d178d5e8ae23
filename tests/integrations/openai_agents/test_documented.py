"""The example and the page's program run as they are written."""

from __future__ import annotations

from tests.integrations.openai_agents.scripted import ScriptedResponses, call, message
from tests.integrations.running import EXAMPLES, block, run
from turnmill.connection.embedded import EmbeddedRedis

QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}


def test_the_example_asks_before_money_goes_and_remembers(
    endpoint: ScriptedResponses, store: EmbeddedRedis
) -> None:
    program = str(EXAMPLES / "openai_agents_agent.py")
    endpoint.outputs += [
        [call("find_order", 1, number="W7")],
        [message("It is due on Thursday.")],
        [call("refund", 2, number="W7")],
        [message("You get your money back.", 2)],
        [message("It was W7.", 3)],
    ]

    first, second = (
        run(program, said=said, model=endpoint.base_url, redis=store.url, **QUIET)
        for said in ("Where is W7?\nI want a refund.\ny\n\n", "Which order was it?\n\n")
    )

    assert "It is due on Thursday." in first
    assert 'refund {"number": "W7"}?' in first
    assert "You get your money back." in first
    assert "It was W7." in second
    assert endpoint.inputs[-1][0]["content"] == "Where is W7?"
    assert any(item.get("output") == "Order W7 is refunded." for item in endpoint.inputs[-1])


def test_the_pages_program_runs(endpoint: ScriptedResponses, store: EmbeddedRedis) -> None:
    code = block("openai-agents", store.url)
    assert store.url in code
    endpoint.outputs += [[message("Hello.")], [message("Hello again.", 2)]]

    said = run("-c", code, said="Hi\nHi\n\n", model=endpoint.base_url, redis=store.url, **QUIET)

    assert "Hello again." in said
    assert [len(items) for items in endpoint.inputs] == [1, 3]
