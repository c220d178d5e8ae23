"""What `turnmill history` says of a model's price."""

from __future__ import annotations

import pytest

from turnmill.contract.context import StoredContext
from turnmill.contract.job_outcomes import Compaction
from turnmill.contract.trajectory import CommittedContext
from turnmill_cli.commands.history import _print_steps


def _step(strategy: str = "rolling", **fields: object) -> CommittedContext:
    record = {
        "session": "s",
        "version": 1,
        "strategy": strategy,
        "from_watermark": 0,
        "watermark": 9,
        "turns": 9,
        "elided": 0,
        "tokens_before": 4_000,
        "tokens_after": 2_000,
        "last_seq": 12,
        "model": "a-provider/its-large-model",
        **fields,
    }
    return CommittedContext(
        at_ms=1_700_000_000_000,
        record=Compaction.model_validate(record),
        context=StoredContext(version=1),
    )


def _shown(capsys: pytest.CaptureFixture[str], *steps: CommittedContext) -> str:
    _print_steps([(step, ()) for step in steps])
    return capsys.readouterr().out


def test_a_price_is_told_and_summed(capsys: pytest.CaptureFixture[str]) -> None:
    told = _step(prompt_tokens=123_456, completion_tokens=1_234, cost_usd=0.01)

    shown = _shown(capsys, told, told)

    assert "123,456 + 1,234 tokens billed, $0.0100\n" in shown
    assert "$0.0200" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_price_that_is_not_known_is_not_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    known = _step(prompt_tokens=10, completion_tokens=1, cost_usd=0.01)
    unknown = _step(prompt_tokens=10, completion_tokens=1, cost_usd=None)

    shown = _shown(capsys, known, unknown)

    assert "10 + 1 tokens billed, price not known\n" in shown
    assert "$0.0100, 1 compaction of unknown price" in shown
