"""What stands in a context whatever its summary says is no merit of the summary."""

from __future__ import annotations

from turnmill.contract.context import EMPTY, JsonMessage
from turnmill.contract.names import Seq
from turnmill.contract.open_requests import OpenRequest
from turnmill.contract.quality_weights import QualityWeights
from turnmill.contract.render import render_head
from turnmill_worker.compaction.plan import Records
from turnmill_worker.compaction.quality.score import Scorer

ASKED = (
    "Add the flag --since to export.py: it takes a date such as 2024-03-01, and rows of the "
    "table billing.invoices that are older are left out. Keep the column order of schema.sql, "
    "write UTF-8 and the separator ';', and name the file invoices-2024-03.csv."
)
DONE = (
    "export.py reads rows in chunks of 500 in load_rows(), and never looks at a date.",
    "The rows have created_at in local time and due_at in UTC; the report uses due_at.",
    "I changed load_rows() to take a limit, and test_export.py::test_empty fails now.",
    "The failure comes from parse_since(), which returns None for an empty table.",
    "With a default of 1970-01-01 there, all 14 tests pass; the linter wants a docstring.",
    "What is left is the README, and the schedule of the nightly job in crontab.txt.",
)


def score(text: str) -> float:
    """Of a context with this summary of the work beside the request, word for word."""
    said: list[JsonMessage] = [{"role": "user", "content": ASKED}]
    said += [{"role": "assistant", "content": text} for text in DONE]
    request = OpenRequest(seq=Seq(1), text=ASKED, first=True)
    shown = {"summary": text, "watermark": Seq(7), "requests": (request,)}
    return (
        Scorer(
            covered=Records((Seq(seq), message) for seq, message in enumerate(said, 1)),
            previous=[],
            tail=[],
            kept_turns=3,
            wanted_turns=3,
            turns=10,
            compactions=0,
            weights=QualityWeights(),
        )
        .score(render_head(EMPTY.model_copy(update=shown)))
        .score
    )


def test_a_request_that_stands_beside_it_does_not_make_an_empty_summary_pass() -> None:
    faithful = "\n".join(f"{seq} assistant: {text}" for seq, text in enumerate(DONE, 2))

    assert score(faithful) >= 0.6
    assert score("") < 0.6
    assert score("2 assistant: The work went on.") < 0.6
