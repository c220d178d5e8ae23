"""What a sentence keeps in telegraph style."""

from __future__ import annotations

import pytest

from turnmill_worker.compaction.pool.telegraph import telegraph


@pytest.mark.parametrize(
    ("sentence", "shortened"),
    [
        ("I read the contract twice.", "I read contract twice."),
        ("I've set the alarm to six.", "I set alarm to six."),
        ("I bring the cake.", "I bring cake."),
        ("I went to the lake.", "went to lake."),
        ("I love the lake.", "love lake."),
        ("I've moved to Graz.", "moved to Graz."),
    ],
)
def test_an_i_stays_before_what_would_read_like_an_order(sentence: str, shortened: str) -> None:
    assert telegraph(sentence) == shortened
