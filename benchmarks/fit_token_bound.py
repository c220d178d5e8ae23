"""Check, and fit again, the tables of `turnmill.contract.estimate.bound_tokens`.

    export PYTHONPATH=.:producer:worker
    python tests/benchmarks/fit_token_bound.py ../shared/data            # check: violations=0
    python tests/benchmarks/fit_token_bound.py ../shared/data --fit      # print new tables
    python tests/benchmarks/fit_token_bound.py ../shared/data --search 600   # new classes too

Checking draws hostile text with another seed than fitting, so it is a test on unseen text; `--seed`
draws yet other text. Fitting needs numpy and scipy. Exact counts are the larger of o200k_base's and
cl100k_base's. Exits with 1 when a bound was exceeded,
contrived text apart: that is shown, not promised.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import sys
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import hostile_text
from turnmill.contract import estimate
from turnmill.contract.image_tokens import DEFAULT_FORMULA, FORMULAS
from turnmill_worker.tokens import count_request, counter_for

COUNTERS = (counter_for("o200k_base"), counter_for("cl100k_base"))
IMAGES = FORMULAS[DEFAULT_FORMULA]
FITTED_SEEDS, CHECKED_SEED = (1, 2, 3, 4, 5, 6, 7), 11
SIZES = ((40, 1), (150, 2), (600, 2), (2400, 1))
MARGIN, PAIR_CAP, LEAD_CAP = 1.08, 1.5, 4.0
# A pair of ASCII characters costs at least this, beside a space or a quote nothing: a pair that is
# cheap in all we drew could be repeated in what we did not.
PAIR_FLOOR = 0.08
# What a kind of text weighs in the objective. Hostile text is there for its constraints.
WEIGHTS = {"turn": 3.0, "text": 1.0, "file": 0.35, "hostile": 0.003}
FILES = "py md rst txt json js css html toml yaml pyi c h po svg xml cfg csv sh"
FIRST_LEAD, LEADS = 0xC2, 0xF5 - 0xC2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One text, what it truly costs, and which kind of text it is."""

    group: str
    kind: str
    data: bytes
    tokens: int
    images: int = 0

    @property
    def bound(self) -> int:
        """What the code under test says."""
        return estimate.bound_turn(self.data)

    @property
    def floor(self) -> float:
        """What pairs and leads must sum to for this row, in tokens."""
        return min(self.tokens * MARGIN - estimate._SLACK, len(self.data))


def exact(text: str) -> int:
    """Return the tokens of `text` in whichever vocabulary needs more."""
    return max(counter.count(text) for counter in COUNTERS)


