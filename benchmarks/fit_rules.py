"""Fit the weights of `turnmill.rules.scored`, and measure them on messages they were not fitted to.

    pip install scikit-learn  # for --fit
    python -m benchmarks.fit_rules ../shared/data           # what rules are found, and what else
    python -m benchmarks.fit_rules ../shared/data --fit     # write the weights first

The messages of tests/data/rules have their rules between ``[[`` and ``]]``; one without has none.
Real conversations, which are not part of the project, add what users say that is no rule: without
them a fourth of their messages is taken for one. `held_out` is never fitted to, but the bounds of
`turnmill.rules.laid_down` were chosen on it. The labelled real messages are fitted to.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import turnmill.rules
from turnmill.rules import scored
from turnmill.rules.clauses import Span, clauses, lowered, sentences
from turnmill.rules.find import Clause, find_rules
from turnmill.rules.quoted import own_words

TESTS = Path(__file__).parents[1] / "tests" / "data"
FITTED, HELD_OUT = TESTS / "rules" / "fitted", TESTS / "rules" / "held_out"
SESSIONS = TESTS / "rules" / "sessions"
BESIDE = "other_languages"
"""The folder in each of them with a file for each language beside English."""

REGULARIZATION = 20.0
"""`C` of the regression: smaller is stronger."""

WEIGHT_BESIDE = 2.0
"""Of a clause in another language: there are far fewer of each, and features are its own."""

MOST = 127
"""Steps of a weight."""


Places = Sequence[tuple[int, int]]


class Message(NamedTuple):
    """What somebody wrote, and where its rule stands, if it has one."""

    text: str
    rule: Span | None


def written(*paths: Path) -> Iterator[Message]:
    """The messages of files."""
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            before, opened, rest = line.replace("\\n", "\n").partition("[[")
            rule, _, after = rest.partition("]]")
            place = Span(len(before), len(before) + len(rule)) if opened else None
            yield Message(before + rule + after, place)


_MARKED = re.compile(r"\[\[(\w+)\|(.*?)\]\]|\{\{(\w+)\|(.*?)\}\}")

Named = tuple[str, str]


class Typed(NamedTuple):
    """A message of a session: the rule it lays down and the one it changes, by their names."""

    text: str
    rule: Named | None
    change: Named | None
    place: Span | None
    """Of the rule."""


def session(path: Path) -> Iterator[Typed]:
    """What one person types, in order; a message has one mark at most."""
    for line in path.read_text(encoding="utf-8").splitlines():
        whole = line.replace("\\n", "\n")
        rule, change, place = None, None, None
        if found := _MARKED.search(whole):
            rule = (found[1], found[2]) if found[1] else None
            change = (found[3], found[4]) if found[3] else None
            place = Span(found.start(), found.start() + len(found[2])) if found[1] else None
        yield Typed(_MARKED.sub(r"\2\4", whole), rule, change, place)


def typed(*paths: Path) -> Iterator[Message]:
    """What one person types in a whole session, without what changes a rule said before."""
    for path in paths:
        yield from (Message(each.text, each.place) for each in session(path) if not each.change)


def handwritten() -> Iterator[Message]:
    """The plainly worded messages of tests/data/rules.jsonl."""
    for line in (TESTS / "rules.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        start = row["text"].find(row["rule"]) if row["rule"] else -1
        yield Message(row["text"], Span(start, start + len(row["rule"])) if start >= 0 else None)


def clauses_of(text: str) -> Iterator[tuple[Span, str]]:
    """Where the clauses of a message stand, and what they say in lower case."""
    low = lowered(own_words(text))
    for sentence in sentences(low):
        for start, end in clauses(low, sentence):
            yield Span(start, end), low[start:end]


def said_in(folder: Path) -> list[tuple[str, bool]]:
    """Different clauses of users in real conversations, and whether they are of rules.

    A message without a label has none; what can be either by its label is left out.
    """
    labels = {
        (row["family"], row["conversation"], row["message"]): row
        for path in (TESTS / "rule_labels.jsonl", TESTS / "rules" / "real.jsonl")
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    }
    found: dict[str, bool] = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        family = path.name.partition(".")[0]
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for session in map(json.loads, lines):
                for at, message in enumerate(session["messages"]):
                    label = labels.get((family, session["session_id"], at), _NOTHING)
                    if message["role"] == "user" and isinstance(message["content"], str):
                        found |= _said(message["content"], **label)
    return sorted(found.items())


_NOTHING: dict[str, Any] = {"rules": (), "either": ()}


def _said(text: str, rules: Places, either: Places, **_: object) -> dict[str, bool]:
    found = {}
    for span, said in clauses_of(text):
        is_rule = any(_shared(span, Span(*each)) for each in rules)
        if is_rule or not any(_shared(span, Span(*each)) for each in either):
            found[said] = is_rule
    return found


def _shared(one: Span | Clause, other: Span | Clause) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def labelled(messages: Iterable[Message]) -> Iterator[tuple[str, bool]]:
    """Each clause, and whether it is (half of it at least) part of its message's rule."""
    for message in messages:
        for span, said in clauses_of(message.text):
            shared = _shared(span, message.rule) if message.rule else 0
            yield said, 2 * shared >= span.end - span.start and shared > 0


