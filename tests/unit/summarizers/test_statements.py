"""A model's statements in a context: as many as leave no less of the turns than without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmill import Policy
from turnmill.contract.context import JsonMessage
from turnmill.contract.estimate import Counter
from turnmill.contract.policy import OFFLINE
from turnmill_cli.evaluate.measuring import InMemorySession, MeteredSummarizer
from turnmill_worker.compaction.items import Item, items_of, told
from turnmill_worker.compaction.plan import Plan, SummaryRequest
from turnmill_worker.errors import SummarizerUnavailable
from turnmill_worker.pipeline.summarize import Draft, Writer
from turnmill_worker.ports.values import Summary
from turnmill_worker.summarizers.extractive import ExtractiveSummarizer
from turnmill_worker.templates.loader import TemplateLoader
from turnmill_worker.tokens import CountedOnce, counter_for

POLICY = Policy(max_tokens=1_500, summarizer="openai", quality_threshold=0.0)
COUNTER = CountedOnce(counter_for())


class Model:
    """States what it is told to, or one short thing of each turn."""

    def __init__(self, *said: Item) -> None:
        self.said = said
        self.is_down = False

    def summarize(self, request: SummaryRequest, counter: Counter) -> Summary:  # noqa: ARG002
        """The items that stood before, and new ones."""
        if self.is_down:
            raise SummarizerUnavailable
        before = [] if request.brief else items_of(request.previous)
        seqs = sorted({seq for seq, _ in request.records})
        moved = ((f"Crate C-{seq * 7} moved to dock {seq}", seq) for seq in seqs)
        new = self.said or [Item("done", text, (seq,)) for text, seq in moved]
        items = (*before, *new)
        return Summary(text=told(items), model="m", items=items, added=len(new))


class Both:
    """Writes each draft with the model, and notes the one without it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.seen: list[tuple[Draft, Draft]] = []

    def best(self, plan: Plan, counter: Counter, *, patient: bool = False) -> Draft:  # noqa: ARG002
        """The draft by both."""
        offline = ExtractiveSummarizer()
        alone = Writer(lambda _: [offline], TemplateLoader()).best(plan, counter)
        both = Writer(lambda _: [self._model, offline], TemplateLoader()).best(plan, counter)
        self.seen.append((both, alone))
        return both


def played(model: Model, talk: Sequence[JsonMessage], **fields: Any) -> list[tuple[Draft, Draft]]:
    metered = MeteredSummarizer(ExtractiveSummarizer(), COUNTER)
    session = InMemorySession(POLICY.model_copy(update=fields), "", metered)
    writing = Both(model)
    session._writer = writing  # type: ignore[assignment]
    for at, message in enumerate(talk):
        model.is_down = fields.get("down", False) and at > len(talk) // 2
        session.push(message)
    return writing.seen


def talk(turns: int = 80) -> Iterator[JsonMessage]:
    for at in range(1, turns + 1):
        role = "assistant" if at % 2 else "user"
        who = f"the crew of ship S{at % 9}"
        text = f"Crate C-{at * 7} was moved to dock {at} by {who}, they say, on day {at}."
        yield {"role": role, "content": text}


def written(model: Model, **fields: Any) -> list[tuple[Draft, Draft]]:
    return [each for each in played(model, list(talk()), **fields) if each[0].plan.requests]


@pytest.mark.parametrize("strategies", [("rolling", "window"), ("iterations", "window")])
def test_a_context_with_statements_scores_no_less_than_without(strategies: tuple[str, ...]) -> None:
    seen = written(Model(), strategies=strategies)

    assert len(seen) > 1
    assert any(both.items.get("kept") for both, _ in seen)
    for both, alone in seen:
        assert both.score >= alone.score
        assert both.quality is not None
        if both.summaries[0].model == "m" and both.record.strategy == "rolling":
            assert both.items["kept"] > 0
            assert both.context.summary.startswith("- done: Crate C-")
            assert 0 < both.quality.parts["text"] < both.score


def test_statements_that_say_less_than_what_they_stand_for_are_left_out() -> None:
    nothing = Item("finding", "It was all about this and that and more of the same " * 9, (1,))

    for both, alone in written(Model(nothing)):
        assert both.summaries[0].model == OFFLINE
        assert both.context.summary == alone.context.summary
        assert both.failed == ("UnusableSummary: outweighed",)
        assert both.items == {"outweighed": 1}


def test_statements_stay_when_the_model_is_down() -> None:
    model = Model()
    session = InMemorySession(POLICY, "", MeteredSummarizer(ExtractiveSummarizer(), COUNTER))
    writing = session._writer = Both(model)  # type: ignore[assignment]
    before = ""
    for message in talk():
        session.push(message)
        if items_of(session.stored.summary) and not model.is_down:
            model.is_down, before = True, session.stored.summary

    *_, (last, _) = writing.seen
    assert last.summaries[0].model == OFFLINE
    assert last.failed == ("SummarizerUnavailable",)
    assert {*items_of(last.context.summary)} <= {*items_of(before)}
    assert items_of(last.context.summary)


def test_what_a_user_has_changed_is_stated_no_more() -> None:
    texts = ("Ship the crates to pier 14 by Friday.", "Ship the crates to pier 29 instead.")
    said = [*({"role": "user", "content": text} for text in texts), *talk()]
    old, new = (Item("decision", f"Crates ship to pier {pier}.", (1,)) for pier in (14, 29))
    seen = [both for both, _ in played(Model(old, new), said) if both.plan.requests]

    stated = [own for both in seen for _, own in both.statements]
    assert new in stated
    assert old not in stated


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.text("abc dock crate C-7 14 S3 the", min_size=1, max_size=90), max_size=6))
def test_whatever_is_stated_no_context_is_worse(texts: list[str]) -> None:
    items = [Item("done", " ".join(text.split()) or "x", (1,)) for text in texts]

    for both, alone in written(Model(*items)):
        assert both.score >= alone.score