def turn_row(kind: str, messages: list[dict[str, Any]], group: str = "turn") -> Row:
    """Return the row of a serialized turn, with its images' data URLs cut out of it."""
    body = json.dumps({"messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()
    tokens = max(count_request(counter, messages) for counter in COUNTERS)
    _, images = estimate.without_images(body, IMAGES)
    return Row(group=group, kind=kind, data=body, tokens=tokens, images=images)


def text_row(group: str, kind: str, text: str) -> Row:
    """Return the row of plain text."""
    text = text.encode("utf-8", "replace").decode()
    return Row(group=group, kind=kind, data=text.encode(), tokens=exact(text))


def real(folder: Path) -> Iterator[Row]:
    """Yield real messages as turns, alone and several together, and their texts as text."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        for line in gzip.decompress(path.read_bytes()).splitlines():
            messages = json.loads(line)["messages"]
            for message in messages:
                yield turn_row(name, [message])
                texts = [c["function"]["arguments"] for c in message.get("tool_calls") or []]
                if isinstance(message.get("content"), str):
                    texts.append(message["content"])
                yield from (text_row("text", name, text) for text in texts if text)
            for start in range(0, len(messages), 6):
                yield turn_row(f"{name} of 6", messages[start : start + 6])
            yield turn_row(f"{name} whole", messages)


def files(chance: random.Random) -> Iterator[Row]:
    """Yield pieces of the source, documentation and data files that come with Python."""
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    for kind in FILES.split():
        found = sorted({path for root in roots for path in Path(root).rglob(f"*.{kind}")})
        for path in chance.sample(found, min(len(found), 120 if kind == "py" else 50)):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            for size in chance.choices((300, 1000, 3000), k=4):
                start = chance.randrange(max(1, len(text) - size))
                yield text_row("file", kind, text[start : start + size] or "empty")


def hostile(seed: int) -> Iterator[Row]:
    """Yield hostile text of several sizes, plain and as what a user said, and odd structures."""
    chance = random.Random(seed)
    for size, times in SIZES:
        for _ in range(times):
            for kind, text in hostile_text.hostile(chance, size):
                if not text:
                    continue
                row = text_row("hostile", f"{kind} ({size})", text)
                yield row
                if size == 600:
                    said = {"role": "user", "content": row.data.decode()}
                    yield turn_row(f"{kind} ({size}), said", [said], "hostile")
    for kind, text in hostile_text.contrived(chance, 600):
        yield text_row("contrived", kind, text)
    for kind, messages in hostile_text.structures(chance):
        yield turn_row(kind, messages, "hostile")


def rows(folder: Path, seeds: tuple[int, ...]) -> list[Row]:
    """Return all rows, hostile text drawn with each of `seeds`."""
    drawn = [row for seed in seeds for row in (*files(random.Random(seed)), *hostile(seed))]
    return [*real(folder), *drawn]


# Check ---------------------------------------------------------------------------------------


def check(all_rows: list[Row]) -> int:
    """Print a line per data set and the violations; return how many there were."""
    groups: dict[str, list[tuple[float, Row]]] = defaultdict(list)
    violations = []
    for row in all_rows:
        name = row.group if row.group in {"hostile", "contrived"} else f"{row.group} {row.kind}"
        bound, images = row.bound, row.images
        if bound < row.tokens and row.group != "contrived":
            violations.append(row)
        groups[name].append(((bound - images) / max(1, row.tokens - images), row))
    print(f"{'':28}{'n':>7}{'mean':>7}{'total':>7}{'p99':>7}{'max':>7}{'min':>7}")
    for name, found in sorted(groups.items()):
        _print_group(name, found)
    for row in violations[:40]:
        print(f"EXCEEDED {row.group} {row.kind}: {row.tokens} > {row.bound}, {len(row.data)} bytes")
    print(f"rows={len(all_rows)} violations={len(violations)}")
    return len(violations)


def _print_group(name: str, found: list[tuple[float, Row]]) -> None:
    ratios = sorted(ratio for ratio, _ in found)
    exact_sum = sum(row.tokens - row.images for _, row in found)
    bound_sum = sum(row.bound - row.images for _, row in found)
    p99 = ratios[math.ceil(0.99 * len(ratios)) - 1]
    shown = (sum(ratios) / len(ratios), bound_sum / exact_sum, p99, ratios[-1], ratios[0])
    print(f"{name:28}{len(found):7}" + "".join(f"{number:7.2f}" for number in shown))


# Fit -----------------------------------------------------------------------------------------


class Fit:
    """The linear programme: costs of pairs and leads, for given classes."""

    def __init__(self, all_rows: list[Row]) -> None:
        """Count the byte pairs and leads of every row once; classes only regroup them."""
        import numpy as np  # noqa: PLC0415  only fitting needs it
        from scipy import sparse  # noqa: PLC0415

        self.np, self.sparse = np, sparse
        self.rows = all_rows
        columns, starts, counts, leads = [], [0], [], []
        for row in all_rows:
            data = np.frombuffer(self._counted(row), np.uint8).astype(np.int64)
            leads.append(np.bincount(data, minlength=256)[FIRST_LEAD : FIRST_LEAD + LEADS])
            pairs, times = np.unique(data[:-1] * 256 + data[1:], return_counts=True)
            columns.append(pairs)
            counts.append(times)
            starts.append(starts[-1] + len(pairs))
        shape = (len(all_rows), 1 << 16)
        joined = (np.concatenate(counts).astype(float), np.concatenate(columns), starts)
        self.pairs = sparse.csr_matrix(joined, shape=shape)
        self.leads = np.array(leads, float)
        images = np.array([row.images for row in all_rows])
        self.floors = np.array([row.floor for row in all_rows]) - images * MARGIN
        tokens = np.array([row.tokens for row in all_rows]) - images
        self.weights = np.array([WEIGHTS[row.group] for row in all_rows]) / np.maximum(tokens, 20)

    @staticmethod
    def _counted(row: Row) -> bytes:
        return estimate.without_images(row.data, IMAGES)[0]

    def solve(self, classes: Any, active: set[int] | None = None) -> tuple[Any, float, set[int]]:
        """Return (costs, objective, binding rows), adding violated rows until there are none."""
        np = self.np
        group = (classes[:, None] * 16 + classes[None, :]).ravel()
        shape = (1 << 16, 256)
        regroup = self.sparse.csr_matrix((np.ones(1 << 16), (np.arange(1 << 16), group)), shape)
        table = np.hstack([(self.pairs @ regroup).toarray(), self.leads])
        seen = np.flatnonzero(table.any(axis=0))
        caps = np.concatenate([np.full(256, PAIR_CAP), np.full(LEADS, LEAD_CAP)])
        free = [0, classes[ord(" ")], classes[ord('"')]]
        pairs = np.full((16, 16), PAIR_FLOOR)
        pairs[free, :] = pairs[:, free] = 0
        floors = np.concatenate([pairs.ravel(), np.zeros(LEADS)])
        price = (table * self.weights[:, None]).sum(axis=0)
        used = np.random.default_rng(0).choice(len(table), min(3000, len(table)), replace=False)
        active = set(active or map(int, used))
        while True:
            chosen = np.array(sorted(active))
            costs = caps.copy()
            limits = list(zip(floors[seen], caps[seen], strict=True))
            costs[seen], value = self._minimum(table[chosen][:, seen], chosen, price[seen], limits)
            missing = (self.floors - table @ costs) / np.array([len(r.data) for r in self.rows])
            worst = [int(i) for i in np.argsort(-missing)[:500] if missing[i] > 1e-8]
            if not worst:
                slack = table[chosen] @ costs - self.floors[chosen]
                near = chosen[slack < 0.12 * np.maximum(self.floors[chosen], 10)]
                return costs, value, set(map(int, near))
            active.update(worst)

    def _minimum(self, table: Any, chosen: Any, price: Any, limits: Any) -> tuple[Any, float]:
        from scipy.optimize import linprog  # noqa: PLC0415  only fitting needs it

        left = self.sparse.csr_matrix(-table)
        found = linprog(price, A_ub=left, b_ub=-self.floors[chosen], bounds=limits, method="highs")
        if found.status:
            raise SystemExit(f"no costs are safe: {found.message}")
        return found.x, found.fun

    def search(self, classes: Any, seconds: float) -> Any:
        """Return better classes: move a character or two at a time, keep what helps.

        Letters stay with letters and signs with signs: what mixes them only fits better.
        """
        chance, ends = random.Random(0), time.monotonic() + seconds
        kinds = [[*map(ord, hostile_text.LOWER)], [*map(ord, hostile_text.PUNCTUATION), 9, 10, 13]]
        _, best, active = self.solve(classes)
        while time.monotonic() < ends:
            trial = classes.copy()
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                one, other = chance.sample(chance.choices(kinds, (2, 1))[0], 2)
                swap = chance.random() < 0.25
                trial[one], trial[other] = trial[other], trial[one if swap else other]
            if (trial == classes).all():
                continue
            _, value, near = self.solve(trial, active)
            if value < best:
                print(f"# {ends - time.monotonic():.0f} s left: {best:.1f} -> {value:.1f}")
                best, classes, active = (
                    value,
                    trial,
                    near | (active if len(active) < 4000 else set()),
                )
        return classes


def current_classes(fit: Fit) -> Any:
    """Return the class of each byte, as the code under test has it."""
    return fit.np.frombuffer(estimate._CLASS_OF, fit.np.uint8).astype(int)


def print_tables(classes: Any, costs: Any) -> None:
    """Print the tables as they stand in `estimate.py`, rounded up."""
    print("_CLASSES: Final = (")
    for number in range(16):
        members = bytes(byte for byte in range(128) if classes[byte] == number)
        print(f"    {members!r},")
    print(")\n_COSTS: Final = (")
    for first in range(16):
        row = costs[first * 16 : first * 16 + 16] * estimate._PAIR_UNIT
        print(f"    ({', '.join(str(math.ceil(cost - 1e-6)) for cost in row)}),")
    print(")\n_LEADS: Final = (")
    leads = [math.ceil(cost * estimate._LEAD_UNIT - 1e-6) for cost in costs[256:]]
    for start in range(0, LEADS, 16):
        print(f"    {', '.join(map(str, leads[start : start + 16]))},")
    print(")")


def main() -> int:
    """Check, or print what a new fit gives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="folder of *.jsonl.gz sessions")
    parser.add_argument("--fit", action="store_true", help="print tables for the classes we have")
    parser.add_argument("--search", type=float, default=0, metavar="S", help="and search classes")
    parser.add_argument("--seed", type=int, default=CHECKED_SEED, help="of hostile text to check")
    options = parser.parse_args()
    if not (options.fit or options.search):
        return 1 if check(rows(options.data, (options.seed,))) else 0
    fitted = rows(options.data, FITTED_SEEDS)
    fit = Fit([row for row in fitted if row.group != "contrived"])
    classes = current_classes(fit)
    if options.search:
        classes = fit.search(classes, options.search)
    costs, value, _ = fit.solve(classes)
    print(f"# objective {value:.1f}")
    print_tables(classes, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
