"""Fits `changes.bin`: which later sentence replaces which earlier one."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.fit import labelled
from benchmarks.fit.labelled import Pair, Typed
from benchmarks.fit.regression import Example, fitted
from turnmill_worker.reading import changes, linear
from turnmill_worker.reading.passages import sentences

STRENGTH = 0.3

NEAR, UPDATE, BESIDE, FAR, CROSSED = 3.0, 3.0, 2.0, 0.5, 0.5
"""What an example weighs: a remark that is only near a rule, an update, what is said beside a rule
in the same session, what other people say, and an update of something else."""

NEAREST, OF_OTHERS = 8, 4
"""Earlier sentences that a later one is put beside: of its session, and of other people."""

CHATTER = 150
"""Messages of different people that are taken for one session."""

_ASIDE = 240
_ASKS = "?？؟"

Turns = Sequence[tuple[int, str]]


def statements(text: str) -> list[str]:
    """What a message says that may change something."""
    return [each for each in sentences(text) if each[-1] not in _ASKS and len(each) <= _ASIDE]


def near(said: Turns, most: int = NEAREST) -> Iterator[tuple[str, str]]:
    """Each sentence with the earlier ones that it shares most with, as a reader meets them."""
    stated: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for turn, newer in said:
        roots = sorted({word.root for word in changes.told(newer)} - {0})
        met = Counter(each for root in roots for each in stated[root])
        for (when, older), _ in met.most_common(most):
            if when != turn and older != newer:
                yield older, newer
        for root in roots:
            stated[root] = [*stated[root], (turn, newer)][-NEAREST:]


def changed_in(session: Sequence[Typed]) -> tuple[list[tuple[int, str]], set[tuple[str, str]]]:
    """The sentences of a session with their turns, and the pairs that were a change."""
    laid_down: dict[str, list[str]] = {}
    said, changed = [], set()
    for turn, (message, rule, change) in enumerate(session):
        for each in statements(message.text):
            said.append((turn, each))
            if change and _same(each, change[1]):
                changed |= {(older, each) for older in laid_down.get(change[0], ())}
        if rule:
            same = [each for each in statements(message.text) if _same(each, rule[1])]
            laid_down[rule[0]] = same or [rule[1]]
    return said, changed


def _same(sentence: str, marked: str) -> bool:
    return sentence in marked or marked.strip(" .,;!") in sentence


def examples() -> Iterator[Example]:
    """All that is fitted to."""
    for pair in labelled.remarks("fitted"):
        found = [buckets for each in statements(pair.newer) if (buckets := _of(pair.older, each))]
        # Of several sentences nobody knows which one takes the rule back.
        if not pair.replaced or len(found) == 1:
            weight = 1.0 if pair.replaced else NEAR
            yield from (Example(each, 1.0, pair.replaced, weight) for each in found)
    yield from _updated(labelled.updates())
    for session in labelled.sessions("fitted"):
        said, changed = changed_in(session)
        yield from _weighed(sorted(changed), 1.0, is_one=True)
        others = (pair for pair in near(said) if pair not in changed)
        yield from _weighed(others, BESIDE, is_one=False)
    chosen = random.Random(5)
    for messages in labelled.messages(labelled.FITTED).values():
        chosen.shuffle(messages)
        for at in range(0, len(messages), CHATTER):
            told = enumerate(messages[at : at + CHATTER])
            said = [(turn, each) for turn, message in told for each in statements(message.text)]
            yield from _weighed(near(said, OF_OTHERS), FAR, is_one=False)


def _updated(pairs: Sequence[Pair]) -> Iterator[Example]:
    """Updates of facts; each is put beside other facts, too, of which it says nothing."""
    for older, newer, replaced in pairs:
        yield from _weighed(((older, each) for each in statements(newer)), UPDATE, is_one=replaced)
    known = [pair for pair in pairs if pair.replaced]
    holding: dict[int, list[int]] = defaultdict(list)
    for at, pair in enumerate(known):
        for root in sorted({word.root for word in changes.told(pair.older)} - {0}):
            holding[root].append(at)
    for at, pair in enumerate(known):
        for newer in statements(pair.newer):
            met = Counter(
                other for word in changes.told(newer) if word.root for other in holding[word.root]
            )
            others = [known[other].older for other, _ in met.most_common(NEAREST) if other != at]
            crossed = ((older, newer) for older in others if older != pair.older)
            yield from _weighed(crossed, CROSSED, is_one=False)


def _weighed(pairs: Iterable[tuple[str, str]], weight: float, *, is_one: bool) -> Iterator[Example]:
    for older, newer in pairs:
        if found := _of(older, newer):
            yield Example(found, 1.0, is_one, weight)


def _of(older: str, newer: str) -> list[int]:
    return changes.features(older, newer)


def weights() -> bytes:
    """The weights, as `reading.changes` reads them."""
    size = linear.MASK + 1
    return fitted(list(examples()), size=size, strength=STRENGTH, unit=changes.UNIT)
