"""What a question is about counts, and less how it is asked."""

from __future__ import annotations

import pytest

from turnmill_worker.grounding import MemoryIndex
from turnmill_worker.ports.records import Memory


def index_of(*texts: str) -> MemoryIndex:
    return MemoryIndex(Memory(id=text, kind="pushed", text=text) for text in texts)


@pytest.mark.parametrize("verb", ["mention", "told", "recommended", "discussing"])
def test_a_verb_of_saying_counts_half(verb: str) -> None:
    told, named = index_of("rent 900", f"{verb} 900").search(f"What did I {verb} about rent?", 5)
    assert (told.memory.text, named.memory.text) == ("rent 900", f"{verb} 900")
    assert told.relevance == pytest.approx(2 * named.relevance)


def test_a_question_about_nothing_but_saying_is_answered_as_well_as_any_other() -> None:
    (said,) = index_of("I mentioned it", "rent").search("Did I mention it?", 5)
    (painted,) = index_of("I painted it", "rent").search("Did I paint it?", 5)
    assert said.relevance == painted.relevance
