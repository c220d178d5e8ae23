"""What real models wrote to prompts of ours: read, verified and merged as in a worker.

`recorded` has the answers of `python -m benchmarks.real_model --model NAME --out FOLDER`, its
`answers.jsonl`, to agent work that is made from seeds. No model is needed here.
"""

import functools
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.real_model.play import Recorded, Row, played, recorded_answers, replayed
from benchmarks.real_model.sessions import Session, made
from turnmill_cli.evaluate.measuring import text_of
from turnmill_worker.compaction.items import Item, items_of
from turnmill_worker.summarizers.openai.answers import items_in
from turnmill_worker.summarizers.openai.endpoint import ModelOptions
from turnmill_worker.summarizers.openai.summarizer import OpenAiSummarizer

FOLDER = Path(__file__).parent / "recorded"
FILES = sorted(FOLDER.glob("*.jsonl"))
NUMBER = re.compile(r"\w*\d[\w.,:/-]*\w|\d")


def words_of(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


@functools.cache
def rows(file: Path) -> list[tuple[Session, Row]]:
    found = []
    model = OpenAiSummarizer(Recorded((), file.stem), ModelOptions(model=file.stem))
    for name, (max_tokens, answers) in recorded_answers(file).items():
        session, model_of = made(name, max_tokens), replayed(answers, model)
        found += [(session, row) for row in played(session, model_of, max(answers))]
    return found


def items_committed(row: Row) -> list[Item]:
    return items_of(row.draft.context.summary)


def faults(session: Session, row: Row) -> Iterator[str]:
    """What is wrong with the items of a context, told without the code that checked them."""
    said = dict(enumerate(session.messages[: row.plan.cut], 1))
    everything = "\n".join(text_of(message) for message in said.values()).lower()
    users = [words_of(text_of(each)) for each in said.values() if each["role"] == "user"]
    items = items_committed(row)
    for item in items:
        if not item.seqs or not set(item.seqs) <= said.keys():
            yield f"cites what is not there: {item.line}"
        users_own = any(words_of(item.text) in text for text in users)
        if item.kind in ("rule", "said") and not users_own:
            yield f"was not said by the user: {item.line}"
        for number in NUMBER.findall(item.text.lower()):
            if number not in everything:
                yield f"has a number that nobody named: {item.line}"
        if "<<" in item.text:
            yield f"has marks in it: {item.line}"
    if len({words_of(item.text) for item in items}) < len(items):
        yield "says something twice"


def test_answers_of_three_models_are_recorded_and_every_drop_has_a_reason() -> None:
    assert [file.stem for file in FILES] == ["qwen0.5b", "qwen1.5b", "smollm2"]
    for file in FILES:
        assert any(row.draft.items for _, row in rows(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_item_is_committed_that_fails_a_check(file: Path) -> None:
    found = [fault for session, row in rows(file) for fault in faults(session, row)]

    assert not found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_of_a_model_that_is_mostly_wrong_only_quotations_of_the_user_stay(file: Path) -> None:
    *_, last = rows(file)
    items = [item for row in rows(file)[2:] for item in items_committed(row[1])]

    assert last[1].draft.items
    assert {item.kind for item in items} <= {"said", "rule"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_context_says_less_than_without_the_model(file: Path) -> None:
    scores = [(row.draft.score, row.twin.score) for _, row in rows(file)]

    assert scores
    assert all(own >= twin for own, twin in scores)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_answer_that_is_cut_off_anywhere_gives_a_beginning_of_its_items(file: Path) -> None:
    for _, answers in recorded_answers(file).values():
        for text, _ in chain.from_iterable(answers.values()):
            whole = items_in(text)
            for end in range(0, len(text), 97):
                part = items_in(text[:end])
                assert part[:-1] == whole[: len(part[:-1])]
