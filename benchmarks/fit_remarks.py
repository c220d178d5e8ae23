"""Fit the weights of `turnmill.rules.remark_score`, and measure them on pairs kept from that.

    pip install scikit-learn  # for --fit
    python -m benchmarks.fit_remarks          # what is shown beside rules, and what else
    python -m benchmarks.fit_remarks --fit    # write the weights first

The pairs of tests/data/rules/remarks were written by hand: a rule, what the same user says much
later, and whether that ends the rule, changes it, or leaves it as it is, which 685 of them do
though they are near it in topic and words. Most of what users say is further away: sentences of
other messages that share a word with a rule stand for that. `held_out` is never fitted to, but the
bound of `turnmill.rules.remarks` was chosen on it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import turnmill.rules
from benchmarks.fit_rules import FITTED, SESSIONS, in_steps, session, written
from turnmill.contract.names import Seq
from turnmill.rules import remark_score, scored
from turnmill.rules.remarks import sentences_of
from turnmill.rules.standing import Said, in_force

PAIRS = Path(__file__).parents[1] / "tests" / "data" / "rules" / "remarks"
REGULARIZATION = 0.3
"""`C` of the regression: smaller is stronger."""

NEAR, BESIDE, FAR = 4.0, 1.0, 0.05
"""What an example counts that leaves a rule as it is: one near it, one of the same session, and one
of anything else."""

RULES, OTHERS = 5000, 4
"""Rules beside which sentences of other messages are put, and how many of each."""


class Pair(NamedTuple):
    """A rule, and what was said later; ``relation`` is ``ends``, ``changes`` or ``none``."""

    first: str
    later: str
    relation: str


def pairs(folder: Path) -> list[Pair]:
    """The pairs of all files in a folder."""
    return [
        Pair(**json.loads(line))
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def fitted(known: Sequence[Pair]) -> bytes:
    """The weights, as `remark_score` reads them."""
    # Not among what developing takes.
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    columns: list[int] = []
    ends, labels, weights = [0], [], []
    for found, is_remark, weight in [*_near(known), *_beside(), *_far(known)]:
        columns += sorted(found)
        ends.append(len(columns))
        labels.append(is_remark)
        weights.append(weight)
    matrix = csr_matrix(([1.0] * len(columns), columns, ends), (len(labels), remark_score.BUCKETS))
    regression = LogisticRegression(C=REGULARIZATION, max_iter=4000)
    regression.fit(matrix, labels, sample_weight=weights)
    return in_steps(regression, remark_score.UNIT)


Example = tuple[frozenset[int], bool, float]


def _near(known: Sequence[Pair]) -> Iterator[Example]:
    """What the pairs say, where it is certain which of several sentences says it."""
    for first, later, relation in known:
        said = [remark_score.features(each, first) for each in sentences_of(later)]
        linked = list(filter(None, said))
        for found in linked if relation == "none" or len(linked) == 1 else ():
            yield found, relation != "none", NEAR if relation == "none" else 1.0


def _beside() -> Iterator[Example]:
    """Rules, and every sentence that is said later in the same session and shares a word."""
    for path in sorted((SESSIONS / "fitted").glob("*.txt")):
        rules: dict[str, str] = {}
        for text, laid_down, changed, _ in session(path):
            change = changed[1] if changed else ""
            told = sentences_of(text)
            for name, rule in rules.items():
                for said in told:
                    if found := remark_score.features(said, rule):
                        same = said in change or (change and change.strip(" .,;!") in said)
                        changes = changed is not None and changed[0] == name and bool(same)
                        yield found, changes, 1.0 if changes else BESIDE
            rules |= [laid_down] if laid_down else []


def _far(known: Sequence[Pair]) -> Iterator[Example]:
    """Rules, and sentences of other people's messages that share a word with them."""
    chosen = random.Random(5)
    messages = list(written(*sorted(FITTED.glob("*.txt"))))
    sentences = [said for message in messages for said in sentences_of(message.text)]
    holding: dict[str, list[int]] = defaultdict(list)
    for at, sentence in enumerate(sentences):
        for root in remark_score.roots_of(sentence):
            holding[root].append(at)
    rules = [pair.first for pair in known]
    rules += [text[slice(*rule)] for text, rule in messages if rule]
    for rule in chosen.sample(rules, RULES):
        near = {
            at
            for root in sorted(remark_score.roots_of(rule))
            for at in chosen.sample(holding[root], min(OTHERS, len(holding[root])))
        }
        for at in chosen.sample(sorted(near), min(OTHERS, len(near))):
            if found := remark_score.features(sentences[at], rule):
                yield found, False, FAR


def shown_and_ended(known: Sequence[Pair], *relations: str) -> tuple[float, float]:
    """The shares of rules that are no longer stated as they were, and that are gone.

    Of the pairs of these relations, as far as their rule is found.
    """
    marked = ended = whole = 0
    for first, later, relation in known:
        before = in_force((), [_said(1, first)])
        if relation in relations and before:
            after = {rule.id: rule for rule in in_force(before, [_said(9, later)])}
            whole += 1
            ended += any(rule.id not in after for rule in before)
            marked += any(after.get(rule.id) != rule for rule in before)
    return marked / whole, ended / whole


def _said(seq: int, text: str) -> Said:
    return Said(Seq(seq), ({"role": "user", "content": text},))


def main() -> None:
    """Fits, if asked to, and measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="write new weights")
    if parser.parse_args().fit:
        known = pairs(PAIRS / "fitted")
        model = Path(turnmill.rules.__path__[0]) / remark_score.MODEL
        model.write_bytes(fitted(known))
        scored.weights_of.cache_clear()
        remark_score.speaks_of.cache_clear()
        print(f"{model}: fitted to {len(known):,} pairs")
    for name in ("fitted", "held_out"):
        known = pairs(PAIRS / name)
        taken_back, ended = shown_and_ended(known, "ends", "changes")
        others, lost = shown_and_ended(known, "none")
        print(f"{name}: of rules taken back {taken_back:.1%} say so ({ended:.1%} are gone),")
        print(f"    of others {others:.1%} are marked ({lost:.1%} are gone)")


if __name__ == "__main__":
    main()
