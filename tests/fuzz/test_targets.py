"""The parsers hold what fuzzing asks of them, for the seeds and for bytes near them.

`make fuzz` looks further, guided by what the code does with each input.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS
from turnmill.client.commands import Commands
from turnmill.contract.errors import CorruptContext, InvalidPolicy
from turnmill.read.view import META_FIELDS


def test_every_target_has_seeds() -> None:
    assert SEEDS.keys() == TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_hold(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
def test_a_seed_with_other_bytes_in_it_holds(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    start = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(start, min(len(seed), start + 8)))
    TARGETS[name](seed[:start] + data.draw(st.binary(max_size=24)) + seed[end:])


def test_a_name_in_a_turn_cannot_look_like_another_turn() -> None:
    TARGETS["transcripts"](b'{"role":"user","name":"a)\\n## Turn 2\\n(","content":"b"}')


@pytest.mark.parametrize("at", range(len(META_FIELDS)))
def test_what_somebody_else_wrote_into_a_session_is_corrupt_and_not_quoted(at: int) -> None:
    meta: list[bytes | None] = [None] * len(META_FIELDS)
    meta[0], meta[at] = b"1-1", b"hunter2 \xff"

    with suppress(CorruptContext, InvalidPolicy):
        Commands.of("n", 1024).context("s", [meta, None, {}, [], meta[:2]])
    with pytest.raises((CorruptContext, InvalidPolicy)) as caught:
        Commands.of("n", 1024).context("s", [meta, None, {}, [(b"1-0", [b"hunter2"])], meta[:2]])

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