def fitted(rows: Sequence[tuple[str, bool]], beside: Sequence[tuple[str, bool]]) -> bytes:
    """The weights, as `scored` reads them; clauses in other languages stand ``beside``."""
    # Not among what developing takes.
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for said, _ in (*rows, *beside):
        found = sorted(scored.buckets(said))
        columns += found
        values += [1 / math.sqrt(len(found))] * len(found)
        ends.append(len(columns))
    matrix = csr_matrix((values, columns, ends), shape=(len(ends) - 1, scored.BUCKETS))
    regression = LogisticRegression(C=REGULARIZATION, max_iter=3000)
    regression.fit(
        matrix,
        [is_rule for _, is_rule in (*rows, *beside)],
        sample_weight=[1.0] * len(rows) + [WEIGHT_BESIDE] * len(beside),
    )
    return in_steps(regression, scored.UNIT)


def in_steps(regression: Any, unit: float) -> bytes:
    """The weights of a regression and its bias, a signed byte each, in steps of a unit."""
    weights = (*regression.coef_[0], regression.intercept_[0])
    steps = (max(-MOST, min(MOST, round(weight / unit))) for weight in weights)
    return array("b", steps).tobytes()


def found_and_taken(messages: Sequence[Message]) -> tuple[float, float]:
    """The shares of rules that are found, and of messages without one in which something is."""
    rules = [(text, rule) for text, rule in messages if rule]
    others = [text for text, rule in messages if not rule]
    found = sum(any(_shared(it, rule) for it in find_rules(text)) for text, rule in rules)
    return found / len(rules), sum(bool(find_rules(text)) for text in others) / len(others)


def main() -> None:
    """Fits, if asked to, and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="the folder of real conversations")
    parser.add_argument("--fit", action="store_true", help="write new weights")
    options = parser.parse_args()
    if options.fit:
        handmade = labelled([*written(*sorted(FITTED.glob("*.txt"))), *handwritten()])
        rows = [*handmade, *said_in(options.data)]
        beside = [*labelled(written(*sorted((FITTED / BESIDE).glob("*.txt"))))]
        beside += labelled(typed(*sorted((SESSIONS / "fitted").glob("*.txt"))))
        model = Path(turnmill.rules.__path__[0]) / scored.MODEL
        model.write_bytes(fitted(rows, beside))
        scored.weights_of.cache_clear()
        rules = sum(is_rule for _, is_rule in (*rows, *beside))
        print(f"{model}: fitted to {len(rows) + len(beside):,} clauses, {rules:,} of rules")
    for path in sorted(HELD_OUT.rglob("*.txt")):
        found, taken = found_and_taken(list(written(path)))
        print(f"{path.stem}: {found:.1%} of the rules found, {taken:.1%} of the others taken")


if __name__ == "__main__":
    main()
